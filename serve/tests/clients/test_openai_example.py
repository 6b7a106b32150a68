"""The example of the tutorial, in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest

from wlk_conformance.testing.digits import clip_path

pytest.importorskip("openai", reason="install openai[realtime], or run nox -s clients")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/realtime_file.py"


def test_the_example_prints_the_words_of_the_command_line(server, expected):
    """It takes as long as the clip."""
    command = [sys.executable, str(EXAMPLE), server.address, str(clip_path("demo"))]
    environment = {**os.environ, "OPENAI_API_KEY": "secret"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (0, expected.text) == (done.returncode, done.stdout.strip()), done.stderr
