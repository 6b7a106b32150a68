from __future__ import annotations

from typing import Any

import pytest

from wlk_core.plugins import Option, OptionError

BEAM = Option(name="beam", type=int, default=1, minimum=1, maximum=8)
DEVICE = Option(name="device", default="auto", choices=("auto", "cpu"))
BUFFER = Option(name="buffer_seconds", type=float, minimum=3, is_auto_allowed=True, scope="stream")
CONTEXT = Option(name="context", choices=("full", "fitted"), is_auto_allowed=True)
FLAG = Option(name="flag", type=bool, default=False)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (BEAM, "5", 5),
        (BEAM, 5.0, 5),
        (BUFFER, "12.5", 12.5),
        (BUFFER, 12, 12.0),
        (BUFFER, None, None),
        (BUFFER, "auto", None),
        (BUFFER, "AUTO", None),
        (DEVICE, "auto", "auto"),
        (FLAG, "yes", True),
        (FLAG, "Off", False),
        (Option(name="prompt"), "auto", "auto"),
        (CONTEXT, "auto", None),
    ],
)
def test_a_value_is_converted_to_the_type_of_its_option(
    option: Option, value: Any, expected: Any
) -> None:
    """Text is parsed; "auto" stands for None where the option allows it and nowhere else."""
    converted = option.convert(value, owner="toy")

    assert expected == converted
    assert type(expected) is type(converted)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (BEAM, "x", "toy: option beam is an int; got 'x'"),
        (BEAM, 1.5, "toy: option beam is an int; got 1.5"),
        (BEAM, True, "toy: option beam is an int; got True"),
        (BEAM, None, "toy: option beam is an int; got None"),
        (BEAM, "auto", "toy: option beam is an int; got 'auto'"),
        (BEAM, "9", "toy: option beam lies between 1 and 8; got '9'"),
        (BUFFER, "long", "toy: option buffer_seconds is a float or auto; got 'long'"),
        (BUFFER, "nan", "toy: option buffer_seconds is a float or auto; got 'nan'"),
        (BUFFER, 1, "toy: option buffer_seconds lies between 3 and inf; got 1"),
        (DEVICE, "gpu", "toy: option device is one of auto, cpu; got 'gpu'"),
        (DEVICE, 1, "toy: option device is a str; got 1"),
        (CONTEXT, "half", "toy: option context is one of auto, full, fitted; got 'half'"),
        (FLAG, "maybe", "toy: option flag is a bool; got 'maybe'"),
    ],
)
def test_a_value_that_the_option_does_not_take_is_refused(
    option: Option, value: Any, message: str
) -> None:
    """The message has the owner, the option, what it takes and what came."""
    with pytest.raises(OptionError) as caught:
        option.convert(value, owner="toy")

    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("option", "text"),
    [(BEAM, "1"), (DEVICE, "auto"), (BUFFER, "auto"), (FLAG, "false"), (Option(name="x"), "none")],
)
def test_a_default_is_shown_as_users_type_it(option: Option, text: str) -> None:
    """None reads as auto where the choice is left open, and as none otherwise."""
    assert text == option.default_text
