#!/usr/bin/env python3
"""Tests the Grafana dashboard on a real Prometheus that scrapes a collector, a relay and agents while a job hangs. Every expression must return data, and
the panels for an on-call engineer must show the hang."""

import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

import no_skip
from cluster import Cluster
from support import SOURCE, FolderTest, free_port, read_json, wait_for

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
RULES = os.path.join(SOURCE, "packaging/prometheus/lockstep.rules.yml")
CONFIG = """global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: lockstep
    honor_labels: true
    static_configs:
      - targets: [{0}]
"""


def expressions():
    dashboard = read_json(SOURCE, "packaging/grafana/lockstep.json")
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


class Metered(Cluster):
    """A cluster in which every program serves metrics."""

    def __init__(self):
        super().__init__(relays=1)
        self.metrics = {}

    def start(self, program, name, *arguments, **environment):
        if program != "trainsim":
            self.metrics[name] = f"127.0.0.1:{free_port()}"
            arguments += ("--metrics", self.metrics[name])
        return super().start(program, name, *arguments, **environment)

    def page(self, name):
        try:
            with urllib.request.urlopen(f"http://{self.metrics[name]}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""


@unittest.skipUnless(PROMETHEUS, "prometheus is not installed (Debian: prometheus)")
class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.made = Metered()
        self.addCleanup(self.made.close)
        self.made.start_collector()
        self.made.start_relay(0)
        for index in range(self.made.hosts):
            self.made.start_agent(index)
        with open(self.made.path("prometheus.yml"), "w") as file:
            file.write(CONFIG.format(", ".join(self.made.metrics.values())))
        self.port = free_port()
        log = open(self.made.path("prometheus.log"), "wb")
        with log:
            self.prometheus = subprocess.Popen(
                [PROMETHEUS, f"--config.file={self.made.path('prometheus.yml')}", f"--storage.tsdb.path={self.made.path('tsdb')}",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.made.relays.append(self.prometheus)  # the cleanup kills Prometheus together with the relays

    def ask(self, expression):
        """Returns the samples of an instant query; None if Prometheus is not ready."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # Prometheus listens before it is ready
                return None
            self.fail(f"{expression}: {error.read().decode()}")
        except OSError:
            return None

    def value(self, expression):
        samples = self.ask(expression)
        return float(samples[0]["value"][1]) if samples else None

    def test_every_expression_returns_data(self):
        made = self.made
        self.assertTrue(wait_for(lambda: self.value("sum(up)") == len(made.metrics)), made.logs())
        made.start_ranks("--tp", "2", "--dp", "2", "--steps", "100000", "--pace-ms", "5", "--fault", "rank=2,step=25,kind=stall-host")
        self.assertTrue(wait_for(made.whole), made.logs())
        of_title = dict(expressions())
        for title, least in (("Jobs", 1), ("Ranks", 4), ("Rings", None), ("Hung in the last day", 0.5), ("Incidents in the last day", 0.5)):
            self.assertTrue(wait_for(lambda: self.value(of_title[title]) is not None and (least is None or self.value(of_title[title]) >= least), 30),
                            f"{title}: {of_title[title]} gives {self.ask(of_title[title])}\n{made.logs()}")
        self.assertEqual((self.value(of_title["Jobs"]), self.value(of_title["Ranks"]), self.value(of_title["Silent agents"])), (1, 4, 0))
        self.assertEqual([sample["metric"] for sample in self.ask(of_title["Culprits of hung jobs"])], [{"job": "train", "host": "node1", "rank": "2"}])
        self.assertEqual([sample["metric"] for sample in self.ask(of_title["Late and hung jobs"])], [{"job": "train", "state": "hung"}])
        self.assertEqual((self.value("sum(lockstep_agent_rings)"), self.value("sum(lockstep_agent_processes)")), (4, 4))
        published = {name for page in made.metrics for name in re.findall(r"(?m)^(lockstep_\w+)", made.page(page))}
        unanswered = [(title, expression) for title, expression in expressions() if not self.ask(expression)]
        self.assertEqual(unanswered, [], "expressions without data")
        for title, expression in expressions():
            for name in re.findall(r"lockstep_\w+", expression):
                self.assertIn(name, published, title)
        # An unknown name must have no samples.
        self.assertEqual(self.ask("sum(lockstep_collector_jbos)"), [])
        made.kill(made.ranks[0])
        ended = of_title["Abnormal process exits"]
        self.assertTrue(wait_for(lambda: (self.value(ended) or 0) > 0.5, 30), f"{self.ask(ended)}\n{made.page('agent0')}")


ALERTS = """
rule_files: [{0}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'lockstep_job_state{{job="train", state="hung"}}', values: '_ 1 1'}}
      - {{series: 'lockstep_job_state{{job="other", state="moving"}}', values: '1x20'}}
      - {{series: 'lockstep_job_culprit_info{{job="train", host="node1", rank="2"}}', values: '_ 1 1'}}
      - {{series: 'lockstep_collector_jobs', values: '1x20'}}
    alert_rule_test:
      - eval_time: 1m
        alertname: LockstepJobHung
        exp_alerts:
          - exp_labels: {{job: train, severity: critical}}
            exp_annotations:
              summary: Job train is hung
              description: "Culprits: rank 2 on node1; the incident is on the collector's host (lockstep top train)."
      - {{eval_time: 10m, alertname: LockstepJobLate, exp_alerts: []}}
      - {{eval_time: 10m, alertname: LockstepCollectorGone, exp_alerts: []}}
"""


@unittest.skipUnless(PROMTOOL, "promtool is not installed (Debian: prometheus)")
class AlertsTest(FolderTest):
    def test_the_rules_are_accepted_and_name_the_culprit(self):
        subprocess.run([PROMTOOL, "check", "rules", RULES], check=True, stdout=subprocess.DEVNULL, timeout=60)
        with open(self.path("alerts.yml"), "w") as file:
            file.write(ALERTS.format(RULES))
        done = subprocess.run([PROMTOOL, "test", "rules", self.path("alerts.yml")], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    no_skip.main()
