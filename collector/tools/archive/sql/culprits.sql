-- Hosts and lines of code that incidents blame first: how often, in how many incidents, and when last
SELECT what, name, cluster, culprit_of, of_incidents, toString(newest) AS last_utc, last_kind, kinds
FROM (
  SELECT 'host' AS what, host AS name, cluster, count() AS culprit_of, max(at) AS newest, argMax(kind, real_ns) AS last_kind,
    arrayStringConcat(arraySort(groupUniqArray(kind)), ' ') AS kinds
  FROM (SELECT cluster, job, incident, at, real_ns, kind, hosts FROM incidents WHERE day >= today() - {days} AND kind != '' LIMIT 1 BY job, incident)
  ARRAY JOIN hosts AS host
  WHERE ({host} = '' OR host = {host}) AND {place} = '' AND ({job} = '' OR job = {job}) AND ({cluster} = '' OR cluster = {cluster})
  GROUP BY cluster, host
  UNION ALL
  SELECT 'code place' AS what, place AS name, cluster, count() AS culprit_of, max(at) AS newest, argMax(kind, real_ns) AS last_kind,
    arrayStringConcat(arraySort(groupUniqArray(kind)), ' ') AS kinds
  FROM (SELECT cluster, job, incident, at, real_ns, kind, places FROM incidents WHERE day >= today() - {days} AND kind != '' LIMIT 1 BY job, incident)
  ARRAY JOIN places AS place
  WHERE ({place} = '' OR position(place, {place}) > 0) AND {host} = '' AND ({job} = '' OR job = {job}) AND ({cluster} = '' OR cluster = {cluster})
  GROUP BY cluster, place
) ANY LEFT JOIN (
  SELECT cluster, uniqExact(job, incident) AS of_incidents FROM incidents WHERE day >= today() - {days} AND kind != '' GROUP BY cluster
) USING cluster
ORDER BY culprit_of DESC, newest DESC, name, cluster LIMIT {limit}
