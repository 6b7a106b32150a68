"""Run text filters over committed tokens, and hold back the words that they have not settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from wlk_core.annotators import Replacement
from wlk_core.untrusted import ACTIVE, shown
from wlk_frameworks.sentences import ends_sentence
from wlk_live.session.annotators import call_plugin
from wlk_live.session.call_time import CallTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    committed.  A filter that raises, returns what its contract excludes, or takes too long, see
    `CallTime`, is switched off, and the words that it has not settled are returned as they came.
    `report_failure` is then called.
    """

    def __init__(self, filters: Iterable[TextFilter]) -> None:
        self.report_failure: Callable[[BackendError], None] = lambda _error: None
        self._stages = [_Stage(each, self._report) for each in filters]
        self.waiting: tuple[ASRToken, ...] = ()  #: the tokens that were pushed and not yet returned

    def push(self, tokens: tuple[ASRToken, ...], *, is_last: bool) -> tuple[ASRToken, ...]:
        """Append *tokens*; return those that are settled, with *is_last* all that remain."""
        for stage in self._stages:
            tokens = stage.push(tokens, is_last=is_last)
        self.waiting = tuple(each for stage in reversed(self._stages) for each in stage.waiting)
        return tokens

    def _report(self, error: BackendError) -> None:
        self.report_failure(error)


@attrs.frozen
class _Clause:
    """The tokens of a sentence that are not settled, and its text so far."""

    waiting: tuple[ASRToken, ...] = ()
    last: ASRToken | None = None
    text: str = ""
    is_new: bool = True  #: whether none of its tokens is settled

    def steps(
        self, text_filter: TextFilter, tokens: Sequence[ASRToken], *, is_last: bool
    ) -> Iterator[_Step]:
        """Show *tokens* to a filter one by one; *is_last* ends the clause after them."""
        clause = self
        for index, token in enumerate(tokens):
            if clause.ends_before(token):
                yield from clause.flushed(text_filter, index)
                clause = _Clause()
            text = (clause.text + token.text)[-_TAIL:]
            clause = _Clause((*clause.waiting, token), token, text, clause.is_new)
            is_long = len(clause.waiting) >= _MAX_WAITING
            settled, count = clause.settled(text_filter, is_last=is_long)
            left, is_new = clause.waiting[count:], clause.is_new and not count
            clause = attrs.evolve(clause, waiting=left, is_new=is_new)
            yield _Step(settled, clause, index + 1)
        if is_last:
            yield from clause.flushed(text_filter, len(tokens))

    def flushed(self, text_filter: TextFilter, count: int) -> Iterator[_Step]:
        """End the clause, after *count* tokens of this push."""
        settled: list[ASRToken] = []
        if self.waiting:
            settled, _ = self.settled(text_filter, is_last=True)
        yield _Step(settled, _Clause(), count)

    def settled(self, text_filter: TextFilter, *, is_last: bool) -> tuple[list[ASRToken], int]:
        """Call a filter; return the settled tokens with its text, and how many tokens they were."""
        first = self.waiting[0]
        if not self.is_new or first.text[:1].isspace():
            answer = text_filter.replace(self.waiting, is_last=is_last)
            return _replaced(self.waiting, answer, is_last=is_last)
        # The first word of a stream has no space before it.  To a filter it would look like the
        # rest of a word: "two hundred" would become "two 100".
        spaced = attrs.evolve(first, text=f" {first.text}")
        replacements, count = text_filter.replace((spaced, *self.waiting[1:]), is_last=is_last)
        answer = [_without_space(each) for each in replacements], count
        return _replaced(self.waiting, answer, is_last=is_last)

    def ends_before(self, token: ASRToken) -> bool:
        """Whether *token* begins another clause."""
        if (last := self.last) is None:
            return False
        language = token.detected_language
        is_other = (token.speaker, language) != (last.speaker, last.detected_language)
        return is_other or bool(ends_sentence(self.text, token.text, language=language))


class _Step(NamedTuple):
    """What a call of a filter has settled, and what waits after it."""

    settled: list[ASRToken]
    clause: _Clause
    shown: int  # how many tokens of this push it has been shown


@attrs.define
class _Stage:
    """One filter, and the clause that it has not settled."""

    _filter: TextFilter | None  # None once it has failed
    _report: Callable[[BackendError], None]
    _clause: _Clause = attrs.field(factory=_Clause)
    _time: CallTime = attrs.field(factory=CallTime)

    @property
    def waiting(self) -> tuple[ASRToken, ...]:
        return self._clause.waiting

    def push(self, tokens: tuple[ASRToken, ...], *, is_last: bool) -> tuple[ASRToken, ...]:
        """Append tokens; return those that are settled now, with *is_last* all that remain."""
        if self._filter is None:
            return tokens
        if not tokens and not self.waiting:  # a commit without words, or the end of an utterance
            if is_last:
                self._clause = _Clause()
            return ()
        clause, steps = self._clause, list[_Step]()

        def call(text_filter: TextFilter) -> bool:
            def work() -> None:
                # In another thread, which may be left behind: it changes nothing but `steps`.
                for step in clause.steps(text_filter, tokens, is_last=is_last):
                    steps.append(step)

            self._time.call(work, tokens=len(tokens))
            return True

        kind = f"text filter {type(self._filter).__name__}"
        is_working = call_plugin(kind, self._filter, call, self._report)
        done = tuple(steps)
        settled = tuple(token for step in done for token in step.settled)
        self._clause, shown_count = (done[-1].clause, done[-1].shown) if done else (clause, 0)
        if not is_working:
            settled += self.waiting + tokens[shown_count:]
            self._filter, self._clause = None, _Clause()
        return settled


def _without_space(replacement: Any) -> Any:
    """Return *replacement* without the space that was added to the first word; others unchanged."""
    is_first = isinstance(replacement, Replacement) and replacement.start == 0
    if is_first and replacement.text[:1] == " ":
        return attrs.evolve(replacement, text=replacement.text[1:])
    return replacement


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
