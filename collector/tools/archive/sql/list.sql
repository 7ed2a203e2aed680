-- Incidents, newest first
SELECT toString(at) AS at_utc, cluster, job, verdict, kind, arrayStringConcat(arraySlice(hosts, 1, 4), ' ') AS on_hosts, ranks_read, ranks_expected, summary, incident
FROM incidents
WHERE day >= today() - {days} AND ({cluster} = '' OR cluster = {cluster}) AND ({job} = '' OR job = {job}) AND ({host} = '' OR has(hosts, {host}))
ORDER BY real_ns DESC, incident LIMIT 1 BY job, incident LIMIT {limit}
