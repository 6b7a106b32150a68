"""Request text filters as Deepgram's clients ask for formatting: numbers, replacements, masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from starlette.datastructures import QueryParams

    from wlk_serve.protocols import ModelCard

#: The fields of queries that are about formatting.
FIELDS = frozenset(("numerals", "profanity_filter", "redact", "replace", "smart_format"))

_FILTER = "format"  # the text filter of wlk-format
_OPTIONS = {"mask", "numbers", "replace"}
_MASKS = {
    "pci": ("card",),
    "credit_card": ("card",),
    "email_address": ("email",),
    "phone_number": ("phone",),
    "numbers": ("number",),
    "true": ("number",),
    "pii": ("email", "phone"),
}
_PARTLY = {"pii"}  # names and places are not found
_SYNTAX = (";", "=", "#", "\n", "\r")  # of the filter's replacements


def formatting_filters(
    query: QueryParams, card: ModelCard
) -> tuple[Mapping[str, Mapping[str, Any]] | None, AbstractSet[str]]:
    """
    Return the text filters that a query requests, and the fields that they do not fulfil.

    Without a request they are None, those of the server; other filters of the server stay.  Models
    punctuate in any case, so `smart_format` is never left unfulfilled.
    """
    requested = {name for name in FIELDS if query.getlist(name) not in ([], ["false"])}
    specs = {spec.name: spec for spec in card.filters}
    declared = specs[_FILTER].options if _FILTER in specs else ()
    if not _OPTIONS.issubset(option.name for option in declared if option.scope == "stream"):
        return None, requested - {"smart_format"}
    filters: dict[str, dict[str, Any]] = {name: {} for name in specs}
    options = filters[_FILTER]
    if requested & {"smart_format", "numerals"}:
        options["numbers"] = True
    elif "numerals" in query:
        options["numbers"] = False
    redacted = [value.lower() for value in query.getlist("redact") if value != "false"]
    masks = [mask for value in redacted for mask in _MASKS.get(value, ())]
    if "profanity_filter" in requested:
        masks.append("profanity")
    if masks:
        options["mask"] = ",".join(dict.fromkeys(masks))
    pairs = [pair.partition(":") for pair in query.getlist("replace")]
    possible = [(spoken, text) for spoken, _, text in pairs if _is_possible(spoken, text)]
    if possible:
        options["replace"] = ";".join(f"{spoken}={text}" for spoken, text in possible)
    unfulfilled = set()
    if any(value not in _MASKS or value in _PARTLY for value in redacted):
        unfulfilled.add("redact")
    if len(possible) < len(pairs):
        unfulfilled.add("replace")
    return (filters if options else None), unfulfilled


def _is_possible(spoken: str, text: str) -> bool:
    """Return whether the filter can write *text* for *spoken*; it can remove no words."""
    is_plain = text.isprintable() and not any(mark in spoken + text for mark in _SYNTAX)
    return is_plain and bool(text.strip()) and any(map(str.isalnum, spoken))
