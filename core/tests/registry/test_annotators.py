"""Diarizers, translators, turn detectors and text filters as plugins."""

from __future__ import annotations

from typing import Any

import pytest

from wlk_core import BackendUnavailable, OptionError

DIARIZER = """
@hookimpl
def wlk_diarizers():
    return [AnnotatorSpec(
        kind="diarizer", name="who", api=1, summary="finds speakers", load=f"{__name__}:open_who",
        default_model="small",
        options=[Option(name="speakers", type=int, default=4, minimum=1, help="most speakers")],
    )]

def open_who(spec, model, **options):
    from wlk_conformance.testing.annotators import ScriptedDiarizer
    diarizer = ScriptedDiarizer(())
    diarizer.loaded = (spec.name, model, options)
    return diarizer
"""
FILTER = """
@hookimpl
def wlk_text_filters():
    yield AnnotatorSpec(
        kind="text-filter", name="who", api=1, summary="writes names", load=f"{__name__}:open_who",
        options=[
            Option(name="language"), Option(name="names", scope="stream"),
            Option(name="count", type=int, scope="stream", minimum=1),
        ],
    )

def open_who(spec, model, **options):
    return options
"""
BOTH = (
    DIARIZER
    + """
@hookimpl
def wlk_backends():
    return [spec("toy")]
"""
)


def test_an_annotator_is_found_and_loaded_by_its_name(site: Any) -> None:
    """The loader receives the default model and the options of the call."""
    site.install("wlk-who", ["who"], DIARIZER)
    registry = site.registry()
    ((declared,),) = [plugin.specs for plugin in registry.plugins()]
    diarizer = registry.load_annotator("diarizer", "who", speakers=2)

    assert (declared.kind, declared.name) == ("diarizer", "who")
    assert diarizer.loaded == ("who", "small", {"speakers": 2})
    assert [plugin.error for plugin in registry.plugins()] == [None]


def test_a_model_is_named_with_its_annotator(site: Any) -> None:
    """On a command line, "NAME=MODEL" names both; an explicit model takes precedence."""
    site.install("wlk-who", ["who"], DIARIZER)
    load = site.registry().load_annotator

    assert load("diarizer", "who=./a=b").loaded == ("who", "./a=b", {"speakers": 4})
    assert load("diarizer", "who=tiny", "large").loaded == ("who", "large", {"speakers": 4})


def test_one_plugin_may_offer_backends_and_annotators(site: Any) -> None:
    """Each spec is found under its own kind."""
    site.install("wlk-both", ["toy", "who"], BOTH)
    registry = site.registry()

    assert [spec.name for spec in registry.specs()] == ["toy"]
    assert registry.load_annotator("diarizer", "who").loaded == ("who", "small", {"speakers": 4})


def test_a_text_filter_takes_the_options_of_clients_when_it_is_loaded(site: Any) -> None:
    """Their scope "stream" says only that clients of a server may choose them too."""
    site.install("wlk-who", ["who"], FILTER)
    load = site.registry().load_annotator

    assert load("text-filter", "who", language="en", names="Ann") == {
        "language": "en", "names": "Ann", "count": None,
    }  # fmt: skip
    with pytest.raises(OptionError, match="who: option count must be between 1 and inf"):
        load("text-filter", "who", count="0")


@pytest.mark.parametrize(
    ("name", "options", "error", "match"),
    [
        ("else", {}, BackendUnavailable, "no diarizer called 'else'; installed: who"),
        ("who", {"people": 3}, OptionError, "people"),
        ("who", {"speakers": 0}, OptionError, "speakers"),
    ],
)
def test_an_annotator_that_cannot_be_loaded_is_one_line(
    site: Any, name: str, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    """The message names the installed annotators, or the option."""
    site.install("wlk-who", ["who"], DIARIZER)
    with pytest.raises(error, match=match):
        site.registry().load_annotator("diarizer", name, **options)
