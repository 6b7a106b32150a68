"""A server that ends with the program that started it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_server_ends_when_its_standard_input_does(*, is_ready):
    """Whether or not it takes sessions by then."""
    pytest.importorskip("wlk_conformance")
    command = [sys.executable, "-m", "wlk_serve", "--port", "0", "--backend", "scripted"]
    command += ["--model", "digits"]
    with subprocess.Popen(
        [*command, "--end-with-stdin"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        if is_ready:
            assert "ready on" in server.stderr.readline()
        server.stdin.close()
        status = server.wait(60)

    assert 0 == status
