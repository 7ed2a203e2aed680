-- Hosts and lines of code that incidents name first: how often, of how many incidents, and when last
SELECT what, name, culprit_of,
  (SELECT count() FROM incidents FINAL WHERE day >= today() - {days} AND kind != '') AS of_incidents, toString(newest) AS last_utc, last_kind, kinds
FROM (
  SELECT 'host' AS what, host AS name, count() AS culprit_of, max(at) AS newest, argMax(kind, real_ns) AS last_kind,
    arrayStringConcat(arraySort(groupUniqArray(kind)), ' ') AS kinds
  FROM incidents FINAL ARRAY JOIN hosts AS host
  WHERE day >= today() - {days} AND kind != '' AND ({host} = '' OR host = {host}) AND {place} = '' AND ({job} = '' OR job = {job})
  GROUP BY host
  UNION ALL
  SELECT 'code place' AS what, place AS name, count() AS culprit_of, max(at) AS newest, argMax(kind, real_ns) AS last_kind,
    arrayStringConcat(arraySort(groupUniqArray(kind)), ' ') AS kinds
  FROM incidents FINAL ARRAY JOIN places AS place
  WHERE day >= today() - {days} AND kind != '' AND ({place} = '' OR position(place, {place}) > 0) AND {host} = '' AND ({job} = '' OR job = {job})
  GROUP BY place
)
ORDER BY culprit_of DESC, newest DESC, name LIMIT {limit}
