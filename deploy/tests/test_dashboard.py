"""The dashboard and the alerts: their figures are those that the server counts."""

from __future__ import annotations

import base64
from contextlib import contextmanager
import http.client
import json
import os
from pathlib import Path
import re
import shutil
import socket
import subprocess
import sys
import time
from urllib.parse import urlencode

import pytest
import yaml

from wlk_conformance.testing.digits import load_clip

DEPLOY = Path(__file__).resolve().parents[1]
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/wlk-serve.json").read_text(encoding="utf-8"))
CONFIG = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PATIENCE = 240  # seconds, for figures that come within ten on a machine that is idle
KEYS = {"client": "first", "metrics": "second"}
COMPLETED = "conversation.item.input_audio_transcription.completed"


def dashboard_expressions():
    """Return the expressions of all panels."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def metric_names(expression):
    """Return the names of metrics in an expression."""
    return set(re.findall(r"\bwlk_\w+", expression))


def evaluated(expression):
    """Return an expression of the dashboard with its variables filled in, as Grafana does it."""
    return expression.replace("$instance", ".*").replace("$__rate_interval", "1m")


@pytest.mark.parametrize(
    "expression", [*dashboard_expressions(), *(rule["expr"] for rule in RULES)]
)
def test_every_metric_is_one_that_the_server_counts(expression):
    """A panel or an alert of a metric that does not exist would stay silent for ever."""
    pytest.importorskip("prometheus_client")
    from wlk_serve.ops.metrics import Metrics  # noqa: PLC0415 -- with its library only

    text = Metrics().render()[0].decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    suffixes = {"histogram": ("_bucket", "_count", "_sum")}
    served = {name + suffix for name, kind in kinds.items() for suffix in suffixes.get(kind, ("",))}

    assert metric_names(expression) <= served
    assert metric_names(expression) or 'job="wlk-serve"' in expression


def test_the_alert_of_refused_clients_has_the_limit_of_the_server():
    """Lateness that refuses clients is critical; captions that lag less are a warning."""
    from wlk_serve.models import service  # noqa: PLC0415 -- the other tests need no server

    limits = {
        rule["labels"]["severity"]: float(rule["expr"].rpartition(">")[2])
        for rule in RULES
        if "lateness" in rule["expr"]
    }

    assert limits["warning"] < limits["critical"] == service._MAX_LATENESS


def test_every_alert_is_named_once_and_explains_itself():
    """The name is unique; the summary names the server."""
    names = [rule["alert"] for rule in RULES]

    assert len(set(names)) == len(names)
    assert [] == [
        rule["alert"]
        for rule in RULES
        if "$labels.instance" not in rule["annotations"]["summary"] or "for" not in rule
    ]


def test_the_panels_do_not_overlap():
    """Each has an identifier and a rectangle of its own on the grid of 24 columns."""
    panels = DASHBOARD["panels"]
    cells = [
        (column, row)
        for area in (panel["gridPos"] for panel in panels)
        for column in range(area["x"], area["x"] + area["w"])
        for row in range(area["y"], area["y"] + area["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24


def test_the_dashboard_reads_the_data_source_that_is_provisioned():
    """Grafana finds the source by its uid, and its interval is that of the scrapes."""
    path = DEPLOY / "grafana/provisioning/datasources/prometheus.yml"
    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    users = [*DASHBOARD["panels"], *DASHBOARD["templating"]["list"]]
    users += [target for panel in DASHBOARD["panels"] for target in panel["targets"]]

    assert {source["uid"]} == {user["datasource"]["uid"] for user in users}
    assert CONFIG["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]


def program(name):
    """Return the path of a program of Prometheus; skip the test without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.slow
def test_the_alerts_fire_when_they_should():
    """Promtool lets a server that is well and one in trouble pass before the rules."""
    command = [program("promtool"), "test", "rules", str(PROMETHEUS / "alerts_test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


@contextmanager
def running(command, **options):
    """Yield a process; terminate it at the end."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def serving():
    """Yield the port of a server of the digits model with both keys."""
    command = [sys.executable, "-m", "wlk_serve", "--backend", "faster-whisper", "--port", "0"]
    command += ["--model", "digits", "--language", "en", "--api-key-env", "WLK_KEYS"]
    environment = {**os.environ, "WLK_KEYS": ",".join(KEYS.values())}
    with running(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        line = server.stderr.readline()
        assert "ready on" in line, line
        yield int(line.split()[3].rsplit(":", 1)[1])


@contextmanager
def prometheus(folder, server_port):
    """Yield the port of a Prometheus with the configuration that is shipped, but fast."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    key = folder / "metrics_key"
    key.write_text(KEYS["metrics"], encoding="utf-8")
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("/run/secrets/metrics_key", str(key))
    text = text.replace('"server:8000"', f'"127.0.0.1:{server_port}"')
    text = text.replace("interval: 5s", "interval: 1s").replace("interval: 15s", "interval: 1s")
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(PROMETHEUS / "alerts.yml", folder)
    check = [program("promtool"), "check", "config", str(folder / "prometheus.yml")]
    subprocess.run(check, check=True, capture_output=True)
    command = [program("prometheus"), f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with running(command, stderr=subprocess.DEVNULL):
        yield port


def ask(port, path):
    """Return what Prometheus answers; None while it starts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", f"/api/v1/{path}")
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError):
        return None
    finally:
        connection.close()
    assert "success" == answer["status"], answer
    return answer["data"]


def has_numbers(port, expression):
    """Return whether Prometheus has a number for an expression."""
    data = ask(port, f"query?{urlencode({'query': expression})}")
    return data is not None and any(series["value"][1] != "NaN" for series in data["result"])


def health_of_rules(port):
    """Return the health of each alert: "ok" after an evaluation without an error."""
    data = ask(port, "rules") or {"groups": []}
    return {rule["name"]: rule["health"] for group in data["groups"] for rule in group["rules"]}


def use(port, clip):
    """Make every figure of the server move: a session, a recording, a refusal, an error."""
    client = pytest.importorskip("websockets.sync.client")
    headers = {"Authorization": f"Bearer {KEYS['client']}"}
    audio = {"format": {"type": "audio/pcm", "rate": 16_000}, "turn_detection": None}
    messages = [
        {"type": "session.update", "session": {"type": "transcription", "audio": {"input": audio}}},
        {"type": "input_audio_buffer.append", "audio": base64.b64encode(clip).decode()},
        {"type": "input_audio_buffer.commit"},
    ]
    url = f"ws://127.0.0.1:{port}/v1/realtime"
    with client.connect(url, additional_headers=headers, open_timeout=60) as session:
        for message in messages:
            session.send(json.dumps(message))
        while json.loads(session.recv(timeout=PATIENCE))["type"] != COMPLETED:
            pass
    for key, path, status in [
        (KEYS["client"], "/v1/models/other", 404),
        ("wrong", "/v1/models", 401),
    ]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        assert status == connection.getresponse().status
        connection.close()


@pytest.mark.slow
def test_no_panel_is_empty_while_sessions_run(tmp_path):
    """A real Prometheus reads a real server, and answers every expression with numbers."""
    clip = (load_clip("demo").audio * 32_767).astype("<i2").tobytes()
    missing = {evaluated(expression) for expression in dashboard_expressions()}
    missing.add('up{job="wlk-serve"} == 1')
    healthy = {rule["alert"]: "ok" for rule in RULES}
    with serving() as server_port, prometheus(tmp_path, server_port) as port:
        deadline = time.monotonic() + PATIENCE
        found = {}
        while (missing or found != healthy) and time.monotonic() < deadline:
            use(server_port, clip)
            missing = {expression for expression in missing if not has_numbers(port, expression)}
            found = health_of_rules(port)

    assert set() == missing
    assert healthy == found
