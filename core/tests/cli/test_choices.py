from __future__ import annotations

import click
import pytest

from wlk_core import BackendSpec, Option, OptionError
from wlk_core.cli.choices import parse_pairs, split_by_scope


@pytest.fixture
def spec():
    """Return a backend with options of both scopes."""
    return BackendSpec(
        name="toy",
        api=1,
        summary="a toy",
        load=lambda model: model,
        policies=("local-agreement", "alignatt"),
        options=(
            Option(name="device", default="cpu"),
            Option(name="beam_size", type=int, default=1, scope="stream"),
        ),
    )


def test_pairs_are_parted_at_the_first_equals_sign():
    """A value may hold equals signs and be empty."""
    assert parse_pairs(["a=b=c", "d="], None) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_what_is_no_pair_is_refused(text):
    """A pair needs a key and an equals sign."""
    with pytest.raises(click.BadParameter, match="expected KEY=VALUE"):
        parse_pairs([text], None)


def test_a_key_with_two_values_is_refused():
    """A contradiction is named; saying the same twice is none."""
    assert parse_pairs(["policy=alignatt"], "alignatt") == {"policy": "alignatt"}
    with pytest.raises(click.BadParameter, match="policy is given twice, as 'x' and 'y'"):
        parse_pairs(["policy=y"], "x")


def test_options_go_where_they_are_declared(spec):
    """Options of the backend and of its streams are told apart by the declaration."""
    assert split_by_scope(spec, {"device": "cuda", "beam_size": "5", "policy": "alignatt"}) == (
        {"device": "cuda"},
        {"beam_size": "5", "policy": "alignatt"},
    )


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ({"beamsize": "5"}, r"no option is called 'beamsize' \(did you mean beam_size\?\); exp"),
        ({"beam_size": "x"}, "option beam_size is an int; got 'x'"),
        ({"policy": "nope"}, "option policy is one of local-agreement, alignatt; got 'nope'"),
    ],
)
def test_what_a_backend_does_not_take_is_refused(spec, pairs, text):
    """An unknown name or value is an error before anything is loaded."""
    with pytest.raises(OptionError, match=text):
        split_by_scope(spec, pairs)
