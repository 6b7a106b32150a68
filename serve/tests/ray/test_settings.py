"""The settings of an application on Ray Serve, and how many replicas a load needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.errors import OptionError
from wlk_serve.ray.autoscaling import replica_count
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
        ({"num_cpus": "nan"}, "expected 0 or more for num_cpus, got nan"),
        ({"session_seconds": "inf"}, "expected a number above 0 for session_seconds, got inf"),
        ({"num_gpus": -1}, "expected 0 or more for num_gpus, got -1.0"),
        ({"options": 3}, "expected a list of texts for options, got 3"),
        ({"model": 3}, "expected a text for model, got 3"),
        ({"min_replicas": 3}, "expected max_replicas of at least min_replicas (3), got 1"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(arguments, message):
    """The message has the name, what was expected and what came."""
    with pytest.raises(OptionError) as refused:
        ReplicaSettings.parse(arguments)

    assert message in str(refused.value)


@given(
    sessions=st.floats(0, 10_000),
    running=st.integers(0, 500),
    max_sessions=st.integers(1, 100),
    latenesses=st.lists(st.floats(0, 20), max_size=20),
)
def test_replicas_have_places_for_every_session(sessions, running, max_sessions, latenesses):
    """Three places of ten stay free; late replicas add one more, never more than one."""
    fields = {"sessions": sessions, "running": running, "max_sessions": max_sessions}
    alone = replica_count(**fields, latenesses=[])
    count = replica_count(**fields, latenesses=latenesses)

    assert alone * max_sessions * 0.7 >= sessions - 1e-6
    assert (alone - 1) * max_sessions * 0.7 < sessions or alone == 0
    assert count in {alone, max(alone, running + 1)}


@pytest.mark.parametrize(
    ("latenesses", "expected"),
    [([], 2), ([0.1, 0.1], 2), ([0.1, 0.9], 2), ([0.6, 0.9], 3), ([0.6, 0.9, 0.1], 3)],
)
def test_another_replica_is_needed_where_most_are_late(latenesses, expected):
    """One late replica of two has bad luck; two of three need help."""
    count = replica_count(sessions=10, running=2, max_sessions=10, latenesses=latenesses)

    assert expected == count
