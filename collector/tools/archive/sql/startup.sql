-- Start-up time over job size: seconds from the first call that creates a communicator until the last one returns
SELECT toUInt32(pow(2, ceil(log2(if(ranks_expected > 0, ranks_expected, 1))))) AS ranks_up_to, count() AS starts,
  round(quantileExact(0.5)(start_up_ns) / 1e9, 3) AS median_s, round(quantileExact(0.95)(start_up_ns) / 1e9, 3) AS p95_s,
  round(quantileExact(0.5)(start_up_waiting_ns) / 1e9, 3) AS waiting_s, round(quantileExact(0.5)(start_up_serial_ns) / 1e9, 3) AS serial_s,
  max(communicators) AS most_communicators
FROM (
  SELECT job, incident, ranks_expected, start_up_ns, start_up_waiting_ns, start_up_serial_ns, communicators FROM incidents
  WHERE day >= today() - {days} AND start_up_known AND start_up_ns > 0 AND ({job} = '' OR job = {job}) AND ({cluster} = '' OR cluster = {cluster})
  LIMIT 1 BY job, incident
)
GROUP BY ranks_up_to ORDER BY ranks_up_to LIMIT {limit}
