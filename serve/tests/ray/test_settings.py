"""The settings of an application on Ray Serve."""

from __future__ import annotations

import pytest

from wlk_core.errors import OptionError
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modle": "x"}, "unknown field `modle`; the arguments are backend, model"),
        ({"max_sessions": "many"}, "max_sessions: Expected `int`, got `str`"),
        ({"max_sessions": 2.5}, "max_sessions: Expected `int`, got `float`"),
        ({"max_sessions": 0}, "max_sessions: Expected `int` >= 1"),
        ({"num_cpus": "nan"}, "num_cpus: Expected `float` >= 0.0"),
        ({"options": 3}, "options: Expected `array`, got `int`"),
        ({"model": 3}, "model: Expected `str | null`, got `int`"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(arguments, message):
    """The message has the argument's name, what was expected and what came."""
    with pytest.raises(OptionError) as refused:
        ReplicaSettings.parse(arguments)

    assert message in str(refused.value)
