"""Rules SIL: pauses, and what stands before and after them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same, check_texts, check_times, check_words, words_of
from wlk_conformance.material import CodedMaterial, hiss
from wlk_conformance.rules import rule
from wlk_core import EPS
from wlk_core.errors import WLKError
from wlk_core.testing import CELL_SECONDS, CodedToken

if TYPE_CHECKING:
    from wlk_conformance.subject import Subject
    from wlk_core.testing import StreamDriver

__all__ = ["SilenceRules"]

INSTANT = 1e-6  # seconds: what summing floats may do to a clock that is exact
MISHEARD = 0.1  # share of words that a small model may miss or invent
THRESHOLDS = ((0.19, 0.21), (4.99, 5.01), (59.9, 60.1))  # seconds, either side of one


class SilenceRules:
    """Rules of silence."""

    @rule(
        "SIL-01",
        kinds="O,S,G",
        causes=(
            "only what is decoded already is flushed: audio in the pipe waits (B10)",
            "a short rest is never decoded (B27)",
        ),
    )
    def test_a_silence_returns_every_word(self, wlk: Subject) -> None:
        """`start_silence()` returns every word whose audio was inserted, padding if need be."""
        for count, tail in ((1, 0.0), (4, 0.0), (4, 0.3)):
            fed = wlk.speech(count, seed=3, tail=tail)
            driver = wlk.stream()
            for chunk in fed.chunks(0.5):
                driver.insert(chunk)
            driver.start_silence()
            flushed = driver.tokens
            if wlk.material.kind == "coded":
                check_words(fed.words, flushed, what="by start_silence")
            assert driver.processed_up_to >= fed.seconds - INSTANT, (
                f"start_silence processed {driver.processed_up_to:.3f} s of {fed.seconds:.3f} s"
            )
            late = driver.finish().committed
            assert not late, f"start_silence left {late[0].text!r} for finish to return"
            what = "start_silence against finish"
            check_same(wlk.solo(fed), flushed, what=what, tolerance=0.1)

    @rule("SIL-02", causes=("the flush commits the same hypothesis again",))
    def test_a_second_silence_returns_nothing(self, wlk: Subject) -> None:
        """A second one without new audio returns nothing."""
        fed = wlk.speech(4, seed=3)
        driver = wlk.stream()
        driver.feed(fed.audio)
        driver.start_silence()
        wlk.heard(driver.tokens, fed)
        again = driver.start_silence().committed
        assert not again, f"the second start_silence returned {again[0].text!r}"
        driver.end_silence(2.0)
        again = driver.start_silence().committed
        assert not again, f"start_silence after a silence returned {again[0].text!r}"

    @rule(
        "SIL-03",
        causes=(
            "offset is added to the clock",
            "the duration is rounded to frames",
        ),
    )
    def test_a_silence_moves_the_clock_exactly(self, wlk: Subject) -> None:
        """
        `end_silence(d, offset)` moves the clock by exactly d.

        `offset` is advisory and never changes a time.  Negative or NaN raises; 0 changes nothing.
        `end_silence` without `start_silence` (a leading silence) works.
        """
        fed = wlk.speech(4, seed=3)
        for seconds, offset in ((0.0, None), (1.234567, None), (1.234567, 7.0), (30.0, -3.0)):
            driver = wlk.stream()
            driver.end_silence(seconds, offset)
            driver.feed(fed.audio)
            driver.silence(seconds, offset)
            driver.feed(fed.audio)
            driver.finish()
            _check_clock(driver)
            first = wlk.solo(fed)
            what = f"silences of {seconds} s with offset {offset}"
            check_same(first, driver.tokens[: len(first)], what=what, shift=seconds, tolerance=0.1)
        for bad in (-1.0, -1e-9, math.nan, math.inf):
            driver = wlk.stream()
            driver.feed(fed.audio)
            try:
                driver.processor.end_silence(bad)
            except WLKError:
                pass
            else:
                raise AssertionError(f"end_silence({bad}) was accepted")
            driver.finish()
            check_same(wlk.solo(fed), driver.tokens, what=f"after end_silence({bad}) was refused")
            _check_clock(driver)

    @rule("SIL-04", causes=("durations are summed instead of samples counted", "rounding to ms"))
    def test_a_hundred_silences_do_not_drift(self, wlk: Subject) -> None:
        """A hundred silences do not drift."""
        fed = wlk.speech(3, seed=15)
        driver = wlk.stream()
        piece = wlk.fed(hiss(0.1)).audio[:1111]
        wlk.recipes.append("a hundred times 1111 samples of it and 0.1 s or 1/3 s of silence")
        for index in range(100):
            driver.insert(piece)
            driver.process()
            driver.silence(0.1 if index % 2 else 1 / 3)
        before, said = driver.clock, len(driver.tokens)
        driver.feed(fed.audio)
        driver.finish()
        _check_clock(driver)
        came = driver.tokens[said:]
        if wlk.material.kind == "coded":
            check_times(fed.words, came, tolerance=CELL_SECONDS, shift=before)
        for token in came:
            assert token.start >= before - EPS, f"{token.text!r} starts before its audio came"

    @rule(
        "SIL-05",
        kinds="O,S",
        causes=(
            "words before a pause come out after it and take its length along (B10)",
            "a time in the model's audio is mapped through the wrong side of the pause",
        ),
    )
    def test_no_token_lies_in_a_pause(self, wlk: Subject) -> None:
        """No token inside or across a pause; words before it are not stamped after it."""
        fed, seconds = wlk.speech(4, seed=3, lead=0.0, tail=0.0), 30.0
        for is_gap in (False, True):
            driver = wlk.stream()
            driver.feed(fed.audio)
            if is_gap:
                driver.insert(fed.audio, 2 * fed.seconds + seconds)
            else:
                driver.silence(seconds)
                driver.feed(fed.audio)
            driver.finish()
            wlk.heard(driver.tokens, fed)
            first, behind = fed.seconds, fed.seconds + seconds
            for token in driver.tokens:
                assert token.end <= first + EPS or token.start >= behind - EPS, (
                    f"{token.text!r} lies at {token.start:.3f}-{token.end:.3f} s, the pause at "
                    f"{first:.3f}-{behind:.3f} s"
                )
            if wlk.material.kind == "coded":
                early = [token for token in driver.tokens if token.end <= first + EPS]
                check_words(fed.words, early, what="before the pause")

    @rule("SIL-06", causes=("short pauses are fed as zeros, long ones reset the model (B09, B36)",))
    def test_no_length_of_silence_is_special(self, wlk: Subject) -> None:
        """No behaviour step at any internal threshold (4.99 / 5.01 s, 0.2, 60 s)."""
        fed = wlk.speech(3, seed=15)
        reference = None
        for seconds in (length for pair in THRESHOLDS for length in pair):
            driver = wlk.stream()
            driver.feed(fed.audio)
            driver.silence(seconds)
            driver.feed(fed.audio)
            driver.finish()
            _check_clock(driver)
            wlk.heard(driver.tokens, fed)
            # Times before the pause stand still, those after it move with it.
            moved = [
                (token.text, round(token.start - seconds * (token.start > fed.seconds), 3))
                for token in driver.tokens
            ]
            reference = reference or moved
            assert reference == moved, (
                f"a silence of {seconds} s gives {moved}, one of {THRESHOLDS[0][0]} s {reference}"
            )

    @rule(
        "SIL-07",
        kinds="O,S",
        causes=(
            "a flush commits the growing word and never looks at it again (B11)",
            "the space between the words is lost with the context",
        ),
    )
    def test_a_pause_changes_no_word(self, wlk: Subject) -> None:
        """A pause loses, repeats and joins nothing, also inside a word."""
        fed = wlk.speech(5, seed=17, gap=(0.3, 0.5))
        whole = wlk.heard(wlk.solo(fed), fed)
        off = 0
        for index in range(len(fed.words) - 1):
            middle = (fed.words[index].end + fed.words[index + 1].start) / 2
            driver = _paused(wlk, fed.cut(middle), 2.0)
            if wlk.material.kind == "coded":
                what = f"a pause at {middle:.2f} s"
                check_texts(words_of(whole), words_of(driver.tokens), what=what)
            off += abs(len(words_of(driver.tokens)) - len(words_of(whole)))
        # With less around it a model may hear another digit, which is QUAL-01's to judge.
        said = (len(fed.words) - 1) * len(fed.words)
        assert off <= MISHEARD * said, f"of {said} words {off} were lost or came twice"

    @rule("SIL-07", kinds="O", causes=("a word cut in two is heard twice, or not at all",))
    def test_a_pause_inside_a_word_changes_no_word(self, wlk: Subject) -> None:
        """A pause inside a word neither loses nor repeats it."""
        if not isinstance(wlk.material, CodedMaterial):
            return
        script = [CodedToken(1 + index % 10, 2 + 8 * index, 6) for index in range(4)]
        fed = wlk.fed(wlk.material.script(script))
        for cells in (12, 14):  # into the second word: it is heard on one side of the pause
            for seconds in (0.2, 2.0, 30.0):
                driver = _paused(wlk, fed.cut(cells * CELL_SECONDS), seconds)
                check_words(fed.words, driver.tokens, what=f"a pause of {seconds} s inside a word")


def _paused(wlk: Subject, parts: tuple[object, ...], seconds: float) -> StreamDriver:
    driver = wlk.stream()
    before, after = parts
    driver.feed(before)  # type: ignore[arg-type]
    driver.silence(seconds)
    driver.feed(after)  # type: ignore[arg-type]
    driver.finish()
    return driver


def _check_clock(driver: StreamDriver) -> None:
    assert abs(driver.processed_up_to - driver.clock) <= INSTANT, (
        f"processed_up_to is {driver.processed_up_to:.6f} s, the clock says {driver.clock:.6f} s"
    )
