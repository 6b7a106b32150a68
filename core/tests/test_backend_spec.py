"""Specs and options whose fields have wrong types are refused by the name of the field."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from wlk_core import BackendSpec
from wlk_core.cli.backends import described_option, option_lines
from wlk_core.errors import OptionError
from wlk_core.option_values import split_options
from wlk_core.plugins import Option
from wlk_core.registry import missing_requirements

GOOD: dict[str, Any] = {
    "name": "toy", "api": 1, "summary": "a toy", "load": "toy:load", "languages": ["en", "de"],
    "policies": ["alignatt"], "models": {"small": "a/small"}, "default_model": "small",
    "model_files": ["*.json"], "max_delay": 3.0, "bounds": {"wer": 0.1},
    "digit_models": ["small"], "capabilities": ["batching"], "thread_affinity": "any",
    "max_concurrent_calls": 2, "deviations": {"COM-01": "why"}, "preference": 1,
    "requires": {"numpy": "pip install numpy"},
    "options": [Option(name="depth", type=int, default=1)],
}  # fmt: skip
GOOD_OPTION: dict[str, Any] = {
    "name": "depth", "type": int, "default": 1, "choices": [1, 2], "help": "how deep",
    "scope": "stream", "minimum": 0, "maximum": 9.5, "is_auto_allowed": False,
    "policies": ["alignatt"], "former_names": ["layers"],
}  # fmt: skip

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.binary(max_size=2), st.just(object),
    st.sampled_from([str, int, list]), st.complex_numbers(),
)  # fmt: skip
keys = st.one_of(st.none(), st.integers(), st.text(max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3), st.tuples(inner)
    ),
    max_leaves=5,
)


def test_the_policy_for_recordings_has_a_delay_of_its_own() -> None:
    """The delay that a backend declares is that of its policies for live audio."""
    spec = BackendSpec(**(GOOD | {"options": (), "policies": ("x", "long-form"), "max_delay": 2.0}))

    assert [2.0, 2.0, 31.0] == [spec.delay_of(policy) for policy in (None, "x", "long-form")]
    assert {"policy": "long-form"} == spec.recording_options({})
    assert {} == attrs.evolve(spec, policies=("x",)).recording_options({})


def use(spec: BackendSpec) -> None:
    """Do with a spec what the commands do."""
    json.dumps([described_option(option) for option in spec.all_options])
    json.dumps([spec.summary, spec.models, spec.bounds, spec.deviations, sorted(spec.capabilities)])
    ", ".join([*spec.languages, *spec.policies, *spec.model_files, *spec.models])
    option_lines(spec)
    missing_requirements(spec)
    sorted([spec.name, spec.default_model or "", spec.thread_affinity])
    round(-(spec.preference or 0) + (spec.max_delay or 0.0), 2)
    range(spec.max_concurrent_calls or 1)
    spec.backend_options({})
    spec.stream_options({})
    for text in ("1", "auto", "no"):
        for option in spec.all_options:
            try:
                split_options(spec, {option.name: text})
            except OptionError:
                continue


@settings(max_examples=400, deadline=None)
@given(field=st.sampled_from(sorted(GOOD)), value=values)
def test_a_spec_of_any_values_is_refused_by_field_or_can_be_used(field: str, value: Any) -> None:
    """What passes the checks harms no command; what does not is named."""
    try:
        spec = BackendSpec(**{**GOOD, field: value})
    except ValueError as error:
        assert field in str(error)
        return
    use(spec)


@settings(max_examples=400, deadline=None)
@given(field=st.sampled_from(sorted(GOOD_OPTION)), value=values)
def test_an_option_of_any_values_is_refused_by_field_or_can_be_used(field: str, value: Any) -> None:
    """The same holds for the options of a spec."""
    try:
        option = Option(**{**GOOD_OPTION, field: value})
        spec = BackendSpec(**{**GOOD, "options": [option]})
    except ValueError as error:
        assert field in str(error) or "option" in str(error)
        return
    use(spec)


@pytest.mark.parametrize("field", sorted(set(GOOD) - {"name", "load", "capabilities"}))
def test_a_wrong_type_names_backend_field_and_value(field: str) -> None:
    """An author reads where the mistake is."""
    with pytest.raises(ValueError, match=rf"^BackendSpec 'toy': the field {field} is .*; got 3j$"):
        BackendSpec(**{**GOOD, field: 3j})


@pytest.mark.parametrize("field", sorted(set(GOOD_OPTION) - {"name", "default"}))
def test_a_wrong_type_names_option_field_and_value(field: str) -> None:
    """The same for an option."""
    with pytest.raises(ValueError, match=rf"^Option 'depth': the field {field} is .*; got 3j$"):
        Option(**{**GOOD_OPTION, field: 3j})


def test_every_field_is_checked() -> None:
    """A new field needs a check and an example here."""
    assert {field.name for field in attrs.fields(BackendSpec)} == set(GOOD)
    assert {field.name for field in attrs.fields(Option)} == set(GOOD_OPTION)
    use(BackendSpec(**GOOD))
    use(BackendSpec(**{**GOOD, "options": [Option(**GOOD_OPTION)]}))


def test_an_option_is_declared_once() -> None:
    """Two options of one name would hide each other."""
    option = Option(name="depth")

    with pytest.raises(ValueError, match="BackendSpec 'toy': it declares option depth twice"):
        BackendSpec(**{**GOOD, "options": [option, option]})


def test_batching_needs_calls_from_any_thread() -> None:
    """The calls of several streams run in the thread of one of them."""
    fields = {**GOOD, "capabilities": ["batching"], "thread_affinity": "same-thread"}

    with pytest.raises(ValueError, match=r"BackendSpec 'toy': batching runs .* got"):
        BackendSpec(**fields)


def test_a_default_is_of_the_type_of_its_option() -> None:
    """A default that no user could type is a mistake."""
    with pytest.raises(ValueError, match=r"^Option 'depth': the field default is of type int; got"):
        Option(name="depth", type=int, default="deep")
