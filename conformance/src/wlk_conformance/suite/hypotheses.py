"""Rules HYP: the hypothesis."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING

from wlk_conformance.compare import check_texts
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.suite.scenes import (
    REPEATS,
    check_alone,
    check_spoken,
    flushes_of,
    returns_promptly,
    text_of,
    texts_of_calls,
    unchanged,
    while_call_runs,
)
from wlk_conformance.suite.text import check_running
from wlk_conformance.testing import StreamDriver
from wlk_core import EPS
from wlk_core.streaming import Word, needs_space

if TYPE_CHECKING:
    from wlk_conformance.backend_under_test import BackendUnderTest

UTTERANCES = 8  # of a stream
READS = 50  # while a step runs, so that a short wait in each adds up


class HypothesisRules:
    """Rules of the hypothesis."""

    @rule(
        "HYP-01",
        "get_buffer decodes",
        "it takes the lock of the engine call",
        "it waits for the end of a flush",
    )
    def test_reading_the_hypothesis_changes_nothing(self, wlk: BackendUnderTest) -> None:
        """
        `get_buffer()` is pure and cheap and never waits for the model.

        The stream is identical with and without these calls, which may come from any thread, and
        also of a stream that is finished, broken or closed.
        """
        stimulus = wlk.speech(8, seed=7)
        driver = wlk.run(stimulus, before=_check_pure)
        _check_pure(driver)
        driver.processor.close()
        _check_pure(driver)
        check_alone(wlk, stimulus, driver, "with get_buffer after every call")
        watched, unread = texts_of_calls(driver), texts_of_calls(wlk.run(stimulus))
        # An engine that answers in its own time may commit at other calls, reads or not.
        if watched != unread and all(
            texts_of_calls(wlk.run(stimulus)) == unread for _ in range(REPEATS)
        ):
            check_texts(unread, watched, what="what each call commits, with get_buffer after it")

        def read(driver: StreamDriver) -> None:
            for _ in range(READS):
                driver.processor.get_buffer()
                driver.processor.stats  # noqa: B018 -- a read is what is tested
                driver.processor.has_backlog  # noqa: B018

        for name, call in {"process_iter": StreamDriver.process, **flushes_of(wlk)}.items():
            held = wlk.stream(stimulus.audio)
            what = f"get_buffer, stats and has_backlog, {READS} times during {name},"
            reading = partial(returns_promptly, partial(read, held), name=what)
            error = while_call_runs(wlk, partial(call, held), reading)
            if error is not None:
                raise error

    @rule("HYP-02", "a hypothesis repeats committed words, or is never set", requires="hypothesis")
    def test_the_hypothesis_follows_what_is_committed(self, wlk: BackendUnderTest) -> None:
        """
        No hypothesis token starts before the last committed end.

        Committed text and hypothesis together are the running transcript, which ends with the
        newest answer of the engine at least half of the time.  A hypothesis may be wrong: words
        that the engine itself returned break no rule before they are committed.  But at most half
        of all hypotheses show the last committed word again.
        """
        stimulus = wlk.speech(8, seed=7)
        truth = "".join(word.text for word in stimulus.words).strip()
        driver = wlk.stream()
        was_shown = False
        transcripts: list[tuple[str, int]] = []  # running ones, and the answers until then
        complete: list[bool] = []  # running transcripts that end with the newest answer, or not
        shorter = ""  # one that does not, and the answer
        repeats: list[bool] = []  # hypotheses that begin with the last committed word, or not
        wrong = ""  # a running transcript whose words were not spoken
        faults = wlk.engine_calls
        noting = (
            nullcontext(list[tuple[Word, ...]]()) if faults is None else faults.changing(unchanged)
        )
        with noting as answers:
            for chunk in stimulus.chunks(0.5):
                driver.insert(chunk)
                answered = len(answers)
                driver.process()
                shown = driver.processor.get_buffer()  # its times are checked by the monitor
                was_shown = was_shown or bool(shown.tokens)
                if driver.tokens and shown.tokens:
                    last_word, first = driver.tokens[-1], shown.tokens[0]
                    is_same = first.text.strip() == last_word.text.strip()
                    repeats.append(is_same and first.end <= last_word.end + EPS)
                running = driver.text + shown.text
                transcripts.append((running, len(answers)))
                if len(answers) > answered and (last := text_of(answers[-1]).split()):
                    complete.append(running.rstrip().endswith(last[-1]))
                    if not complete[-1]:
                        shorter = f"{running!r}, but the engine answered {' '.join(last)!r}"
                assert "  " not in running, f"two spaces in the running transcript {running!r}"
                if not truth.startswith(running.strip()):
                    wrong = wrong or running
        driver.finish()
        wlk.require_tokens(driver.tokens, stimulus)
        try:
            check_spoken(wlk, stimulus, driver.tokens, "what was committed")
        except AssertionError as error:
            text = (
                "the committed words are not those of the audio, so the hypothesis is not the fault"
            )
            raise NotApplicable(f"not judged: {text}") from error
        for running, answered in transcripts:
            check_running(running, answers[:answered])
        # Without answers, the engine's words are not known, and a guess could be its own.
        if wlk.is_coded and wrong and answers:
            spoken = {word.text.strip() for word in stimulus.words}
            guessed = {word.text.strip() for answer in answers for word in answer} - spoken
            assert guessed, f"{wrong!r}, expected {truth!r}, and the engine returned no other words"
        assert 2 * sum(repeats) <= len(repeats), (
            f"{sum(repeats)} of {len(repeats)} hypotheses begin with the last committed word "
            "again: the same text, which ends no later than the committed word"
        )
        assert was_shown, "hypothesis is declared, but every hypothesis was empty"
        assert 2 * sum(complete) >= len(complete), (
            f"{complete.count(False)} of {len(complete)} running transcripts end before the "
            f"engine's answer: {shorter}"
        )

    @rule(
        "HYP-02",
        "the space before the first word shown is stripped",
        requires="hypothesis",
        since="2.0",
    )
    def test_what_is_shown_continues_what_is_committed(self, wlk: BackendUnderTest) -> None:
        """At least half of all hypotheses keep the space after the committed words."""
        driver = wlk.stream()
        lacking: list[bool] = []
        for chunk in wlk.speech(8, seed=7).chunks(0.5):
            driver.insert(chunk)
            driver.process()
            if driver.tokens and (shown := driver.processor.get_buffer().text):
                lacking.append(needs_space(driver.text, shown))
        driver.finish()
        if any(needs_space(one.text, two.text) for one, two in pairwise(driver.tokens)):
            raise NotApplicable("its tokens are pieces of words")
        assert 2 * sum(lacking) <= len(lacking), (
            f"{sum(lacking)} of {len(lacking)} hypotheses lack the space after committed words"
        )

    @rule(
        "HYP-02",
        "what is shown is counted over the utterances of a stream, and ends at some number",
        "what is shown must be as long as in an utterance before",
        requires="hypothesis",
        since="2.0",
    )
    def test_every_utterance_is_shown(self, wlk: BackendUnderTest) -> None:
        """Words of later utterances are shown as those of the first are, also after a long one."""
        short, long = wlk.speech(4, seed=3), wlk.speech(16, seed=7)
        driver = wlk.stream()
        shown: list[bool] = []
        for stimulus in (*[short] * UTTERANCES, long, short):
            was_shown = False
            for chunk in stimulus.chunks(0.5):
                driver.insert(chunk)
                driver.process()
                was_shown = was_shown or bool(driver.processor.get_buffer().tokens)
            shown.append(was_shown)
            driver.silence(1.0)
        assert all(shown) or not shown[0], (
            f"the words of utterance {shown.index(False) + 1} were never shown, the same words in "
            "the first one were"
        )

    @rule(
        "HYP-03",
        "a flush commits the hypothesis but does not clear it",
        "what was read is kept until more audio is decoded",
    )
    def test_the_hypothesis_is_empty_after_a_flush(self, wlk: BackendUnderTest) -> None:
        """After a flush the hypothesis is empty."""
        stimulus = wlk.speech(4, seed=3, tail=0.0)
        for (name, flush), stops in product(flushes_of(wlk).items(), (False, True)):
            driver = wlk.stream()
            for chunk in stimulus.chunks(0.5):
                driver.feed(chunk)
                # Without more audio, a flush right after a step has nothing left to decode.
                if driver.processor.get_buffer().tokens and stops:
                    break
            flush(driver)
            shown = driver.processor.get_buffer()
            assert not shown.tokens, f"after {name} the hypothesis is {shown.text!r}"
            assert (shown.text, shown.start, shown.end) == ("", None, None)


def _check_pure(driver: StreamDriver, _chunk: object = None) -> None:
    processor = driver.processor
    before = processor.stats
    shown = [processor.get_buffer() for _ in range(3)]
    assert shown[0] == shown[1] == shown[2], f"get_buffer changes from {shown[0].text!r}"
    assert processor.stats == before, "get_buffer did work"
