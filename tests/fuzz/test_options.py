"""Arbitrary options and config.toml files give checked values or a one-line error."""

from __future__ import annotations

import json
import math
import tomllib

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_core.options import Option, parse_pairs
from wlk_core.registry import Registry
from wlk_live.config import read_config

from .cases import cases, damaged

pytestmark = pytest.mark.slow

SPECS = sorted(Registry().specs(), key=lambda spec: spec.name)
NAMES = sorted({option.name for spec in SPECS for option in spec.all_options})
NUMBERS = ["1", "-1", "0", "1e308", "1e999", "nan", "inf", "9" * 5000, "\N{ARABIC-INDIC DIGIT ONE}"]
TEXTS = st.text(max_size=8) | st.sampled_from([*NUMBERS, "auto", "true", "cpu", "\ud800"])
ANYTHING = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
)


def is_one_line(error):
    """Return whether the message of an error is one line."""
    return str(error) and "\n" not in str(error)


@st.composite
def options(draw):
    """Draw a consistent declaration of an option."""
    kind = draw(st.sampled_from([str, int, float, bool]))
    is_number = kind in (int, float)
    low, high = sorted(draw(st.tuples(st.integers(-5, 5), st.integers(-5, 5))))
    return Option(
        name="size",
        type=kind,
        minimum=low if is_number and draw(st.booleans()) else None,
        maximum=high if is_number and draw(st.booleans()) else None,
        choices=draw(st.sampled_from([(), (kind(1),)])),
        is_auto_allowed=draw(st.booleans()),
    )


@cases
@given(option=options(), value=ANYTHING)
@example(option=Option(name="size", type=int), value="9" * 5000)
@example(option=Option(name="size", type=float), value=10**400)
def test_a_value_is_of_the_declared_type_or_refused(option, value):
    """An accepted value is accepted again unchanged, and is neither NaN nor infinite."""
    try:
        converted = option.convert(value, owner="toy")
    except OptionError as error:
        assert is_one_line(error)
        return

    assert converted is None or type(converted) is option.type
    assert not isinstance(converted, float) or math.isfinite(converted)
    assert option.convert(converted, owner="toy") == converted


@cases
@given(
    spec=st.sampled_from(SPECS),
    pairs=st.lists(
        st.builds("{}={}".format, st.sampled_from(NAMES) | st.text(max_size=4), TEXTS)
        | st.text(max_size=9),
        max_size=4,
    ),
)
@example(spec=SPECS[0], pairs=["a\nb=1", "a\nb=2"])
def test_any_pairs_are_options_or_one_line(spec, pairs):
    """Only options that the backend declares are accepted."""
    try:
        values = spec.split_options(parse_pairs(pairs))
    except OptionError as error:
        assert is_one_line(error)
        return

    declared = {option.name for option in spec.all_options}
    assert {*values.backend, *values.stream} <= declared


CONFIG = b"""\
# mine
backend = "whisper"
model = 'base'
language = "en"
[options.whisper]
beam_size = 5
border_seconds = 0.5
prompt = \"\"\"a
b\"\"\"
[options."faster-whisper"]
device = "cpu"
fast = true
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return the path of the config.toml that is read."""
    folder = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLK_HOME", str(folder))
        yield folder / "config.toml"


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)
KEYS = st.lists(st.sampled_from(["backend", "model", "options", "x"]), min_size=1, max_size=4)
LINES = st.builds(lambda keys, value: f"{'.'.join(keys)} = {_toml(value)}\n".encode(), KEYS, VALUES)


@cases
@given(content=damaged([CONFIG]) | LINES)
@example(content=b"backend = " + b"[" * 2000)
@example(content=b"\xff")
def test_any_configuration_is_read_or_one_line(path, content):
    """The error names the file; what was read equals what the file contains."""
    path.write_bytes(content)
    try:
        config = read_config()
    except OptionError as error:
        assert str(path) in str(error)
        assert is_one_line(error)
        return

    table = tomllib.loads(content.decode("utf-8-sig"))
    assert config.options == table.get("options", {})
    assert all(getattr(config, name) == table[name] for name in table if name != "options")


def _toml(value):
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)
