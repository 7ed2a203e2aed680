-- Operations by communicator class, function and size: counts and durations over hosts (-1: not measured), slowest host
SELECT comm_class, operation, size_class, sum(o.operations) AS calls, max(o.hosts) AS most_hosts,
  round(quantileExact(0.5)(median_ns) / 1e6, 3) AS median_ms, round(max(p95_ns) / 1e6, 3) AS worst_p95_ms,
  argMax(slowest_host, slowest_ns) AS slowest_host, round(max(bus_bytes_per_s) / 1e9, 3) AS best_gb_per_s
FROM operation_totals AS o FINAL
WHERE day >= today() - {days} AND ({cluster} = '' OR cluster = {cluster}) AND ({job} = '' OR job = {job})
GROUP BY comm_class, operation, size_class
ORDER BY calls DESC LIMIT {limit}
