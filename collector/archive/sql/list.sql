-- Incidents, the newest first
SELECT toString(at) AS at_utc, job, verdict, kind, arrayStringConcat(arraySlice(hosts, 1, 4), ' ') AS on_hosts, ranks_read, ranks_expected, summary, incident
FROM incidents FINAL
WHERE day >= today() - {days} AND ({job} = '' OR job = {job}) AND ({host} = '' OR has(hosts, {host}))
ORDER BY real_ns DESC, incident LIMIT {limit}
