"""The command `doctor`: what is installed, what works, and what to type next."""

from __future__ import annotations

import pytest

from wlk_live.cli import doctor


@pytest.fixture
def results(monkeypatch):
    """Replace the processes that load backends by their results."""
    by_name = {"toy": ("works", "digits runs on paper; model digits took 1.5 s")}
    monkeypatch.setattr(doctor, "check_backend", lambda spec: by_name[spec.name])
    return by_name


def rows(out):
    """Return the lines of the report by their first word."""
    lines = [line for line in out.splitlines() if line]
    return {line.split()[0]: line.split(maxsplit=1)[-1] for line in reversed(lines)}


@pytest.mark.usefixtures("results")
def test_the_doctor_reports_in_one_screen(command, tmp_path):
    """It shows versions, configuration, models, backends with devices, and what to type next."""
    done = command("doctor")

    report = rows(done.out)
    assert (done.status, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 24
    assert "Python 3." in report["wlk-core"]
    assert report["plugins"] == "wlk-live 0.1.0, wlk-toy 0.1.0"
    assert report["config"].startswith(str(tmp_path / "wlk" / "config.toml"))
    assert report["models"] == str(tmp_path / "hf")
    assert report["toy*"] == "works  digits  digits runs on paper; model digits took 1.5 s"
    assert report["next"] == "wlk-core demo"


@pytest.mark.usefixtures("results")
def test_the_star_follows_the_configuration(install_needy, command):
    """The default of config.toml is marked, even if its framework is missing."""
    install_needy()
    command("config", "set", "backend", "needy")

    assert "needy*" in rows(command("doctor").out)


def test_a_backend_that_lacks_something_has_its_command(command, install_needy, results):
    """What is missing is listed with the command that installs it, and is not a failure."""
    install_needy()

    done = command("doctor")

    assert done.status == 0
    assert "needs no-such-framework  big     pip install no-such-framework" in done.out
    assert list(results) == ["toy"]


@pytest.mark.parametrize(
    ("state", "status"), [("broken", 1), ("no model", 0)], ids=["broken", "no model"]
)
def test_why_a_backend_does_not_work_stands_beside_it(command, results, state, status):
    """A backend that only lacks a model counts as usable, because a model can be pulled."""
    results["toy"] = (state, "no library; reinstall it")

    done = command("doctor")

    assert done.status == status
    assert rows(done.out)["toy*"] == f"{state}  digits  no library; reinstall it"


def test_fast_loads_nothing(command, monkeypatch):
    """Only metadata is read."""
    monkeypatch.setattr(doctor, "check_backend", None)

    assert rows(command("doctor", "--fast").out)["toy*"] == "installed  digits  reads coded audio"


@pytest.mark.usefixtures("results")
def test_a_mistake_in_the_configuration_is_reported(command, tmp_path):
    """The file and the key are named, and the rest of the report is printed."""
    (tmp_path / "wlk").mkdir()
    (tmp_path / "wlk" / "config.toml").write_text("modle = 5")

    done = command("doctor")

    assert done.status == 1
    assert "config.toml: Object contains unknown field `modle`" in done.err
    assert "wlk-core demo" in done.out


def test_without_a_backend_the_first_step_is_to_install_one(command, site):
    """Without any plugin the report ends with the command that installs one."""
    for path in site.folder.glob("*.dist-info/*"):
        path.unlink()

    done = command("doctor")

    assert done.status == 1
    assert rows(done.out)["next"].startswith("pip install ")
