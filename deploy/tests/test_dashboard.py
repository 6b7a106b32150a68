"""The dashboard and the alerts use metrics that the server has."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil
import subprocess

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[1]
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/wlk-serve.json").read_text(encoding="utf-8"))
CONFIG = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
TARGETS = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("expression", [found["expr"] for found in [*TARGETS, *RULES]])
def test_every_metric_is_one_that_the_server_counts(expression):
    """A panel or an alert with a missing metric would stay silent for ever."""
    from wlk_serve.ops.metrics import Metrics  # noqa: PLC0415 -- the other tests need no server

    text = Metrics().render()[0].decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    suffixes = {"histogram": ("_bucket", "_count", "_sum")}
    served = {name + suffix for name, kind in kinds.items() for suffix in suffixes.get(kind, ("",))}

    names = set(re.findall(r"\bwlk_\w+", expression))
    assert names <= served
    assert names or 'job="wlk-serve"' in expression


def test_the_alert_of_refused_clients_has_the_limit_of_the_server():
    """Lateness at which clients are refused is critical; less is a warning."""
    from wlk_serve.models import service  # noqa: PLC0415 -- the other tests need no server

    limits = {
        rule["labels"]["severity"]: float(rule["expr"].rpartition(">")[2])
        for rule in RULES
        if "lateness" in rule["expr"]
    }

    assert limits["warning"] < limits["critical"] == service._MAX_LATENESS


def test_the_dashboard_reads_the_data_source_that_is_provisioned():
    """Grafana finds the source by its uid, and its interval is the scrape interval."""
    path = DEPLOY / "grafana/provisioning/datasources/prometheus.yml"
    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    users = [*DASHBOARD["panels"], *DASHBOARD["templating"]["list"], *TARGETS]

    assert {source["uid"]} == {user["datasource"]["uid"] for user in users}
    assert source["jsonData"]["timeInterval"] == CONFIG["global"]["scrape_interval"]


@pytest.mark.slow
def test_the_alerts_fire_when_they_should():
    """Promtool applies the rules to a healthy server and to one in trouble."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    command = [promtool, "test", "rules", str(PROMETHEUS / "alerts_test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
