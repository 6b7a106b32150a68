"""Declarations with a wrong type in a field, which are refused when they are constructed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

from wlk_core.plugins import AnnotatorSpec, BackendSpec, Option

if TYPE_CHECKING:
    from wlk_core.plugins import Transcript


@attrs.frozen(kw_only=True)
class OwnSpec(BackendSpec):
    """A plugin's own subclass of the spec, with fields that the core does not check."""

    words: list[str] = attrs.field(factory=list)
    transcript: Transcript | None = None


_TEXT = (None, 3, b"x", ["x"])
_TEXTS = (None, 3, "en", b"en", [3], [None], [["en"]], {"en": "x"})
_BY_NAME = (None, 3, "x", ["x"], range(3), {"a": 1}, {1: "a"}, {"a": None}, {"": "a"}, {"a": ""})
WRONG: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("name", "summary", "load", "help"), _TEXT),
    **dict.fromkeys(("languages", "policies", "model_files"), _TEXTS),
    **dict.fromkeys(("models", "model_licences", "requires", "deviations"), _BY_NAME),
    **dict.fromkeys(("thread_affinity", "scope", "kind"), (None, 3, "odd", ["any"], np.eye(2))),
    **dict.fromkeys(("max_concurrent_calls", "preference"), ("1", 1.5, True, [1])),
    **dict.fromkeys(("max_delay", "minimum", "maximum"), ("1", True, [1.0])),
    "api": (None, "1", 1.5, True, [1]),
    **dict.fromkeys(("digit_models", "former_names"), _TEXTS),
    "default_model": _TEXT[1:],
    "options": (None, 3, "x", ["x"], [None], [{"name": "x"}], [[Option(name="x")]]),
    "bounds": (None, 3, "x", ["x"], {"a": "b"}, {1: 1.0}, {"a": None}),
    "model_sizes": (None, 3, "x", ["x"], {"a": "b"}, {1: 1}, {"a": None}, {"a": 1.5}),
    "capabilities": (None, 3, "hypothesis", ["x"], [["hypothesis"]], [None]),
    "type": (None, 3, "int", list),
    "default": (3, ["x"], {"a": 1}),
    "choices": (None, 3, "ab", [3], [["a"]], [None]),
    "is_auto_allowed": (None, 1, "yes"),
}
SPEC = {"name": "toy", "api": 1, "summary": "a toy", "load": "toy:load"}
REQUIRED: dict[Any, dict[str, object]] = {
    Option: {"name": "x"},
    OwnSpec: SPEC,
    AnnotatorSpec: {**SPEC, "kind": "diarizer"},
}
CASES = [
    pytest.param(made, field.name, value, id=f"{made.__name__}-{field.name}-{value}")
    for made in REQUIRED
    for field in attrs.fields(made)
    for value in WRONG.get(field.name, ())
]


@pytest.mark.parametrize(("made", "field", "value"), CASES)
def test_a_field_of_another_type_is_refused(made: Any, field: str, value: object) -> None:
    """One line names the field, the expected type and the value; every field has cases."""
    with pytest.raises(ValueError, match=rf"^{made.__name__}: expected {field} as \S.*, got \S.*$"):
        made(**{**REQUIRED[made], field: value})
