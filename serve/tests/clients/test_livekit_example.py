"""The example with LiveKit Agents, in its own process."""

from __future__ import annotations

import pytest

from wlk_conformance.testing.digits import clip_path

pytest.importorskip("livekit.plugins.deepgram", reason="run nox -s clients")


def test_the_example_prints_the_turns_of_the_command_line(server, expected, example):
    """It runs in real time, and prints the probable text of a turn before the final text."""
    address = server.address.removesuffix("/v1")
    lines = example("agent_livekit.py", address, clip_path("demo")).splitlines()

    assert [line for line in lines if line.startswith("turn: ")] == [
        f"turn: {turn}" for turn in expected.turns
    ]
    assert lines[0].startswith("probably: ")
