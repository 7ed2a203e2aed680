-- Bus bandwidth by operation, size and scale in each cluster, as a share of the best value in the archive
SELECT cluster, operation, size_class, ranks, hosts, incidents, round(slow / 1e9, 3) AS gb_per_s_10, round(usual / 1e9, 3) AS gb_per_s_50,
  round(fast / 1e9, 3) AS gb_per_s_90, round(best / 1e9, 3) AS best_gb_per_s, round(100 * usual / best, 1) AS percent_of_best
FROM (
  SELECT cluster, operation, size_class, ranks, hosts, uniq(real_ns) AS incidents, quantile(0.1)(bus_bytes_per_s) AS slow,
    quantile(0.5)(bus_bytes_per_s) AS usual, quantile(0.9)(bus_bytes_per_s) AS fast
  FROM speeds FINAL
  WHERE day >= today() - {days} AND bus_bytes_per_s > 0 AND ({cluster} = '' OR cluster = {cluster}) AND ({job} = '' OR job = {job})
  GROUP BY cluster, operation, size_class, ranks, hosts
) ANY LEFT JOIN (
  SELECT operation, size_class, ranks, hosts, max(bus_bytes_per_s) AS best FROM speeds FINAL GROUP BY operation, size_class, ranks, hosts
) USING operation, size_class, ranks, hosts
ORDER BY percent_of_best, incidents DESC, cluster, operation, size_class LIMIT {limit}
