-- Clusters: incidents, incidents that stopped a job, jobs, job-days (from lockstep archive jobs), and stops per thousand job-days
SELECT cluster, incidents, stopped, jobs, largest_job, round(seconds / 86400, 3) AS job_days,
  if(seconds > 0, toString(round(1000 * stopped / (seconds / 86400), 2)), '') AS per_thousand_job_days, toString(newest) AS newest_utc
FROM (
  SELECT cluster, uniqExact(job, incident) AS incidents, uniqExactIf(incident, verdict IN ('HUNG', 'DESYNC', 'CRASHED')) AS stopped, uniqExact(job) AS jobs,
    max(ranks_expected) AS largest_job, max(at) AS newest
  FROM incidents
  WHERE day >= today() - {days} AND ({cluster} = '' OR cluster = {cluster})
  GROUP BY cluster
) ANY LEFT JOIN (
  SELECT cluster, sum(seconds) AS seconds FROM job_days WHERE day >= today() - {days} GROUP BY cluster
) USING cluster
ORDER BY stopped DESC, cluster LIMIT {limit}
