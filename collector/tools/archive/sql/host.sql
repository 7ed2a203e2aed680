-- Operations on one host (--host) by communicator class, function and size: counts and durations (-1: not measured)
SELECT cluster, comm_class, operation, size_class, sum(o.operations) AS calls, uniqExact(incident) AS incidents,
  round(quantileExact(0.5)(if(median_ns > 0, median_ns, host_median_ns)) / 1e6, 3) AS median_ms,
  round(max(if(p95_ns > 0, p95_ns, host_p95_ns)) / 1e6, 3) AS worst_p95_ms, round(max(bus_bytes_per_s) / 1e9, 3) AS best_gb_per_s
FROM (
  SELECT * FROM operations
  PREWHERE host = {host}
  WHERE day >= today() - {days} AND ({cluster} = '' OR cluster = {cluster}) AND ({job} = '' OR job = {job})
  LIMIT 1 BY job, incident, comm_class, operation, size_class
) AS o
GROUP BY cluster, comm_class, operation, size_class
ORDER BY calls DESC LIMIT {limit}
