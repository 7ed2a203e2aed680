-- Operations by class of communicator, function and size: counts and durations over hosts (-1: not measured), slowest host
SELECT comm_class, operation, size_class, sum(o.operations) AS calls, count() AS hosts,
  round(quantileExact(0.5)(if(median_ns > 0, median_ns, host_median_ns)) / 1e6, 3) AS median_ms,
  round(max(if(p95_ns > 0, p95_ns, host_p95_ns)) / 1e6, 3) AS worst_p95_ms,
  argMax(host, if(median_ns > 0, median_ns, host_median_ns)) AS slowest_host, round(max(bus_bytes_per_s) / 1e9, 3) AS best_gb_per_s
FROM operations AS o FINAL
WHERE day >= today() - {days} AND ({job} = '' OR job = {job}) AND ({host} = '' OR host = {host})
GROUP BY comm_class, operation, size_class
ORDER BY calls DESC LIMIT {limit}
