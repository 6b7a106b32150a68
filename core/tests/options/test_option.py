from __future__ import annotations

from typing import Any

import pytest

from wlk_core.plugins import Option, OptionError

BEAM = Option(name="beam", type=int, default=1, minimum=1, maximum=8)
DEVICE = Option(name="device", default="auto", choices=("auto", "cpu"))
BUFFER = Option(name="buffer_seconds", type=float, minimum=3, is_auto_allowed=True, scope="stream")
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


def test_a_choice_left_open_is_listed_among_the_choices() -> None:
    """An option with choices that also allows auto names it first."""
    option = Option(name="context", choices=("full", "fitted"), is_auto_allowed=True)

    assert option.convert("auto", owner="toy") is None
    with pytest.raises(OptionError, match="is one of auto, full, fitted; got 'half'"):
        option.convert("half", owner="toy")


@pytest.mark.parametrize(
    ("option", "text"),
    [(BEAM, "1"), (DEVICE, "auto"), (BUFFER, "auto"), (FLAG, "false"), (Option(name="x"), "none")],
)
def test_a_default_is_shown_as_users_type_it(option: Option, text: str) -> None:
    """None reads as auto where the choice is left open, and as none otherwise."""
    assert text == option.default_text


def test_an_option_that_allows_auto_has_no_other_default() -> None:
    """A declaration that contradicts itself fails where it stands."""
    with pytest.raises(ValueError, match="auto stands for None, so the default is None; got 12"):
        Option(name="buffer_seconds", type=float, default=12.0, is_auto_allowed=True)


def test_only_a_stream_option_depends_on_a_policy() -> None:
    """The policy is chosen for each stream, after the model was loaded."""
    with pytest.raises(ValueError, match="only options of a stream depend on its policy"):
        Option(name="device", policies=("alignatt",))
