"""Options: declared once, and every value checked and converted from that declaration."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from wlk_core.options import OptionValues, parse_pairs
from wlk_core.plugins import BackendSpec, Option, OptionError, standard_options

BEAM = Option(name="beam", type=int, default=1, minimum=1, maximum=8)
GPU = standard_options.device("cpu", "cuda", "cuda:N")
DEVICE = Option(name="device", default="auto", choices=("auto", "cpu"))
BUFFER = Option(name="buffer_seconds", type=float, minimum=3, is_auto_allowed=True, scope="stream")
CONTEXT = Option(name="context", choices=("full", "fitted"), is_auto_allowed=True)
FLAG = Option(name="flag", type=bool, default=False)
COUNT = Option(name="n", type=int, default=np.int64(3), choices=np.arange(9), maximum=np.float32(8))
OPEN = Option(name="n", type=int, default="auto", choices=("auto", 4.0), is_auto_allowed=True)


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
        (attrs.evolve(BUFFER, default=12.0), None, None),
        (DEVICE, "auto", "auto"),
        (GPU, "cuda", "cuda"),
        (GPU, "cuda:0", "cuda:0"),
        (GPU, "cuda:12", "cuda:12"),
        (FLAG, "yes", True),
        (FLAG, "Off", False),
        (Option(name="prompt"), "auto", "auto"),
        (CONTEXT, "auto", None),
        (COUNT, COUNT.default, 3),
        (OPEN, OPEN.default, None),
        (OPEN, *OPEN.choices, 4),
    ],
)
def test_a_value_is_converted_to_the_type_of_its_option(
    option: Option, value: Any, expected: Any
) -> None:
    """Text is parsed; "auto" stands for None only if the option allows it."""
    converted = option.convert(value, owner="toy")

    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (BEAM, "x", "toy: option beam must be an int; got 'x'"),
        (BEAM, 1.5, "toy: option beam must be an int; got 1.5"),
        (BEAM, True, "toy: option beam must be an int; got True"),
        (BEAM, None, "toy: option beam must be an int; got None"),
        (BEAM, "auto", "toy: option beam must be an int; got 'auto'"),
        (BEAM, "9", "toy: option beam must be between 1 and 8; got '9'"),
        (BUFFER, "long", "toy: option buffer_seconds must be a float or auto; got 'long'"),
        (BUFFER, "nan", "toy: option buffer_seconds must be a float or auto; got 'nan'"),
        (BUFFER, 1, "toy: option buffer_seconds must be between 3 and inf; got 1"),
        (DEVICE, "gpu", "toy: option device must be one of auto, cpu; got 'gpu'"),
        *[
            (
                GPU,
                value,
                f"toy: option device must be one of auto, cpu, cuda, cuda:N; got '{value}'",
            )
            for value in ("cuda:N", "cuda:x", "cuda:-1", "cuda:", "cuda:01", "cuda:1 ", "cpu:1")
        ],
        (DEVICE, 1, "toy: option device must be a str; got 1"),
        (CONTEXT, "half", "toy: option context must be one of auto, full, fitted; got 'half'"),
        (FLAG, "maybe", "toy: option flag must be a bool; got 'maybe'"),
    ],
)
def test_a_value_that_the_option_does_not_take_is_refused(
    option: Option, value: Any, message: str
) -> None:
    """The message names the owner, the option, the accepted values and the given one."""
    with pytest.raises(OptionError) as caught:
        option.convert(value, owner="toy")

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("option", "text"),
    [(BEAM, "1"), (DEVICE, "auto"), (BUFFER, "auto"), (FLAG, "false"), (Option(name="x"), "none")],
)
def test_a_default_is_shown_as_users_type_it(option: Option, text: str) -> None:
    """None is shown as auto if the option allows it, and otherwise as none."""
    assert option.default_text == text


def parse_options(spec: BackendSpec, pairs: list[str]) -> OptionValues:
    """Return the values of options in the form of a command line."""
    return spec.split_options(parse_pairs(pairs))


SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(
        standard_options.device("cpu", "cuda"),
        standard_options.PROMPT,
        standard_options.BUFFER_SECONDS,
        standard_options.BORDER_SECONDS,
        Option(name="threads", type=int, default=0),
    ),
    policies=("alignatt", "local-agreement"),
)


def test_pairs_are_split_by_scope_and_converted() -> None:
    """Only given options are returned; the first equals sign ends the key; a pair may repeat."""
    values = parse_options(
        SPEC, ["prompt=a=b", " buffer_seconds =8", "policy=local-agreement", *["threads=2"] * 2]
    )

    assert values.backend == {"threads": 2}
    assert values.stream == {"prompt": "a=b", "buffer_seconds": 8.0, "policy": "local-agreement"}


def test_values_can_be_resolved_again() -> None:
    """Converted values are accepted unchanged; all defaults are filled in, even unused ones."""
    pairs = ["buffer_seconds=auto", "device=cpu", "policy=local-agreement"]
    values = parse_options(SPEC, pairs)
    options = SPEC.stream_options(values.stream)

    assert (options["buffer_seconds"], options["border_seconds"]) == (None, 0.5)
    assert SPEC.split_options({**values.backend, **values.stream}) == values


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["threads"], "expected an option as KEY=VALUE, got 'threads'"),
        (["=2"], "expected an option as KEY=VALUE, got '=2'"),
        (["threads=1", "threads=2"], "option threads has two values, '1' and '2'; keep one"),
        (["a\nb=1", "a\nb=2"], r"option a\nb has two values, '1' and '2'; keep one"),
        (["threads=x"], "toy: option threads must be an int; got 'x'"),
        (
            ["thread=1"],
            "toy: no option is called 'thread' (did you mean threads?); expected one of",
        ),
        (["init_prompt=x"], "toy: no option is called 'init_prompt' (did you mean prompt?);"),
        (["lang=en"], "no option is called 'lang' (did you mean language?)"),
        (["border_frames=9"], "no option is called 'border_frames' (did you mean border_seconds?)"),
        (["border=9"], "no option is called 'border' (did you mean border_seconds?)"),
        (["target_language=de"], "no option is called 'target_language'; expected one of"),
        (
            ["policy=local-agreement", "border_seconds=1"],
            "policy=local-agreement takes no border_seconds; leave it out, or choose policy=alig",
        ),
        (["policy=alignat"], "toy: option policy must be one of alignatt, local-agreement; got"),
    ],
)
def test_pairs_that_this_backend_does_not_take_are_refused(pairs: list[str], message: str) -> None:
    """The message suggests the option of this backend that was probably meant."""
    with pytest.raises(OptionError) as caught:
        parse_options(SPEC, pairs)

    assert message in str(caught.value)


def test_auto_is_the_first_choice_and_the_default_of_device_and_dtype() -> None:
    """It is a choice on every framework, whether the plugin names it or not."""
    for make in (standard_options.device, standard_options.dtype):
        assert make("cpu") == make("auto", "cpu")
        assert (make("cpu").default, make("cpu").choices) == ("auto", ("auto", "cpu"))


def test_no_former_name_is_that_of_an_option() -> None:
    """A former name is never a current one, and belongs to only one option."""
    constants = [value for value in vars(standard_options).values() if isinstance(value, Option)]
    options = [*constants, standard_options.device("cpu"), standard_options.dtype("float32")]
    former = [name for option in options for name in option.former_names]

    assert len(set(former)) == len(former)
    assert not {option.name for option in options} & set(former)
