-- Incidents per thousand job-days, by cause; a job-day is 24 hours of one job, from lockstep archive jobs (empty without it)
SELECT verdict, kind, cause, uniqExact(job, incident) AS incidents, uniqExact(cluster, job) AS jobs,
  (SELECT round(sum(seconds) / 86400, 3) FROM job_days
    WHERE day >= today() - {days} AND ({job} = '' OR job = {job}) AND ({cluster} = '' OR cluster = {cluster})) AS job_days,
  if(job_days > 0, toString(round(1000 * incidents / job_days, 2)), '') AS per_thousand_job_days
FROM incidents
WHERE day >= today() - {days} AND verdict IN ('HUNG', 'DESYNC', 'CRASHED') AND ({job} = '' OR job = {job}) AND ({cluster} = '' OR cluster = {cluster})
GROUP BY verdict, kind, cause
ORDER BY incidents DESC, verdict, kind LIMIT {limit}
