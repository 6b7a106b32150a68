"""The settings of an application on Ray Serve."""

from __future__ import annotations

from wlk_serve.ray import ReplicaSettings


def test_the_arguments_of_a_command_line_are_text():
    """`serve run` passes every argument as a string; a YAML file has numbers and lists."""
    written = {"backend": "faster-whisper", "max_sessions": "8", "num_gpus": "0.25"}
    lists = {"options": "policy=local-agreement, beam_size=2", "allow_origins": ""}

    expected = ReplicaSettings(
        backend="faster-whisper",
        max_sessions=8,
        num_gpus=0.25,
        options=("policy=local-agreement", "beam_size=2"),
    )
    assert ReplicaSettings.parse({**written, **lists}) == expected
    assert (
        ReplicaSettings.parse(
            {**written, "max_sessions": 8.0, "options": ["policy=local-agreement", "beam_size=2"]}
        )
        == expected
    )
