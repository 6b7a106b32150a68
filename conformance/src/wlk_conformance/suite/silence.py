"""Rules SIL, SPK and LANG: pauses, speaker turns, languages, and the text around them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, product
import math
from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np

from wlk_conformance.compare import (
    CLOCK_ERROR,
    check_clock,
    check_same,
    check_texts,
    check_times,
    check_words,
    words_of,
)
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.stimuli import CodedSpeech, white_noise
from wlk_conformance.suite.scenes import (
    RISING,
    WORD_ERRORS,
    check_alone,
    check_raises,
    check_spoken,
    flushes_of,
    insert_in_pieces,
    unless_answers_vary,
)
from wlk_conformance.testing import CELL_SECONDS, CodedToken, StreamDriver, silence
from wlk_core import EPS, SAMPLE_RATE
from wlk_core.errors import OptionError, WLKError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core import ASRToken

FAINT = 0.003  # level of noise too soft to be taken for a word
CLIPS = range(40, 46)  # seeds
#: Languages that some engines know by another code, such as "iw" for "he".
RENAMED = frozenset({"fil", "he", "id", "jv", "nb", "no", "yi", "zh"})
SHORT_AUDIO = 0.2  # seconds: the end of a word
PAIRS = 4  # of words, because a policy may need many more to fill its window
NO_WORDS = 6.0  # seconds of noise between utterances
QUIET_SECONDS = 4.0  # after which a policy may have cut its window
ENOUGH_WORDS = 10  # recognised words needed, because fewer are chance
THRESHOLDS = ((0.19, 0.21), (4.99, 5.01), (59.9, 60.1))  # seconds below and above


def _lacks_a_word(wlk: BackendUnderTest, arguments: dict[str, Any], seed: int) -> bool:
    """
    Return whether a silence lacks a word that it returns if a second of quiet comes before it.

    A word that is lacking without *arguments* too is not one that they cost.
    """
    stimulus = wlk.speech_for(arguments, 2, seed=seed, tail=0.0)
    quiet = np.zeros(SAMPLE_RATE, dtype=np.float32)

    def flushed_words(audio: NDArray[np.float32], **changes: Any) -> list[str]:
        driver = wlk.stream(**changes)
        driver.feed(audio)
        driver.start_silence()
        return words_of(driver.tokens)

    words = flushed_words(stimulus.audio, **arguments)
    if len(words) >= len(stimulus.spoken):
        return False
    more = flushed_words(np.concatenate([stimulus.audio, quiet]), **arguments)
    is_lacking = len(more) > len(words) and more[: len(words)] == words
    return is_lacking and len(flushed_words(stimulus.audio)) > len(words)


class SilenceRules:
    """Rules of silence."""

    @rule("SIL-01", "pending audio, or a short remainder, is not decoded", kinds="O,S,G")
    def test_a_silence_returns_every_word(self, wlk: BackendUnderTest) -> None:
        """`start_silence()` returns every word whose audio was inserted, the last one included."""
        cases = [(1, 3, 0.0), (4, 3, 0.0), (4, 3, 0.3), *((2, seed, 0.0) for seed in CLIPS)]
        for count, seed, tail in cases:
            stimulus = wlk.speech(count, seed=seed, tail=tail)
            driver = wlk.stream()
            for chunk in stimulus.chunks(0.5):
                driver.insert(chunk)
            driver.start_silence()
            flushed = driver.tokens
            check_spoken(wlk, stimulus, flushed, "by start_silence")
            assert driver.processed_up_to >= stimulus.seconds - CLOCK_ERROR, (
                f"start_silence processed {driver.processed_up_to:.3f} of {stimulus.seconds:.3f} s"
            )
            late = driver.finish().committed
            assert not late, f"start_silence left {late[0].text!r} for finish to return"
            check_alone(wlk, stimulus, driver, "start_silence against finish", tolerance=0.1)
        stimulus = wlk.speech(40 if wlk.is_coded else 24, seed=6, gap=(0.8, 1.6))
        driver = wlk.stream()
        for chunk in stimulus.chunks(1.0):
            driver.insert(chunk)
        driver.start_silence()
        check_alone(wlk, stimulus, driver, "start_silence after a backlog", tolerance=0.1)

    @rule("SIL-01", "the flush pads for the default of an option", since="2.0")
    def test_a_silence_returns_every_word_with_any_option(self, wlk: BackendUnderTest) -> None:
        """With other policies and options too, the last word comes without quiet after it."""
        if not wlk.variants:
            raise NotApplicable("there are no other policies and options to try", "not declared")
        if not wlk.is_recognisable:
            raise NotApplicable("needs known words")
        for name, arguments in wlk.variants.items():
            with suppress(OptionError):  # not every model has every option of its backend
                lacking = [seed for seed in CLIPS if _lacks_a_word(wlk, arguments, seed)]
                # A model may get the last word wrong once.
                assert len(lacking) <= 1, (
                    f"with {name}, start_silence returned the last word of {len(lacking)} of "
                    f"{len(CLIPS)} clips only if a second of quiet followed it"
                )

    @rule("SIL-01", "a kept answer outlives the audio after it", kinds="G,O,S", since="2.0")
    def test_a_prepared_flush_is_that_flush(self, wlk: BackendUnderTest) -> None:
        """
        A flush that was prepared (`SupportsPreparedFlush`) returns what it would have returned.

        Preparing shows nothing, and speech after it is decoded as if it had not been prepared,
        whether a step decodes it or the flush.
        """
        stimulus = wlk.speech(6, seed=3, gap=(0.3, 0.9))

        def play(*, prepares: bool) -> tuple[StreamDriver, list[str]]:
            driver, shown = wlk.stream(), []
            # Not isinstance, which from Python 3.12 on does not see what a wrapper passes on.
            if not callable(getattr(driver.processor, "prepare_flush", None)):
                raise NotApplicable("its streams prepare no flush", "not declared")
            processor: Any = driver.processor
            for chunk in stimulus.chunks(0.7):
                driver.insert(chunk)
                driver.drain()
                if prepares:
                    processor.prepare_flush()
                shown.append(processor.get_buffer().text)
            driver.start_silence()
            return driver, shown

        plain, shown = play(prepares=False)
        prepared, shown_prepared = play(prepares=True)
        wlk.require_tokens(plain.tokens, stimulus)
        with unless_answers_vary(wlk, stimulus, chunks=(0.7,)):
            check_same(plain.tokens, prepared.tokens, what="a prepared flush", tolerance=0.1)
            # What a server has answered by then is not the same each time.
            assert shown_prepared == shown or play(prepares=False)[1] != shown, (
                "prepare_flush changed the hypothesis"
            )
        check_clock(prepared.processed_up_to, plain.processed_up_to)
        # A soft word comes after the last step, and without another call before the flush.
        stimulus = wlk.speech(5, seed=7)
        if not wlk.is_coded:
            stimulus = wlk.log_stimulus(stimulus.scaled(RISING[0]))
        for before, word in list(pairwise(stimulus.words))[:PAIRS]:
            for at in (before.end, word.end - SHORT_AUDIO):
                flushed = []
                for prepares in (False, True):
                    driver = wlk.stream()
                    driver.feed(stimulus.cut(at)[0])
                    driver.drain()
                    if prepares:
                        cast("Any", driver.processor).prepare_flush()
                    rest = stimulus.cut(word.end)[0][round(driver.clock * SAMPLE_RATE) :]
                    insert_in_pieces(driver, rest)
                    driver.start_silence()
                    flushed.append(driver.tokens)
                what = f"a flush prepared at {at:.2f} s, before audio until {word.end:.2f} s"
                with unless_answers_vary(wlk, stimulus):
                    check_same(flushed[0], flushed[1], what=what, tolerance=0.1)

    @rule("SIL-01", "a reset leaves what was prepared before it", since="2.0")
    def test_what_was_prepared_is_gone_after_a_reset(self, wlk: BackendUnderTest) -> None:
        """A flush that was prepared after a reset returns what it would have returned."""
        stimulus = wlk.speech(4, seed=3)
        first = stimulus.audio[:SAMPLE_RATE]
        prepared, plain = wlk.stream(), wlk.stream()
        prepare = getattr(prepared.processor, "prepare_flush", None)
        if not callable(prepare):
            raise NotApplicable("its streams prepare no flush", "not declared")
        flushes = flushes_of(wlk)
        flushes.pop("new_speaker", None)  # SPK judges the speakers of a stream that is reset
        for name, flush in flushes.items():
            prepared.reset()
            prepared.feed(stimulus.audio)
            prepare()
            prepared.reset()
            prepared.insert(first)
            prepare()
            flush(prepared)
            plain.reset()
            plain.insert(first)
            flush(plain)
            with unless_answers_vary(wlk, stimulus):
                what = f"{name} that was prepared after a reset"
                check_same(plain.tokens, prepared.tokens, what=what, tolerance=0.1)

    @rule("SIL-02", "the flush commits the same hypothesis again")
    def test_a_second_silence_returns_nothing(self, wlk: BackendUnderTest) -> None:
        """A second `start_silence()` without new audio returns nothing."""
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.stream()
        driver.feed(stimulus.audio)
        driver.start_silence()
        wlk.require_tokens(driver.tokens, stimulus)
        driver.start_silence()  # the monitor of every stream checks what it returns
        driver.end_silence(2.0)
        driver.start_silence()

    @rule(
        "SIL-03",
        "offset is added",
        "a duration is rounded to frames or bounded",
        "a silence that waits for a step is replaced by the next one",
        "a silence of 0 ends the utterance",
    )
    def test_a_silence_moves_the_clock_exactly(self, wlk: BackendUnderTest) -> None:
        """
        `end_silence(d, offset)` moves the clock by exactly d.

        `offset` is advisory and never changes a time.  A negative or NaN d raises, 0 does nothing.
        `end_silence` also works without `start_silence` (a leading silence), even repeatedly, and
        while audio waits.
        """
        stimulus = wlk.speech(4, seed=3)
        day = 86_400.0  # of a muted microphone
        lengths: list[tuple[float, float | None]]
        lengths = [(0.0, None), (1.234567, None), (1.234567, 7.0), (30, -3), (day, None)]
        lengths += [(seconds, None) for seconds in (0.001, 0.021, 0.049)]
        for seconds, offset in lengths:
            driver = wlk.stream()
            driver.end_silence(seconds, offset)
            driver.end_silence(2 * seconds, offset)
            driver.feed(stimulus.audio)
            driver.silence(seconds, offset)
            driver.feed(stimulus.audio)
            driver.finish()
            check_clock(driver.processed_up_to, driver.clock)
            first = wlk.solo(stimulus)
            what = f"silences of {seconds} s with offset {offset}"
            early, lead = driver.tokens[: len(first)], 3 * seconds
            check_same(first, early, what=what, shift=lead, tolerance=0.1)
        driver = wlk.stream()
        for chunk in stimulus.chunks(0.5):
            driver.feed(chunk)
            driver.end_silence(0.0)
        driver.finish()
        check_alone(wlk, stimulus, driver, "with end_silence(0) after each chunk", tolerance=0.1)
        waiting = wlk.stream(stimulus.audio)  # which no step has taken yet
        for seconds in (0.3, 1.2, 0.3):
            waiting.end_silence(seconds)
        waiting.insert(stimulus.audio)
        waiting.finish()
        check_clock(waiting.processed_up_to, waiting.clock)
        for bad in (-1.0, -1e-9, math.nan, math.inf):
            driver = wlk.stream()
            driver.feed(stimulus.audio)
            check_raises(WLKError, f"end_silence({bad})", driver.processor.end_silence, bad)
            driver.finish()
            check_alone(wlk, stimulus, driver, f"after end_silence({bad}) was refused")
            check_clock(driver.processed_up_to, driver.clock)

    @rule("SIL-04", "durations are summed instead of samples counted", "rounding to ms")
    def test_a_hundred_silences_do_not_drift(self, wlk: BackendUnderTest) -> None:
        """A hundred silences do not drift."""
        stimulus = wlk.speech(3, seed=15)
        driver = wlk.stream()
        piece = wlk.log_stimulus(white_noise(0.1)).audio[:1111]
        wlk.recipes.append("a hundred times 1111 samples of it, then 0.1 s or 1/3 s of silence")
        for index in range(100):
            driver.insert(piece)
            driver.process()
            driver.silence(0.1 if index % 2 else 1 / 3)
        before, count = driver.clock, len(driver.tokens)
        driver.feed(stimulus.audio)
        driver.finish()
        check_clock(driver.processed_up_to, driver.clock)
        new = driver.tokens[count:]
        if wlk.is_coded:
            check_times(stimulus.words, new, tolerance=CELL_SECONDS, shift=before)
        for token in new:
            assert token.start >= before - EPS, f"{token.text!r} starts before its audio"

    @rule("SIL-05", "words before a pause are moved by it or placed after it", kinds="O,S")
    def test_no_token_lies_in_a_pause(self, wlk: BackendUnderTest) -> None:
        """No token lies inside or across a pause, and words before it have times before it."""
        stimulus, seconds = wlk.speech(4, seed=3, lead=0.0, tail=0.0), 30.0
        gap = wlk.stream()
        gap.feed(stimulus.audio)
        gap.insert(stimulus.audio, 2 * stimulus.seconds + seconds)
        gap.finish()
        in_time = wlk.play(stimulus.audio, seconds, stimulus.audio)
        late = wlk.stream()  # its steps fall behind the audio
        late.insert(stimulus.audio)
        late.end_silence(seconds)
        late.insert(stimulus.audio)
        late.finish()
        with unless_answers_vary(wlk, stimulus):
            what = "a pause that came before a step"
            check_same(in_time.tokens, late.tokens, what=what, tolerance=0.1)
        for driver in (in_time, gap, late):
            wlk.require_tokens(driver.tokens, stimulus)
            # The monitor of every stream checks that no token lies in a pause.
            if wlk.is_coded:
                early = [token for token in driver.tokens if token.end <= stimulus.seconds + EPS]
                check_words(stimulus.words, early, what="before the pause")

    @rule("SIL-06", "short pauses are fed as zeros, long ones reset the model")
    def test_no_length_of_silence_is_special(self, wlk: BackendUnderTest) -> None:
        """Silences of any length have the same effect, tested around 0.2, 5 and 60 s."""
        stimulus = wlk.speech(3, seed=15)
        reference: list[ASRToken] = []
        for seconds in (length for pair in THRESHOLDS for length in pair):
            driver = wlk.play(stimulus.audio, seconds, stimulus.audio)
            check_clock(driver.processed_up_to, driver.clock)
            wlk.require_tokens(driver.tokens, stimulus)
            # Times before the pause stay as they are, times after it move by its length.
            moved = [
                attrs.evolve(token, start=token.start - seconds, end=token.end - seconds)
                if token.start > stimulus.seconds
                else token
                for token in driver.tokens
            ]
            reference = reference or moved
            what = f"{THRESHOLDS[0][0]} s against {seconds} s of silence, both subtracted"
            check_same(reference, moved, what=what)

    @rule("SIL-07", "a word cut in two is repeated or lost, or a space is lost", kinds="O,G")
    def test_a_pause_changes_no_word(self, wlk: BackendUnderTest) -> None:
        """A pause loses, repeats or joins no words, even inside a word."""
        stimulus = wlk.speech(5, seed=17, gap=(0.3, 0.5))
        whole = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        off = expected = 0
        for index in range(len(stimulus.words) - 1):
            middle = (stimulus.words[index].end + stimulus.words[index + 1].start) / 2
            parts = stimulus.cut(middle)
            driver = wlk.play(parts[0], 2.0, parts[1])
            if wlk.is_coded:
                what = f"a pause at {middle:.2f} s"
                check_texts(words_of(whole), words_of(driver.tokens), what=what)
                continue
            # What the model recognises of each half alone, because QUAL judges its errors.
            halves = [wlk.run(attrs.evolve(stimulus, audio=part)).tokens for part in parts]
            alone = sum(len(words_of(tokens)) for tokens in halves)
            off += abs(len(words_of(driver.tokens)) - alone)
            expected += alone
        if isinstance(wlk.speech_source, CodedSpeech):
            # Inside the second word, which is recognised on one side of the pause.
            script = [CodedToken(1 + index % 10, 2 + 8 * index, 6) for index in range(4)]
            stimulus = wlk.log_stimulus(wlk.speech_source.script(script))
            for cells, seconds in product((12, 14), (0.2, 2.0, 30.0)):
                before, after = stimulus.cut(cells * CELL_SECONDS)
                what = f"a pause of {seconds} s inside a word"
                check_words(stimulus.words, wlk.play(before, seconds, after).tokens, what=what)
            return
        if expected < ENOUGH_WORDS:
            raise NotApplicable(f"{expected} words were recognised, {ENOUGH_WORDS} are needed")
        wlk.notes.append(f"{off} of {expected} words differ from those of each half alone")
        assert off <= WORD_ERRORS * expected, f"{off} of {expected} words were lost or repeated"

    @rule("SIL-07", "a boundary between windows is kept over a pause", since="2.0")
    def test_a_pause_changes_no_word_with_any_policy(self, wlk: BackendUnderTest) -> None:
        """With each policy, words after seconds of quiet and a pause are those of a new stream."""
        if not wlk.is_recognisable:
            raise NotApplicable("needs known words")
        for arguments in ({}, *wlk.policy_variants):
            off = expected = 0
            with suppress(OptionError):  # not every model has every policy of its backend
                for seed in CLIPS[: 1 if wlk.is_coded else 3]:
                    stimulus = wlk.speech_for(arguments, 4, seed=seed, lead=0.0)
                    alone = wlk.run(stimulus, **arguments).tokens
                    driver = wlk.stream(**arguments)
                    driver.feed(stimulus.audio)
                    driver.feed(silence(QUIET_SECONDS))
                    driver.silence(2.0)
                    before = len(driver.tokens)
                    driver.feed(stimulus.audio)
                    driver.end()
                    after = driver.tokens[before:]
                    off += abs(len(words_of(after)) - len(words_of(alone)))
                    expected += len(words_of(alone))
                allowed = 0.0 if wlk.is_coded else WORD_ERRORS * expected
                assert off <= allowed, (
                    f"{off} of {expected} words after {QUIET_SECONDS:g} s of zeros and a pause "
                    f"were lost or repeated, with {arguments or 'the default policy'}"
                )


class SpeakerRules:
    """Rules of speaker turns and languages."""

    @rule("SPK-01", "the flushed tokens are dropped, or the clock moves", requires="speaker-turns")
    def test_a_turn_returns_every_word(self, wlk: BackendUnderTest) -> None:
        """
        `new_speaker(change)` returns the flushed tokens; the clock is unaffected.

        Audio after change.start that was already inserted is kept.
        """
        stimulus = wlk.speech(6, seed=5, tail=0.0)
        for share in (0.4, 1.0):
            driver = wlk.stream(stimulus.audio)
            driver.new_speaker("next", share * stimulus.seconds)
            wlk.require_tokens(driver.tokens, stimulus)
            what = f"by a turn at {share * stimulus.seconds:.2f} s"
            check_spoken(wlk, stimulus, driver.tokens, what)
            late = driver.start_silence().committed
            assert not late, f"new_speaker left {late[0].text!r} for start_silence to return"
            check_alone(wlk, stimulus, driver, what, tolerance=0.1)
            driver.feed(stimulus.audio)
            driver.finish()
            check_clock(driver.processed_up_to, driver.clock)

    @rule(
        "SPK-02",
        "a reset at a silence drops the speaker",
        "a turn that lies ahead replaces the present speaker at once",
        "a speaker who is number 0 counts as none",
        requires="speaker-turns",
    )
    def test_tokens_carry_their_speaker(self, wlk: BackendUnderTest) -> None:
        """Tokens after a turn have the new speaker, earlier ones the old, across silences too."""
        stimulus = wlk.speech(4, seed=3, lead=0.4)
        driver = wlk.stream()
        for speaker in ("anna", 2, "2", 0, -1, "anna"):
            driver.feed(stimulus.audio)
            driver.silence(61.0 if speaker == 0 else 6.0)
            driver.feed(stimulus.audio)
            driver.new_speaker(speaker)
        driver.feed(stimulus.audio)
        driver.silence(0.3)
        driver.new_speaker("bob", driver.clock + 1.0)  # as a diarizer announces it
        driver.feed(stimulus.audio)
        driver.new_speaker(3, driver.clock + stimulus.seconds + 1.0)
        driver.feed(stimulus.audio)
        driver.feed(stimulus.audio)
        driver.new_speaker("eve", driver.clock + 1.5)
        driver.silence(0.5)  # before the turn begins
        driver.process(is_last=True)
        driver.silence(1.5)
        driver.feed(stimulus.audio)
        driver.finish()
        # The monitor of every stream checks the speaker of each token.
        wlk.require_tokens(driver.tokens, stimulus)
        driver = wlk.stream()
        driver.new_speaker("anna")
        for chunk in stimulus.chunks(0.5):
            driver.insert(chunk)
            driver.process()
            for token in driver.processor.get_buffer().tokens:
                assert token.speaker == "anna", f"shown with speaker {token.speaker!r}: {token}"

    @rule(
        "LANG-01",
        "a forced language is never reported, or detection replaces it after silence",
        "a forced language is dropped after an utterance without words, or after a long one",
    )
    def test_languages_are_declared_codes(self, wlk: BackendUnderTest) -> None:
        """
        `detected_language` is None or a declared code.

        A forced language is reported; it survives silence, and an utterance without words.
        """
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.run(stimulus)
        # The monitor of every stream checks the language of each token.
        wlk.require_tokens(driver.tokens, stimulus)
        if not wlk.has("language-forcing"):
            return
        # As in ISO-05: English and one more, because a server may have a model of few languages.
        languages = sorted(wlk.spec.languages, key=lambda code: code != "en")[:2]
        audio, noise = stimulus.audio, wlk.log_stimulus(white_noise(NO_WORDS, level=FAINT)).audio
        play = partial(wlk.play, audio, 6.0, audio, 6.0, noise, 1.0, audio)
        # The first language may be the default of the engine, which hides that it is dropped.
        for arguments in ({}, *wlk.policy_variants):
            with suppress(OptionError):  # not every model has every language and policy
                driver = wlk.stream(audio, language=languages[-1], **arguments)
                if wlk.has("speaker-turns"):
                    driver.new_speaker(1)
                driver.feed(audio)
                driver.reset()
                driver.feed(audio)
                driver.finish()
                play(language=languages[-1], **arguments)
        for code in sorted(RENAMED.intersection(wlk.spec.languages)):
            with suppress(OptionError):
                wlk.stream(audio, language=code).end()
        driver = play(language=languages[0])
        wlk.require_tokens(driver.tokens, stimulus)
        driver.reset()  # the language is an argument of the stream and survives a reset
        driver.feed(stimulus.audio)
        driver.finish()
        wlk.require_tokens(driver.tokens, stimulus)

    @rule("LANG-02", "header in the text", kinds="S", tier="speech", requires="language-detection")
    def test_the_language_is_detected(self, wlk: BackendUnderTest) -> None:
        """
        Language detection, if declared, is right on the speech clips.

        No header or language word leaks into the text.
        """
        if "language" in wlk.options:
            raise NotApplicable("the language is set by an option")
        stimulus = wlk.speech(9, seed=18)
        tokens = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        languages = {token.detected_language for token in tokens}
        if wlk.speech_source.kind != "open":  # recordings may be in any language
            assert languages == {"en"}, f"English digits are reported as {languages}"
        header = {"language", "english", "en", "asr", "text", "transcribe"}
        leaked = set(words_of(tokens)) & header - set(stimulus.spoken)
        assert not leaked, f"a header leaked into the text: {sorted(leaked)}"
