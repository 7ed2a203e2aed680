-- Tables of lockstep archive, version 1. Rows with equal keys replace each other: a row that is sent twice exists once after a merge, so readers use
-- FINAL. Each day is a partition, so that DROP PARTITION removes it. The job is the first column of the key but not part of the partition, because a
-- query over all days would then open the parts of every job.
CREATE TABLE IF NOT EXISTS incidents (
  day Date, at DateTime('UTC'), real_ns Int64, job String, incident String, step String, restart_count UInt32, verdict String, kind String,
  cause String, activity String, confidence Float64, summary String, findings UInt32, victims UInt32, hosts Array(String), places Array(String),
  ranks_expected UInt32, ranks_read UInt32, stalled_ns Int64, start_up_known UInt8, start_up_ns Int64, start_up_waiting_ns Int64,
  start_up_serial_ns Int64, communicators UInt32, problems UInt32, tool_version String
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident);

CREATE TABLE IF NOT EXISTS findings (
  day Date, at DateTime('UTC'), job String, incident String, number UInt32, kind String, cause String, activity String, comm_id String,
  comm_name String, comm_class String, comm_size UInt32, operation String, sequence Int64, victims UInt32, culprits UInt32, confidence Float64,
  hypothesis UInt8, slowdown Float64, cost_ns_per_step Int64, pattern String, common_kind String, common_name String, places Array(String),
  summary String
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident, number);

CREATE TABLE IF NOT EXISTS culprits (
  day Date, at DateTime('UTC'), job String, incident String, finding UInt32, rank Int32, kind String, host String, gpu Int32, gpu_pci String,
  state String
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident, finding, rank);

CREATE TABLE IF NOT EXISTS creations (
  day Date, at DateTime('UTC'), job String, incident String, number UInt32, comm_id String, comm_name String, comm_class String,
  comm_size UInt32, call String, begin_ns Int64, end_ns Int64, median_ns Int64, longest_ns Int64, last_rank Int32, last_by_ns Int64,
  members_entered UInt32, serial UInt8
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident, number);

CREATE TABLE IF NOT EXISTS links (
  day Date, at DateTime('UTC'), job String, incident String, comm_id String, comm_name String, comm_class String, comm_size UInt32,
  operation String, bytes Int64, operations UInt64, bus_bytes_per_s Float64, best_bus_bytes_per_s Float64, peer_bus_bytes_per_s Float64,
  clock String, hosts Array(String)
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident, comm_id, operation, bytes);

CREATE TABLE IF NOT EXISTS operations (
  day Date, at DateTime('UTC'), job String, incident String, comm_class String, operation String, size_class UInt64, host String,
  operations UInt64, measured UInt64, median_ns Int64, p95_ns Int64, host_median_ns Int64, host_p95_ns Int64, bus_bytes_per_s Float64, clock String
) ENGINE = ReplacingMergeTree PARTITION BY day ORDER BY (job, incident, comm_class, operation, size_class, host);

CREATE TABLE IF NOT EXISTS job_days (
  day Date, job String, source String, seconds UInt64, ranks UInt32
) ENGINE = ReplacingMergeTree(seconds) PARTITION BY day ORDER BY (job, source);
