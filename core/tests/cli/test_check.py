from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from wlk_core.cli import backends


@pytest.fixture
def processes(site, monkeypatch):
    """Let the processes that load a backend see the site."""
    monkeypatch.setattr(os, "environ", site.environment)


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_check_really_loads_the_backend(command):
    """A backend that works is loaded and run in another process; its device is what it logs."""
    done = command("backends", "--check", "toy")

    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("toy: loaded model digits and ran it (")
    assert done.out.endswith(" s); digits runs in integers on paper\n")


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_check_names_why_a_backend_does_not_load(install_needy, command):
    """A framework that does not import is reported with its reason, also as JSON."""
    install_needy()

    done = command("backends", "--check", "needy", "--json")

    assert done.status == 1
    assert json.loads(done.out)["ok"] is False
    assert done.err == (
        "wlk-core: backend needy cannot be used: No module named 'no_such_framework'; "
        "install it with: pip install no-such-framework\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
def test_check_survives_a_framework_that_crashes(install_needy, command):
    """A framework that kills its process takes only that process."""
    install_needy("import os, signal; os.kill(os.getpid(), signal.SIGILL)")

    done = command("backends", "--check", "needy")

    assert done.status == 1
    assert "backend needy crashed its process (SIGILL): its framework was built for" in done.err


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (-9, "x crashed its process (SIGKILL): the system stopped it, most likely because memory"),
        (-signal.SIGSEGV, "backend x crashed its process (SIGSEGV)"),
        (-123, "backend x crashed its process (signal 123)"),
        (7, "backend x ended its process with status 7"),
    ],
)
def test_the_death_of_a_process_is_described_as_what_it_was(toy_spec, monkeypatch, status, text):
    """A signal has no cause but its own: only few are named with a likely one."""
    ended = subprocess.CompletedProcess([], status, stdout="", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_options: ended)

    error = backends.check_backend(toy_spec).error.replace("backend toy", "backend x")

    assert text.removeprefix("x ") in error
    assert (text.count("SIGSEGV") == 0) or error.endswith("(SIGSEGV)")


def test_a_backend_that_does_not_load_in_time_is_named(toy_spec, monkeypatch):
    """The limit is part of the message."""

    def run(command, *, timeout, **_options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)

    result = backends.check_backend(toy_spec)

    assert result.error == "backend toy did not load within 300 seconds"


@pytest.fixture
def toy_spec(site):
    """Return the declaration of the toy."""
    return site.registry().spec("toy")
