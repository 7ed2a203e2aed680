-- Slowest communicators of the week against their peers (where something measured bandwidth), with the hosts they cross
SELECT comm_name, comm_size, operation, bytes, round(bus_bytes_per_s / 1e9, 3) AS gb_per_s,
  round(if(peer_bus_bytes_per_s > 0, peer_bus_bytes_per_s, best_bus_bytes_per_s) / 1e9, 3) AS peers_gb_per_s,
  round(bus_bytes_per_s / if(peer_bus_bytes_per_s > 0, peer_bus_bytes_per_s, best_bus_bytes_per_s), 3) AS of_peers,
  arrayStringConcat(hosts, ' ') AS on_hosts, clock, job, toString(at) AS at_utc
FROM links FINAL
WHERE day >= today() - {days} AND bus_bytes_per_s > 0 AND (peer_bus_bytes_per_s > 0 OR best_bus_bytes_per_s > 0)
  AND ({job} = '' OR job = {job}) AND ({host} = '' OR has(hosts, {host}))
ORDER BY of_peers, at DESC LIMIT {limit}
