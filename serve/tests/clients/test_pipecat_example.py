"""The example with Pipecat, in its own process."""

from __future__ import annotations

import pytest

from wlk_conformance.testing.digits import clip_path

pytest.importorskip("pipecat.services.deepgram.flux.stt", reason="run nox -s clients")


def test_the_example_prints_the_turns_of_the_command_line(server, expected, example):
    """The clip, sent in real time, has the turns of `wlk-core transcribe`."""
    address = server.address.removesuffix("/v1").replace("http:", "ws:")
    lines = example("agent_pipecat.py", address, clip_path("demo")).splitlines()

    assert lines == [f"turn: {turn}" for turn in expected.turns]
