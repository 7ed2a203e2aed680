-- Communicators that are slowest compared with their peers (if bandwidth was measured), with their hosts
SELECT comm_name, comm_size, operation, bytes, round(bus_bytes_per_s / 1e9, 3) AS gb_per_s, round(peers / 1e9, 3) AS peers_gb_per_s,
  round(of_peers, 3) AS of_peers, arrayStringConcat(hosts, ' ') AS on_hosts, clock, cluster, job, toString(at) AS at_utc
FROM (
  SELECT job, incident, comm_id, comm_name, comm_size, operation, bytes, bus_bytes_per_s, hosts, clock, cluster, at,
    if(peer_bus_bytes_per_s > 0, peer_bus_bytes_per_s, best_bus_bytes_per_s) AS peers, bus_bytes_per_s / peers AS of_peers FROM links
  WHERE day >= today() - {days} AND bus_bytes_per_s > 0 AND (peer_bus_bytes_per_s > 0 OR best_bus_bytes_per_s > 0)
    AND ({cluster} = '' OR cluster = {cluster}) AND ({job} = '' OR job = {job}) AND ({host} = '' OR has(hosts, {host}))
  ORDER BY of_peers, at DESC LIMIT 20000
)
ORDER BY of_peers, at DESC LIMIT 1 BY job, incident, comm_id, operation, bytes LIMIT {limit}
