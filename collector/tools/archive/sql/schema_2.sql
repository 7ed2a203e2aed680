-- Version 2: the cluster of each row, speeds, and totals of operations over the hosts of an incident. A year of operations by host is too much for
-- one query.
ALTER TABLE incidents ADD COLUMN cluster String AFTER at;

ALTER TABLE findings ADD COLUMN cluster String AFTER at;

ALTER TABLE culprits ADD COLUMN cluster String AFTER at;

ALTER TABLE creations ADD COLUMN cluster String AFTER at;

ALTER TABLE links ADD COLUMN cluster String AFTER at;

ALTER TABLE operations ADD COLUMN cluster String AFTER at;

ALTER TABLE job_days ADD COLUMN cluster String AFTER day, MODIFY ORDER BY (job, source, cluster);

CREATE TABLE IF NOT EXISTS operation_totals (
  day Date, at DateTime('UTC'), cluster String, job String, incident String, comm_class String, operation String, size_class UInt64, hosts UInt32,
  operations UInt64, median_ns Int64, p95_ns Int64, slowest_host String, slowest_ns Int64, bus_bytes_per_s Float64
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (job, incident, comm_class, operation, size_class);

CREATE TABLE IF NOT EXISTS speeds (
  day Date, at DateTime('UTC'), cluster String, job String, incident String, real_ns Int64, operation String, bytes Int64, size_class UInt64, ranks UInt32,
  hosts UInt32, communicators UInt32, operations UInt64, bus_bytes_per_s Float64, low_bus_bytes_per_s Float64, high_bus_bytes_per_s Float64, clock String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (job, incident, operation, bytes, ranks, hosts);
