"""The contract of text filters: rules FLT, as a test class that plugins inherit."""

from __future__ import annotations

from functools import partial
import re
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_conformance.calls import ends_within, in_thread
from wlk_conformance.side_effects import standard_output
from wlk_core.annotators import Replacement
from wlk_core.processor import WorkCounters
from wlk_core.registry import Registry
from wlk_core.tokens import ASRToken
from wlk_core.untrusted import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_core.annotators import TextFilter

#: Text of every kind that models write: scripts, parts of words, marks, signs, runs of one letter.
_ODD_TEXTS = (
    "十 二 月",
    "шестьдесят пять",
    "خمسة وستون",
    "שישים וחמש",
    "साठ पाँच",
    "หกสิบห้า",
    "e\u0301 \u0301",
    "👍🏽 👩\u200d👩\u200d👧",
    "... ? ! , -",
    "½ ² Ⅻ ٣ 3.5 1,000 50% $5 #1 @a a@b.c 00:00",
    "\ufffd",
    "a" * 999,
)


class TextFilterConformance:
    """
    The contract of a text filter.

    A test module of the plugin contains::

        class TestFormat(TextFilterConformance):
            text_filter = "format"
            options = {"language": "en"}
            examples = {"It costs forty two euros.": "It costs 42 euros."}
    """

    text_filter: ClassVar[str] = ""  #: the name of an installed filter; or override `open`
    options: ClassVar[dict[str, Any]] = {}  #: options of the filter, by name
    examples: ClassVar[Mapping[str, str]] = {}  #: clauses as they are spoken, and as written
    unchanged: ClassVar[tuple[str, ...]] = ("The train to the coast is late, and so are we.",)
    seconds: ClassVar[float] = 10.0  #: for one call, as in a session

    def open(self) -> TextFilter:
        """Return a new filter."""
        opened: TextFilter = Registry().load_annotator(
            "text-filter", self.text_filter, **self.options
        )
        return opened

    def test_flt_01_the_examples_are_written_as_declared(self) -> None:
        """Every example has its written form, and the unchanged clauses have no replacement."""
        assert any(spoken != written for spoken, written in self.examples.items()), (
            "declare examples that the filter changes"
        )
        for spoken, written in {**self.examples, **{text: text for text in self.unchanged}}.items():
            found = "".join(filtered(self.open(), tokens_of(spoken)))
            assert found == f" {written}", f"{spoken!r} became {found!r}, not {written!r}"

    def test_flt_02_replacements_are_spans_of_settled_tokens(self) -> None:
        """They are in order, do not overlap, and are text that begins like their first token."""
        for text in self._texts():
            filtered(self.open(), tokens_of(text))

    def test_flt_03_a_clause_is_settled_at_its_end(self) -> None:
        """With `is_last` every token is settled, however few they are."""
        text_filter = self.open()
        for text in self._texts():
            tokens = tokens_of(text)
            for count in range(1, len(tokens) + 1):
                answer = text_filter.replace(tokens[:count], is_last=True)
                assert answer[1] == count, f"{answer[1]} of {count} tokens of {text!r} are settled"

    def test_flt_04_words_one_by_one_are_written_as_all_at_once(self) -> None:
        """
        What is settled early is what the whole clause would have settled.

        The tokens of a model may be parts of words, and a clause may end after any of them.
        """
        text_filter = self.open()
        for text in self._texts():
            words = tokens_of(text)
            expected = "".join(filtered(text_filter, words, at_once=True))
            for tokens in (words, parts_of(words, 3), parts_of(words, 1)):
                found = "".join(filtered(text_filter, tokens))
                assert found == expected, (
                    f"{shown(tokens)} became {found!r} one by one, and {text!r} {expected!r} as a "
                    "whole: a token without a space before it continues a word"
                )
            parts = parts_of(words, 3)
            for end in range(1, len(parts)):
                one_by_one, at_once = (
                    "".join(filtered(text_filter, parts[:end], at_once=flag))
                    for flag in (False, True)
                )
                assert one_by_one == at_once, (
                    f"{shown(parts[:end])} at the end of a clause became {one_by_one!r} one by "
                    f"one, and {at_once!r} at once"
                )

    def test_flt_05_an_answer_depends_on_its_arguments_alone(self) -> None:
        """Not on earlier clauses or calls, a reset, or the filter of another session."""
        first, second = self.open(), self.open()
        for text in self._texts():
            tokens = tokens_of(text)
            expected = filtered(self.open(), tokens)
            for text_filter in (first, second, first):
                # A clause that is left in its middle, as if it went on in another session.
                text_filter.replace(tokens[:1], is_last=False)
                found = filtered(text_filter, tokens)
                assert found == expected, f"{text!r} became {found} after other calls"
            first.reset()

    def test_flt_06_no_text_is_too_odd(self) -> None:
        """Other scripts, signs, parts of words and single letters have a valid answer."""
        text_filter = self.open()
        for text in (*self._texts(), *_ODD_TEXTS):
            filtered(text_filter, tokens_of(text))
            letters = tuple(ASRToken(i / 10, i / 10, each) for i, each in enumerate(text[:60]))
            filtered(text_filter, letters)

    def test_flt_07_nothing_is_written_to_standard_output(self) -> None:
        """It is the result of the program that runs the session."""
        with standard_output() as written:
            text_filter = self.open()
            for text in self._texts():
                filtered(text_filter, tokens_of(text))
            text_filter.close()

        assert not written(), f"it wrote {written()[:80]!r}"

    def test_flt_08_an_answer_comes_in_time(self) -> None:
        """A session waits for each call, and switches off a filter that takes longer."""
        text_filter = self.open()
        for text in self._texts():
            tokens = tokens_of(f"{text} " * 30)[:64]
            # What it raises is found by other rules.
            calling = in_thread(partial(text_filter.replace, tokens, is_last=True))
            assert ends_within(self.seconds, calling), (
                f"a call took more than {self.seconds:g} s, and is in {calling.place}"
            )

    def test_flt_09_a_filter_is_closed_twice(self) -> None:
        """`close` may be called again, and `stats` are counters, with or without a model."""
        text_filter = self.open()
        assert isinstance(text_filter.stats, WorkCounters), f"stats are {text_filter.stats!r}"
        text_filter.close()
        text_filter.close()

    def _texts(self) -> tuple[str, ...]:
        return (*self.examples, *self.unchanged)


def tokens_of(text: str) -> tuple[ASRToken, ...]:
    """Return a token for each word of *text*, each with a space before it."""
    words = enumerate(text.split())
    return tuple(ASRToken(0.4 * index, 0.4 * index + 0.3, f" {word}") for index, word in words)


def parts_of(words: tuple[ASRToken, ...], letters: int) -> tuple[ASRToken, ...]:
    """Split *words* into tokens of at most *letters* letters, of one digit or of one sign."""
    parts: list[ASRToken] = []
    for word in words:
        texts = re.findall(rf"\s*(?:[^\W\d]{{1,{letters}}}|\S)", word.text)
        step = (word.end - word.start) / len(texts)
        times = (word.start + step * index for index in range(len(texts)))
        parts += [
            attrs.evolve(word, start=start, end=start + step, text=text)
            for start, text in zip(times, texts, strict=True)
        ]
    return tuple(parts)


def shown(tokens: tuple[ASRToken, ...]) -> str:
    """Return the texts of *tokens*, with a bar between them."""
    return "|".join(token.text for token in tokens)


def filtered(
    text_filter: TextFilter, tokens: tuple[ASRToken, ...], *, at_once: bool = False
) -> list[str]:
    """
    Return the text of each token of a clause after the filter, shown as a session shows them.

    Raises AssertionError if an answer of the filter is invalid.
    """
    written: list[str] = []
    waiting: tuple[ASRToken, ...] = tokens if at_once else ()
    for token in () if at_once else tokens:
        waiting += (token,)
        waiting = waiting[_write(text_filter, waiting, written, is_last=False) :]
    if waiting:
        _write(text_filter, waiting, written, is_last=True)
    return written


def _write(
    text_filter: TextFilter, tokens: tuple[ASRToken, ...], written: list[str], *, is_last: bool
) -> int:
    """Append the settled text to *written*; return how many of *tokens* are settled."""
    replacements, count = text_filter.replace(tokens, is_last=is_last)
    assert type(count) is int, f"expected a number of settled tokens, got {count!r}"
    assert 0 <= count <= len(tokens), f"{count} of {len(tokens)} tokens are settled"
    assert count == len(tokens) or not is_last, f"{count} of {len(tokens)} are settled at the end"
    end = 0
    for each in replacements:
        assert isinstance(each, Replacement), f"expected a Replacement, got {each!r}"
        is_span = end <= each.start < each.stop <= count
        assert is_span, f"{each}: expected a span from {end} to {count}, the settled tokens"
        before, after = tokens[each.start].text, each.text
        assert after.strip(), f"{each}: expected text that is not blank"
        assert not ACTIVE.search(after), f"{each} has control characters"
        assert before[:1].isspace() == after[:1].isspace(), f"{before!r} begins unlike {after!r}"
        written += [token.text for token in tokens[end : each.start]]
        written.append(after)
        end = each.stop
    written += [token.text for token in tokens[end:count]]
    return count
