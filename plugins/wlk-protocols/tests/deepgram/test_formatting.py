"""Fields for formatting choose text filters of the server."""

from __future__ import annotations

import json

import attrs
import pytest
from starlette.datastructures import QueryParams

from wlk_conformance.protocols import CARD, PlayedSession, SilentStream
from wlk_core.options import Option
from wlk_core.plugins import AnnotatorSpec
from wlk_protocols.deepgram.query import FluxQuery, ListenQuery

from .client import AUDIO, FLUX, client, turns_text
from .test_prerecorded import WORDS, asked

OPTIONS = tuple(Option(name=name, scope="stream") for name in ("numbers", "mask", "replace"))
NAMES, FORMAT = (
    AnnotatorSpec(
        kind="text-filter", name=name, api=1, summary="rewrites", load="x:y", options=options
    )
    for name, options in (("names", ()), ("format", OPTIONS))
)
FORMATTING = attrs.evolve(CARD, filters=(NAMES, FORMAT))


def requested(query, card=FORMATTING):
    """Return the filters of a recording, and the fields that are named as ignored."""
    request, answer = asked(query, card)
    warnings = answer("req_1", WORDS, 2.0)["metadata"].get("warnings", ())
    return request.filters, [warning["parameter"] for warning in warnings]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("smart_format=true", {"numbers": True}),
        ("numerals=true", {"numbers": True}),
        ("numerals=false", {"numbers": False}),
        ("numerals=false&smart_format=true", {"numbers": True}),
        ("profanity_filter=true", {"mask": "profanity"}),
        ("redact=pci&redact=numbers&profanity_filter=true", {"mask": "card,number,profanity"}),
        ("redact=true&redact=numbers", {"mask": "number"}),
        ("redact=email_address&redact=phone_number", {"mask": "email,phone"}),
        ("replace=sequel:SQL&replace=this%20one:that", {"replace": "sequel=SQL;this one=that"}),
    ],
)
def test_a_field_chooses_an_option_of_the_filter(query, options):
    """The other filters of the server stay, and nothing is ignored."""
    assert requested(query) == ({"names": {}, "format": options}, [])


@pytest.mark.parametrize("query", ["", "smart_format=false&profanity_filter=false&redact=false"])
def test_without_a_request_the_filters_are_those_of_the_server(query):
    """A field that asks for nothing changes nothing."""
    assert requested(query) == (None, [])


@pytest.mark.parametrize(
    ("query", "options", "ignored"),
    [
        ("redact=ssn", None, ["redact"]),
        ("redact=pii", {"mask": "email,phone"}, ["redact"]),
        ("redact=pci&redact=ssn", {"mask": "card"}, ["redact"]),
        ("replace=um", None, ["replace"]),
        ("replace=um:&replace=a:b", {"replace": "a=b"}, ["replace"]),
        ("replace=a%3Db:c&replace=%21:c", None, ["replace"]),
        ("numerals=true&summarize=v2", {"numbers": True}, ["summarize"]),
    ],
)
def test_what_the_filter_cannot_do_is_named(query, options, ignored):
    """It redacts no names and deletes no words."""
    filters = options and {"names": {}, "format": options}

    assert requested(query) == (filters, ignored)


@pytest.mark.parametrize(
    "filters", [(), (NAMES,), (attrs.evolve(FORMAT, options=()),)], ids=["none", "other", "bare"]
)
def test_fields_are_named_if_the_server_has_no_such_filter(filters):
    """Models punctuate without it, so smart_format is fulfilled in part."""
    card = attrs.evolve(CARD, filters=filters)
    query = "smart_format=true&numerals=true&replace=a:b&redact=pci&profanity_filter=true"

    assert requested(query, card) == (None, ["numerals", "replace", "redact", "profanity_filter"])


@pytest.mark.parametrize("kind", [ListenQuery, FluxQuery])
def test_live_audio_is_formatted_too(kind):
    """Both versions open their streams with the filters."""
    query = kind.parse(QueryParams(f"{AUDIO}&numerals=true&redact=ssn"), FORMATTING)

    assert query.options.filters == {"names": {}, "format": {"numbers": True}}
    assert query.ignored == ("redact",)


def test_a_turn_can_change_whether_numbers_are_written(monkeypatch):
    """A Configure message of Flux has the field, and no warning follows."""
    monkeypatch.setattr("wlk_conformance.protocols.CARD", FORMATTING)
    session = PlayedSession(client(FLUX, "", turns_text), SilentStream)
    (success,) = session.send(json.dumps({"type": "Configure", "numerals": True}))

    assert success["type"] == "ConfigureSuccess"
    assert session.audio.options.filters == {"names": {}, "format": {"numbers": True}}
