"""The container and compose files agree with the server and with each other."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib

import pytest
import yaml

from wlk_serve.cli import serve
from wlk_serve.ops.running import _FLUSH_SECONDS

DEPLOY = Path(__file__).resolve().parents[1]
ROOT = DEPLOY.parent
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


def instruction(name):
    """Return the text of the only instruction with a name in the container file."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (found,) = re.findall(rf"^{name} (.*)", text, re.MULTILINE)
    return found


def default_of(option):
    """Return the default of an option of wlk-serve."""
    return next(found.default for found in serve.params if option in found.opts)


def projects():
    """Return the metadata of each distribution of the project, by folder."""
    paths = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
    return {
        f"./{path.parent.relative_to(ROOT)}": tomllib.loads(path.read_text("utf-8"))["project"]
        for path in paths
    }


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.ray"])
def test_the_packages_of_the_image_are_distributions_of_the_project(name):
    """The distributions and extras that the image installs exist."""
    (packages,) = re.findall(r'PACKAGES="([^"]*)"', (DEPLOY / name).read_text(encoding="utf-8"))
    extras = {
        project["name"]: project.get("optional-dependencies", {}) for project in projects().values()
    }

    for package, extra in re.findall(r"([\w-]+)(?:\[(\w+)\])?", packages):
        assert package in extras
        assert not extra or extra in extras[package]


@pytest.mark.parametrize("page", ["deploy/Containerfile", "docs/deploy.md"])
def test_the_wheels_of_the_image_bring_all_of_the_project_that_they_require(page):
    """Otherwise pip would look for the rest on an index, in another version or in vain."""
    (line,) = re.findall(r"pip wheel .*-w deploy/wheels (.*)", (ROOT / page).read_text("utf-8"))
    built = [projects()[folder] for folder in line.split()]
    names = {project["name"] for project in built}

    required = {
        re.match(r"[\w-]+", requirement)[0]
        for project in built
        for requirement in project["dependencies"]
    }

    assert {name for name in required if name.startswith("wlk-")} <= names
    assert {"wlk-serve", "wlk-whisper"} <= names


def test_the_ports_are_those_of_the_server():
    """The image exposes the port, compose publishes it locally only, and Prometheus scrapes it."""
    port = default_of("--port")
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (target,) = config["scrape_configs"][0]["static_configs"][0]["targets"]

    assert instruction("EXPOSE") == str(port)
    assert SERVICES["server"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert target == f"server:{port}"
    assert all(entry.startswith("127.0.0.1:") for s in SERVICES.values() for entry in s["ports"])


def commands():
    """Return the arguments of each wlk-serve command in deploy/ and docs/deploy.md."""
    entry = json.loads(instruction("ENTRYPOINT"))[1:]
    page = (ROOT / "docs/deploy.md").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {
        "image": [*entry, *json.loads(instruction("CMD"))],
        "compose": [*entry, *SERVICES["server"]["command"]],
    }
    for name, start, prefix in (
        ("systemd", "ExecStart=/opt/wlk/bin/wlk-serve ", []),
        ("shell", "\nwlk-serve ", []),
        ("docker run", "-v models:/models wlk-serve ", entry),
    ):
        (line,) = re.findall(re.escape(start) + "(.*)", page)
        found[name] = [*prefix, *shlex.split(line)]
    return found


@pytest.mark.parametrize("name", ["image", "compose", "systemd", "shell", "docker run"])
def test_the_server_knows_every_option_of_a_command(name):
    """A renamed option would make the container fail at its start."""
    options = serve.make_context("wlk-serve", commands()[name]).params

    assert options["model"]
    assert options["api_key_env"] == "WLK_KEYS"


def test_a_stop_waits_for_the_drain_and_the_last_words():
    """A container that is killed earlier would cut off sessions."""
    needed = default_of("--drain-seconds") + _FLUSH_SECONDS
    grace = SERVICES["server"]["stop_grace_period"].removesuffix("s")

    assert needed < int(grace)


def test_every_file_that_compose_mounts_exists():
    """The paths are relative to the compose file; the other volumes are declared."""
    mounts = [entry.split(":")[0] for s in SERVICES.values() for entry in s.get("volumes", [])]
    folders = [path for path in mounts if path.startswith(".")]

    assert [path for path in folders if not (DEPLOY / path).is_dir()] == []
    assert set(mounts) - set(folders) == set(COMPOSE["volumes"])
    assert (DEPLOY / SERVICES["server"]["build"]["dockerfile"]).is_file()


def test_the_key_of_prometheus_is_where_its_configuration_expects_it():
    """Compose puts the secret into /run/secrets, which fails with a read-only root."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (secret,) = SERVICES["prometheus"]["secrets"]
    variable = COMPOSE["secrets"][secret]["environment"]
    path = config["scrape_configs"][0]["authorization"]["credentials_file"]

    assert path == f"/run/secrets/{secret}"
    assert f"${{{variable}:?" in SERVICES["server"]["environment"]["WLK_KEYS"]
    assert "read_only" not in SERVICES["prometheus"]


def test_no_service_has_rights_that_it_does_not_need():
    """The user is a number, by which Kubernetes can tell that it is not root."""
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", instruction("USER"))
    for service in SERVICES.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES["server"]["read_only"] is True


@pytest.mark.slow
def test_compose_accepts_its_file():
    """Compose itself reads the file, without a daemon."""
    compose = [shutil.which("docker") or "false", "compose"]
    if subprocess.run([*compose, "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [*compose, "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    keys = {**os.environ, "WLK_KEYS": "first", "WLK_METRICS_KEY": "second"}
    done = subprocess.run(command, env=keys, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_command_of_the_container_is_healthy_and_drains(tmp_path):
    """ENTRYPOINT, CMD and HEALTHCHECK work together on another port; SIGTERM ends the server."""
    health = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    arguments = [*json.loads(instruction("ENTRYPOINT"))[1:], *json.loads(instruction("CMD"))]
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    started = [sys.executable, "-m", "wlk_serve", *arguments, "--port", str(port)]
    environment = {**os.environ, "WLK_KEYS": "secret", "HF_HOME": str(tmp_path)}
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert "ready on" in server.stderr.readline()
            check = [argument.replace(":8000", f":{port}") for argument in health[1:]]
            done = subprocess.run(
                [sys.executable, *check], capture_output=True, text=True, check=False
            )
            server.send_signal(signal.SIGTERM)
            status = server.wait(120)
        finally:
            server.kill()

    assert (done.returncode, done.stderr) == (0, "")
    assert status == 0
    assert list(tmp_path.iterdir()) == []
