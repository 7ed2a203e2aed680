#!/usr/bin/env python3
"""Prints the cost of the agent while 8 ranks train on this host: CPU of a core, memory and heartbeat bytes."""
import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


def metric(port, name):
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name) and not line.startswith("#"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--ring-kib", type=int, default=4096)
    parser.add_argument("--collector", help="endpoint of a running collector; without it, no heartbeat is sent")
    parser.add_argument("--metrics-port", type=int, default=9464)
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    folder = tempfile.mkdtemp(prefix="lockstep-agent-cost-", dir="/dev/shm")
    children = []
    try:
        environment = dict(os.environ, LD_PRELOAD=f"{build}/lib/liblockstep.so", LD_LIBRARY_PATH=f"{build}/standin/lib",
                           LOCKSTEP_DIR=f"{folder}/rings", LOCKSTEP_JOB="cost", LOCKSTEP_GPU="full", LOCKSTEP_RING_KIB=str(arguments.ring_kib),
                           WORLD_SIZE="8", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        for rank in range(8):
            children.append(subprocess.Popen(
                [f"{build}/bin/trainsim", "--tp", "2", "--pp", "2", "--dp", "2", "--steps", "10000000"],
                env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)), stdout=subprocess.DEVNULL))
        command = [f"{build}/bin/lockstep-agent", "--spool", f"{folder}/spool", "--rings", f"{folder}/rings",
                   "--metrics", str(arguments.metrics_port)]
        if arguments.collector:
            command += ["--collector", arguments.collector]
        agent = subprocess.Popen(command, env=dict(os.environ, LOCKSTEP_RUNTIME_DIR=f"{folder}/run"))
        children.append(agent)
        end = time.monotonic() + 60
        while True:
            try:
                if metric(arguments.metrics_port, "lockstep_agent_processes") == 8:
                    break
            except OSError:
                pass
            if time.monotonic() > end or agent.poll() is not None:
                sys.exit("the agent does not see 8 processes")
            time.sleep(0.2)
        time.sleep(3)
        begin, cpu, bytes_sent = time.monotonic(), cpu_seconds(agent.pid), metric(arguments.metrics_port, "lockstep_agent_heartbeat_bytes_total")
        looks = metric(arguments.metrics_port, "lockstep_agent_look_cpu_seconds_total")
        marks = metric(arguments.metrics_port, "lockstep_agent_marks_cpu_seconds_total")
        time.sleep(arguments.seconds)
        spent = time.monotonic() - begin
        print(f"agent, 8 ranks, rings of {arguments.ring_kib} KiB: {100 * (cpu_seconds(agent.pid) - cpu) / spent:.2f} % of a core "
              f"({100 * (metric(arguments.metrics_port, 'lockstep_agent_look_cpu_seconds_total') - looks) / spent:.2f} % reading digests, "
              f"{100 * (metric(arguments.metrics_port, 'lockstep_agent_marks_cpu_seconds_total') - marks) / spent:.2f} % looking at GPU marks), "
              f"{memory_mib(agent.pid):.0f} MiB, "
              f"{(metric(arguments.metrics_port, 'lockstep_agent_heartbeat_bytes_total') - bytes_sent) / spent / 8:.0f} bytes of heartbeat a rank and second")
    finally:
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
