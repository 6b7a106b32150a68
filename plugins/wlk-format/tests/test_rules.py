from __future__ import annotations

from spoken import lines

from wlk_conformance.text_filters import TextFilterConformance


class TestFormat(TextFilterConformance):
    """The filter keeps rules FLT with everything switched on."""

    text_filter = "format"
    options = {"language": "en", "mask": "all", "replace": "sequel=SQL; OpenStreetMap"}  # noqa: RUF012 -- as declared
    examples = {  # noqa: RUF012 -- as above
        "We use sequel on open street map.": "We use SQL on OpenStreetMap.",
        **{line[1]: line[2] for line in lines("numbers.txt")[1:3]},
        "Mail jo dot smith at example dot com, you bastard.": "Mail [email], you *******.",
    }
    unchanged = tuple(line[1] for line in lines("ordinary.txt")[:2])
