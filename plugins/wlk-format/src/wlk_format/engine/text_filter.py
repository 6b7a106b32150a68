"""The text filter `format`: apply masks, a user's replacements and numbers to each clause."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import phonenumbers

from wlk_core.languages import NAMES
from wlk_core.plugins import OptionError, WorkCounters
from wlk_format.engine.masking import KINDS, DigitRuns, Emails, default_region
from wlk_format.engine.numbers import Numbers
from wlk_format.engine.phrases import Phrases, parse_entries, read_entries, written
from wlk_format.engine.vocabulary import VOCABULARIES
from wlk_format.engine.words import replacement, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.plugins import AnnotatorSpec, ASRToken, Replacement
    from wlk_format.engine.words import Span, Stage, Word

logger = logging.getLogger(__name__)

_ALL = KINDS[:-1]  # years and prices are numbers too: those are masked only if named


def load(
    spec: AnnotatorSpec,
    model: str | None,
    *,
    language: str | None,
    numbers: bool,
    replace: str | None,
    glossary: str | None,
    mask: str | None,
    region: str | None,
) -> FormatFilter:
    """
    Return a filter for one stream.

    Raises:
        OptionError: a mask or region is unknown, or the replacements cannot be read.

    """
    if model is not None:
        raise OptionError(f"{spec.name} has no models; got {model!r}")
    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise OptionError(
            f"{spec.name}: expected option region as two capital letters, such as US or DE, got "
            f"{region!r}"
        )
    entries = read_entries(Path(glossary), owner=spec.name) if glossary else {}
    entries |= parse_entries(replace or "", owner=spec.name)
    text_filter = FormatFilter(
        language=language,
        has_numbers=numbers,
        entries=entries,
        masks=_masks(mask, owner=spec.name),
        region=region,
    )
    if language is not None:
        text_filter.prepare(language)
    return text_filter


def _masks(text: str | None, *, owner: str) -> frozenset[str]:
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    unknown = [name for name in names if name not in {*KINDS, "all"}]
    if unknown:
        raise OptionError(
            f"{owner}: expected option mask as any of {', '.join(KINDS)} or all, separated by "
            f"commas, got {unknown[0]!r}"
        )
    return frozenset(names) - {"all"} | frozenset(_ALL if "all" in names else ())


class FormatFilter:
    """
    A `wlk_core.plugins.TextFilter`.

    Words that no replacement can span are decided on independently of each other, so the result
    does not depend on how they arrive.  Where replacements overlap, masks go before the user's
    replacements, and those before numbers.
    """

    def __init__(
        self,
        *,
        language: str | None = None,
        has_numbers: bool = True,
        entries: dict[str, str] | None = None,
        masks: frozenset[str] = frozenset(),
        region: str | None = None,
    ) -> None:
        self._language = language
        self._has_numbers = has_numbers
        self._masks = masks
        self._region = region
        self._glossary = Phrases(entries, written) if entries else None
        self._stages: dict[str, list[Stage]] = {}  # by language, "" if it is unknown

    def prepare(self, language: str | None) -> list[Stage]:
        """Load and return what a language needs, in the order of precedence."""
        code = language or ""
        if code not in self._stages:
            self._stages[code] = list(self._make_stages(code))
        return self._stages[code]

    def _make_stages(self, language: str) -> list[Stage]:
        stages: list[Stage] = []
        numbers = Numbers(language) if language in VOCABULARIES else None
        if numbers is None and (self._has_numbers or "profanity" in self._masks):
            # A client can invent languages, but not flood the log or the cache with them.
            warn_of_unchanged_text(language if language in NAMES else "")
        digit_masks = self._masks - {"profanity", "email"}
        if "email" in self._masks:
            stages.append(Emails())
        if digit_masks:
            region = self._region or default_region(language)
            stages.append(DigitRuns(digit_masks, region, numbers))
        # A client of a server may choose the language: only known ones become part of a path.
        if "profanity" in self._masks and language in VOCABULARIES:
            stages.append(_profanity(language))
        if self._glossary:
            stages.append(self._glossary)
        if self._has_numbers and numbers:
            stages.append(numbers)
        return stages

    def replace(
        self, tokens: tuple[ASRToken, ...], *, is_last: bool
    ) -> tuple[list[Replacement], int]:
        """Return the replacements among *tokens*, and how many of the tokens are settled."""
        if not tokens:
            return [], 0
        stages = self.prepare(tokens[0].detected_language or self._language)
        words = words_of(tokens, is_last=is_last)
        found: list[Replacement] = []
        start = settled = 0
        for stop in range(1, len(words) + 1):
            following = words[stop] if stop < len(words) else None
            part = words[start:stop]
            is_end = following is None and is_last
            if not is_end and any(stage.joins(part, following) for stage in stages):
                continue
            found += (replacement(part, span) for span in _spans(part, stages))
            start, settled = stop, part[-1].stop
        return found, settled

    def reset(self) -> None:
        """Do nothing: no clause leaves anything behind."""

    def close(self) -> None:
        """Do nothing; may be called again."""

    @property
    def stats(self) -> WorkCounters:
        """Empty counters: there is no model."""
        return WorkCounters()


def _spans(words: Sequence[Word], stages: Sequence[Stage]) -> list[Span]:
    """Return what to replace; later stages do not see words that an earlier one replaced."""
    found: list[Span] = []
    for stage in stages:
        edges = [0, *(edge for span in found for edge in (span.start, span.stop)), len(words)]
        free = [part for part in zip(edges[::2], edges[1::2], strict=True) if part[0] < part[1]]
        found += [
            attrs.evolve(span, start=start + span.start, stop=start + span.stop)
            for start, stop in free
            for span in stage.spans(words[start:stop])
        ]
        found.sort(key=lambda span: span.start)
    return found


@cache
def _profanity(language: str) -> Phrases:
    path = files(__package__) / "profanity" / f"{language}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    phrases = [line for line in lines if line and not line.startswith("#")]
    return Phrases(dict.fromkeys(phrases, ""), lambda spoken, _: _stars(spoken))


def _stars(spoken: str) -> str:
    return "".join(each if each.isspace() else "*" for each in spoken)


@cache  # once for each language: a server opens a filter for every stream
def warn_of_unchanged_text(language: str) -> None:
    """Log that the text of *language*, "" if it is unknown, is left as it is."""
    known = ", ".join(VOCABULARIES)
    reason = (
        f"there are no rules for {language!r}, only for {known}"
        if language
        else f"the language is unknown: choose it, such as with --language en (one of {known})"
    )
    logger.warning("format writes no numbers and masks no profanity, because %s", reason)
