"""The settings of an application on Ray Serve."""

from __future__ import annotations

import pytest

from wlk_core.errors import OptionError
from wlk_serve.ray.settings import ReplicaSettings


def test_the_arguments_of_a_command_line_are_text():
    """`serve run` gives every argument as text, a YAML file gives numbers and lists."""
    written = {"backend": "faster-whisper", "max_sessions": "8", "num_gpus": "0.25"}
    lists = {"options": "policy=local-agreement, beam_size=2", "allow_origins": ""}

    expected = ReplicaSettings(
        backend="faster-whisper",
        max_sessions=8,
        num_gpus=0.25,
        options=("policy=local-agreement", "beam_size=2"),
    )
    assert expected == ReplicaSettings.parse({**written, **lists})
    assert expected == ReplicaSettings.parse(
        {**written, "max_sessions": 8.0, "options": ["policy=local-agreement", "beam_size=2"]}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modle": "x"}, "unknown argument modle; expected one of backend, model"),
        ({"max_sessions": "many"}, "expected a whole number for max_sessions, got 'many'"),
        ({"max_sessions": 2.5}, "expected a whole number for max_sessions, got 2.5"),
        ({"max_sessions": True}, "expected a whole number for max_sessions, got True"),
        ({"max_sessions": 0}, "expected a number above 0 for max_sessions, got 0"),
        ({"num_cpus": float("nan")}, "expected a number for num_cpus, got nan"),
        ({"max_sessions": float("inf")}, "expected a whole number for max_sessions, got inf"),
        ({"session_seconds": float("inf")}, "expected a number above 0 for session_seconds"),
        ({"num_cpus": 10**400}, "expected a number for num_cpus, got 1000"),
        ({"num_cpus": "nan"}, "expected 0 or more for num_cpus, got nan"),
        ({"session_seconds": "inf"}, "expected a number above 0 for session_seconds, got inf"),
        ({"num_gpus": -1}, "expected 0 or more for num_gpus, got -1.0"),
        ({"options": 3}, "expected a list of strings for options, got 3"),
        ({"model": 3}, "expected a string for model, got 3"),
        ({"min_replicas": 3}, "expected max_replicas of at least min_replicas (3), got 1"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(arguments, message):
    """The message has the name, what was expected and what came."""
    with pytest.raises(OptionError) as refused:
        ReplicaSettings.parse(arguments)

    assert message in str(refused.value)
