"""Declare the text filter `format`, without importing what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import AnnotatorSpec, Option, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = AnnotatorSpec(
    kind="text-filter",
    name="format",
    api=1,
    summary="numbers, dates and money as written; glossary; masking of profanity and private data",
    load="wlk_format.engine.text_filter:load",
    options=(
        Option(
            name="language",
            scope="stream",
            help="code of the spoken language where it is not detected; numbers and profanity "
            "of others are left as they are",
        ),
        Option(
            name="numbers",
            scope="stream",
            type=bool,
            default=True,
            help="whether numbers, dates, times and amounts of money are written with digits",
        ),
        Option(
            name="replace",
            scope="stream",
            help='replacements, separated by semicolons: "sequel=SQL; OpenStreetMap", where a '
            "name alone is spelled as given",
        ),
        Option(name="glossary", help="file of replacements in UTF-8, one on each line"),
        Option(
            name="mask",
            scope="stream",
            help="what is masked, separated by commas: profanity, email, card, phone, number "
            "(three or more digits), or all, which is the first four",
        ),
        Option(
            name="region",
            scope="stream",
            help="country whose phone numbers need no country code, such as US or DE; by default "
            "that of the language",
        ),
    ),
    languages=("de", "en", "es", "fr"),
    requires={"damga": "pip install wlk-format", "phonenumbers": "pip install wlk-format"},
)


@hookimpl
def wlk_text_filters() -> Iterable[AnnotatorSpec]:
    """Return the text filter of this distribution."""
    return (FORMAT,)
