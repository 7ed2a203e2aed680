#!/usr/bin/env python3
"""Times every query of the archive over a synthetic year of a fleet: several clusters, 350,000 GPUs.

Usage: year.py [--build build] [--gpus 350000] [--days 365] [--limit-s 2]

Starts a clickhouse-server, creates the archive's tables, fills them with random rows and runs each query three times. All queries cover all days, except
`host` and `links`. Exit status 1: the median of a query exceeds the limit."""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../integration"))
from clickhouse import ClickHouse  # noqa: E402

CLUSTERS, HOSTS_OF_JOB = 5, 64
INCIDENTS_PER_GPU_DAY = 4.7e-4  # Llama 3: 419 unexpected interruptions in 54 days of 16,384 GPUs
KEYS_OF_INCIDENT, SPEEDS, LINKS, CREATIONS, CULPRITS = 30, 30, 64, 32, 4
DATABASE = "year"

NAME = ("toDate(now() - {day} * 86400) AS day, toDateTime(now() - {day} * 86400 - number % 86400) AS at, concat('cluster-', toString(i % {clusters})) AS cluster, "
        "concat('train-', toString(i % {jobs})) AS job, concat('train-', toString(i % {jobs}), '//0/7@', toString(i)) AS incident")
OPERATION = "arrayElement(['AllReduce','AllGather','ReduceScatter','AlltoAll','Broadcast'], toUInt32(k % 5 + 1)) AS operation"
KIND = "arrayElement(['HOST_STALL','GPU_STALL','RANK_DEAD','SLOW_LINK','COLLECTIVE_STUCK','MISMATCH_KIND'], toUInt32(h % 6 + 1)) AS kind"
HOST = "concat('n', toString({x} % {hosts}))"

# For each table: rows per incident, and its columns. Expressions use i (the incident), k (the row's number in it) and h (a hash of both).
ROWS = {
    "incidents": (1, "at AS at2, toInt64(i) * 1000 + 1700000000000000000 AS real_ns, '' AS step, 0 AS restart_count, arrayElement(['HUNG','CRASHED','DESYNC','SLOW'], "
                  "toUInt32(h % 4 + 1)) AS verdict, " + KIND + ", 'host' AS cause, '' AS activity, 0.9 AS confidence, 'rank 5 is blocked in Python' AS summary, "
                  "[" + HOST.replace("{x}", "h") + "] AS hosts, [concat('save (train.py:', toString(h % 400), ')')] AS places, 512 AS ranks_expected, 512 AS ranks_read, "
                  "1 AS start_up_known, toInt64(h % 60000000000) AS start_up_ns, 1 AS start_up_waiting_ns, 1 AS start_up_serial_ns, 300 AS communicators, '0.1' AS tool_version"),
    "findings": (2, "k AS number, " + KIND + ", 'host' AS cause, 'dp_3' AS comm_name, 'dp_*' AS comm_class, 64 AS comm_size, " + OPERATION + ", 'x' AS summary"),
    "culprits": (CULPRITS, "toInt32(k) AS rank, " + KIND + ", " + HOST.replace("{x}", "h") + " AS host, 1 AS gpu, 'stuck' AS state"),
    "creations": (CREATIONS, "k AS number, 'dp_3' AS comm_name, 'dp_*' AS comm_class, 64 AS comm_size, 'CommInitRank' AS call, toInt64(h % 9000000000) AS longest_ns"),
    "links": (LINKS, "toString(k) AS comm_id, 'dp_3' AS comm_name, 'dp_*' AS comm_class, 64 AS comm_size, " + OPERATION + ", toInt64(1048576) AS bytes, 9 AS operations, "
              "1e9 + h % 1000000000 AS bus_bytes_per_s, 3e9 AS best_bus_bytes_per_s, 2e9 AS peer_bus_bytes_per_s, 'gpu marks' AS clock, "
              "[" + HOST.replace("{x}", "h") + ", " + HOST.replace("{x}", "(h + 1)") + "] AS hosts"),
    "speeds": (SPEEDS, "toInt64(i) * 1000 + 1700000000000000000 AS real_ns, " + OPERATION + ", toInt64(bitShiftLeft(toUInt64(1024), k)) AS bytes, toUInt64(bytes) AS size_class, "
               "512 AS ranks, 64 AS hosts, 8 AS communicators, 1000 AS operations, (1e9 + h % 40000000000) AS bus_bytes_per_s, 1e9 AS low_bus_bytes_per_s, 5e10 AS "
               "high_bus_bytes_per_s, 'gpu marks' AS clock"),
    "operation_totals": (KEYS_OF_INCIDENT, "'dp_*' AS comm_class, " + OPERATION + ", toUInt64(bitShiftLeft(toUInt64(1024), k)) AS size_class, 64 AS hosts, 64000 AS operations, "
                         "toInt64(h % 9000000) AS median_ns, toInt64(h % 19000000) AS p95_ns, " + HOST.replace("{x}", "h") + " AS slowest_host, toInt64(h % 29000000) AS slowest_ns, "
                         "1e9 AS bus_bytes_per_s"),
    "operations": (KEYS_OF_INCIDENT * HOSTS_OF_JOB, "'dp_*' AS comm_class, " + OPERATION + ", toUInt64(bitShiftLeft(toUInt64(1024), k % 30)) AS size_class, "
                   + HOST.replace("{x}", "(i * 64 + intDiv(k, 30))") + " AS host, 1000 AS operations, 1000 AS measured, toInt64(h % 9000000) AS median_ns, "
                   "toInt64(h % 19000000) AS p95_ns, toInt64(1000) AS host_median_ns, toInt64(1000) AS host_p95_ns, 1e9 AS bus_bytes_per_s, 'gpu marks' AS clock"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--gpus", type=int, default=350_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--limit-s", type=float, default=2)
    parser.add_argument("--operation-days", type=int, default=7, help="days of operations by host, and of the queries host and links (7, the default of these queries)")
    options = parser.parse_args()
    archive = os.path.join(options.build, "bin/lockstep-archive")
    server = ClickHouse()
    try:
        server.start()
        address = ["--to", f"http://127.0.0.1:{server.port}/{DATABASE}"]
        with tempfile.NamedTemporaryFile() as no_jobs:
            subprocess.run([archive, "jobs", *address, no_jobs.name], check=True)  # makes the tables
        fill(server, options)
        return ask(server, archive, options)
    finally:
        server.close()


def fill(server, options):
    per_day = max(1, round(options.gpus * INCIDENTS_PER_GPU_DAY))
    values = {"clusters": CLUSTERS, "jobs": 20_000, "hosts": options.gpus // 8}
    for table, (rows, columns) in ROWS.items():
        begin = time.monotonic()
        for day in range(options.operation_days if table == "operations" else options.days):
            server.ask(f"INSERT INTO {table} ({', '.join(names_of(table, columns))}) SELECT {', '.join(names_of(table, columns))} FROM (SELECT *, "
                       f"{NAME.format(day=day, **values)}, {columns.format(**values)} FROM (SELECT number, intDiv(number, {rows}) + {day * per_day} AS i, number % {rows} AS k, "
                       f"cityHash64(number, {day}) AS h FROM numbers({per_day * rows})))", DATABASE)
        print(f"{table:17} {int(server.ask(f'SELECT count() FROM {table}', DATABASE)):>12,} rows in {time.monotonic() - begin:.0f} s", flush=True)
    for day in range(options.days):
        server.ask(f"INSERT INTO job_days (day, cluster, job, source, seconds, ranks) SELECT toDate(now() - {day} * 86400), concat('cluster-', toString(number % {CLUSTERS})), "
                   f"concat('train-', toString(number)), 'jobs', 86400, 256 FROM numbers({options.gpus // 64})", DATABASE)
    print(f"{'job_days':17} {int(server.ask('SELECT count() FROM job_days', DATABASE)):>12,} rows", flush=True)


def names_of(table, columns):
    """Returns the names of the columns that the expression sets."""
    set_here = re.findall(r" AS (\w+)(?=,|$|\s*$)", columns)
    return ["day", "at", "cluster", "job", "incident"] + [name for name in set_here if name not in ("at2",)]


def ask(server, archive, options):
    slow = 0
    known = subprocess.run([archive, "query", "--sql", "nothing"], capture_output=True, text=True, check=False).stderr
    for name in known.split("there are ")[1].strip().split(", "):
        words = ["--host", "n17"] if name == "host" else []
        days = options.operation_days if name in ("host", "links") else options.days  # as without --days
        sql = subprocess.run([archive, "query", "--sql", "--days", str(days), *words, name], capture_output=True, text=True, check=True).stdout
        took = []
        for _ in range(3):
            begin = time.monotonic()
            rows = server.ask(sql, DATABASE).count("\n")
            took.append(time.monotonic() - begin)
        slow += statistics.median(took) > options.limit_s
        print(f"{name:12} {days:4} days  {statistics.median(took):6.2f} s  {rows} lines", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
