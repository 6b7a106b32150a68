from __future__ import annotations

import os

import pytest

from wlk_core.cli import backends
from wlk_core.cli.backends import CheckResult


@pytest.fixture
def results(monkeypatch):
    """Put results in the place of processes that load backends."""
    by_name = {"toy": CheckResult(model="digits", detail="digits runs on paper", seconds=1.5)}
    monkeypatch.setattr(backends, "check_backend", lambda spec: by_name[spec.name])
    return by_name


def rows(out):
    """Return the lines of the report by their first words."""
    lines = [line for line in out.splitlines() if line]
    return {line.split()[0]: line.split(maxsplit=1)[-1] for line in reversed(lines)}


@pytest.mark.usefixtures("results")
def test_the_doctor_reports_in_one_screen(command, tmp_path):
    """Versions, configuration, models, backends with their devices, and what to type next."""
    done = command("doctor")

    report = rows(done.out)
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 24
    assert "Python 3." in report["wlk-core"]
    assert report["plugins"] == "wlk-toy 0.1.0"
    assert report["config"].startswith(str(tmp_path / "wlk" / "config.toml"))
    assert report["models"] == str(tmp_path / "hf")
    assert report["toy*"] == "works  digits runs on paper (1.5 s)"
    assert report["next"] == "wlk-core demo"


def test_a_backend_that_lacks_something_has_its_command(command, install_needy, results):
    """What is missing is named with what installs it, and nothing has failed."""
    install_needy()

    done = command("doctor")

    assert done.status == 0
    assert "needs no-such-framework  pip install no-such-framework" in done.out
    assert list(results) == ["toy"]


def test_a_backend_that_is_broken_is_a_failure(command, results):
    """The reason stands beside it, and the exit status is 1."""
    reason = "backend toy cannot be used: no such library; reinstall it"
    results["toy"] = CheckResult(model="digits", error=reason)

    done = command("doctor")

    assert done.status == 1
    assert rows(done.out)["toy*"] == "broken  no such library; reinstall it"


def test_a_backend_without_a_model_can_be_used(command, results):
    """What helps is to pull one."""
    results["toy"] = CheckResult(model="base", error="get it with: pull", has_model=False)

    done = command("doctor")

    assert done.status == 0
    assert rows(done.out)["toy*"] == "no model  get it with: pull"


def test_fast_loads_nothing(command, monkeypatch):
    """Only metadata is read."""
    monkeypatch.setattr(backends, "check_backend", None)

    assert rows(command("doctor", "--fast").out)["toy*"] == "installed"


@pytest.mark.usefixtures("results")
def test_a_mistake_in_the_configuration_is_reported(command, tmp_path):
    """The file and the key are named, and the rest of the report stands."""
    (tmp_path / "wlk").mkdir()
    (tmp_path / "wlk" / "config.toml").write_text("modle = 5")

    done = command("doctor")

    assert done.status == 1
    assert "config.toml: Object contains unknown field `modle`" in done.err
    assert "wlk-core demo" in done.out


@pytest.mark.usefixtures("results")
def test_a_broken_plugin_is_reported(command, site):
    """A plugin that cannot be imported is a failure of the installation."""
    site.install("wlk-broken", "broken", "import not_a_module")

    done = command("doctor")

    assert done.status == 1
    assert "plugin wlk-broken is broken: No module named 'not_a_module'" in done.out


def test_without_a_backend_the_first_step_is_to_install_one(command, empty_site):
    """The report of an empty installation ends with a command."""
    for path in empty_site.folder.glob("*.dist-info/*"):
        path.unlink()

    done = command("doctor")

    assert done.status == 1
    assert rows(done.out)["next"].startswith("pip install ")


@pytest.mark.usefixtures("results")
def test_an_absent_default_model_is_to_be_pulled(command, install_needy, results):
    """The commands to type next name the model that transcribe would fetch."""
    install_needy()
    results["needy"] = results["toy"]
    command("config", "set", "backend", "toy")
    command("config", "set", "model", "acme/base")

    assert "wlk-core pull acme/base --backend toy\n" in command("doctor").out


@pytest.mark.slow
def test_the_doctor_really_loads_the_backends(site, monkeypatch, command):
    """Each backend is loaded in a process of its own."""
    monkeypatch.setattr(os, "environ", site.environment)

    assert "works  digits runs in integers on paper (" in command("doctor").out
