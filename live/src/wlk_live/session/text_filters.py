"""Run text filters over committed tokens, and hold back the words that they have not settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.annotators import Replacement
from wlk_core.untrusted import ACTIVE, shown
from wlk_frameworks.sentences import ends_sentence
from wlk_live.session.annotators import call_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wlk_core.annotators import TextFilter
    from wlk_core.errors import BackendError
    from wlk_core.tokens import ASRToken

# A clause is a sentence here, because numbers and names go on after a comma.
_MAX_WAITING = 64  # tokens, in speech without punctuation and pauses: about 20 s
_TAIL = 200  # characters by which the end of a sentence is found


class TextFilters:
    """
    The text filters of one session, each of which gets the words of the one before it.

    Tokens are shown to a filter one by one, so that its text does not depend on how they were
    committed.  A filter that raises, or returns what its contract excludes, is switched off, and
    the words that it has not settled are returned as they came.  `report_failure` is then called.
    """

    def __init__(self, filters: Iterable[TextFilter]) -> None:
        self.report_failure: Callable[[BackendError], None] = lambda _error: None
        self._stages = [_Stage(each, self._report) for each in filters]
        self.waiting: tuple[ASRToken, ...] = ()  #: the tokens that were pushed and not yet returned

    def push(self, tokens: tuple[ASRToken, ...], *, is_last: bool) -> tuple[ASRToken, ...]:
        """Append *tokens*; return those that are settled, with *is_last* all that remain."""
        for stage in self._stages:
            settled = [done for token in tokens for done in stage.push(token)]
            tokens = (*settled, *(stage.flush() if is_last else ()))
        self.waiting = tuple(each for stage in reversed(self._stages) for each in stage.waiting)
        return tokens

    def _report(self, error: BackendError) -> None:
        self.report_failure(error)


@attrs.define
class _Stage:
    """One filter, the words that it has not settled, and the text of their sentence so far."""

    _filter: TextFilter | None  # None once it has failed
    _report: Callable[[BackendError], None]
    waiting: tuple[ASRToken, ...] = ()
    _last: ASRToken | None = None  # of the clause
    _text: str = ""

    def push(self, token: ASRToken) -> list[ASRToken]:
        """Append a token; return the tokens that are settled now."""
        if self._filter is None:
            return [token]
        settled = self.flush() if self._ends_before(token) else []
        self._last, self._text = token, (self._text + token.text)[-_TAIL:]
        self.waiting += (token,)
        return settled + self._settle(is_last=len(self.waiting) >= _MAX_WAITING)

    def flush(self) -> list[ASRToken]:
        """End the clause; return the tokens that were waiting."""
        self._last, self._text = None, ""
        return self._settle(is_last=True) if self.waiting else []

    def _ends_before(self, token: ASRToken) -> bool:
        if (last := self._last) is None:
            return False
        language = token.detected_language
        is_other = (token.speaker, language) != (last.speaker, last.detected_language)
        return is_other or bool(ends_sentence(self._text, token.text, language=language))

    def _settle(self, *, is_last: bool) -> list[ASRToken]:
        shown_tokens = self.waiting

        def replace(text_filter: TextFilter) -> tuple[list[ASRToken], int]:
            answer = text_filter.replace(shown_tokens, is_last=is_last)
            return _replaced(shown_tokens, answer, is_last=is_last)

        if self._filter is None:  # it failed when the clause before this token ended
            self.waiting = ()
            return list(shown_tokens)
        kind = f"text filter {type(self._filter).__name__}"
        result = call_plugin(kind, self._filter, replace, self._report)
        if result is None:
            self._filter, self.waiting = None, ()
            return list(shown_tokens)
        settled, count = result
        self.waiting = shown_tokens[count:]
        return settled


def _replaced(
    tokens: Sequence[ASRToken], answer: tuple[Sequence[Replacement], int], *, is_last: bool
) -> tuple[list[ASRToken], int]:
    """Return the settled tokens after their replacements, and how many of *tokens* they were."""
    replacements, count = answer
    least = len(tokens) if is_last else 0
    if not _is_index(count, least, len(tokens)):
        expected = f"from {least} to {len(tokens)} settled tokens"
        raise ValueError(f"expected {expected}, got {shown(count)}")
    settled: list[ASRToken] = []
    end = 0
    for each in replacements:
        if not isinstance(each, Replacement):
            raise TypeError(f"expected a Replacement, got {shown(each)}")
        if not (_is_index(each.start, end, count) and _is_index(each.stop, each.start + 1, count)):
            raise ValueError(f"expected a span of tokens from {end} to {count}, got {shown(each)}")
        text: object = each.text  # a plugin's, of any type
        if not isinstance(text, str) or not text.strip() or ACTIVE.search(text):
            raise ValueError(f"expected text without control characters, got {shown(each)}")
        settled += tokens[end : each.start]
        settled.append(_joined(tokens[each.start : each.stop], text))
        end = each.stop
    return [*settled, *tokens[end:count]], count


def _is_index(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _joined(tokens: Sequence[ASRToken], text: str) -> ASRToken:
    """Return a token with *text* in place of *tokens*, as probable as the least of them."""
    if len(tokens) == 1 and tokens[0].text == text:
        return tokens[0]
    known = [token.probability for token in tokens if token.probability is not None]
    return attrs.evolve(
        tokens[0],
        end=max(token.end for token in tokens),
        text=text,
        probability=min(known) if len(known) == len(tokens) else None,
        spoken=tuple(spoken for token in tokens for spoken in token.spoken or (token,)),
    )
