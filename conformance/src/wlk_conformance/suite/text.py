"""Rules COM: committed text."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from functools import partial
import gc
from itertools import pairwise, zip_longest
import re
import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.compare import check_same, check_texts, words_of
from wlk_conformance.interfaces import SupportsCodedAudio
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.sessions.campaign import play_sessions
from wlk_conformance.sessions.generated_session import VOCABULARIES
from wlk_conformance.stimuli import CodedSpeech, white_noise
from wlk_conformance.suite.rounds import rounds
from wlk_conformance.suite.scenes import (
    MANNER,
    RISING,
    SEEDS,
    WORD_ERRORS,
    WORDS,
    check_alone,
    check_raises,
    check_spoken,
    text_of,
    unchanged,
    unless_answers_vary,
)
from wlk_conformance.testing import CELL_SAMPLES, CodedToken, StreamDriver, silence
from wlk_core import SAMPLE_RATE
from wlk_core.errors import OptionError
from wlk_core.streaming import Word, needs_space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_core import ASRToken, Backend

CHUNKS = (0.032, 0.08, 0.5, 2.0, 5.0, 60.0)  # seconds; 0.032 is 512 samples of the voice gate
SLOW = 1.5  # seconds that an engine call is held: longer than limits of a second
GONE = 8  # streams that are closed and freed
MANY_GONE = 100  # the same on a fast engine
ROUNDS = 2  # of them
MAX_WORD_LETTERS = 20  # in a word; eight spoken digits without a space have 24 or more
JOINED_DIGITS = re.compile(f"({'|'.join(word.strip() for word in DIGIT_WORDS)}){{2,}}")
FEW_JOINED = 0.015  # share of the words; a segment of half a minute has about thirty
#: Texts that normalising Unicode, case or punctuation, a table column, or a filter of characters
#: would change; a word of the engine becomes the one at its place among the digits.
SPELLINGS = (
    "don't", "O\u2019Neill-Smith's", "U.S.A.", f"\u2167\ufb01e\u0301{'x' * 40}", "I\u0130StraßE",
    "12,345.67%", "¿qué?!", "ПРИВЕТ", "\u0645\u0631\u062d\u0628\u064b\u0627", "नमस्ते。こんにちは",
)  # fmt: skip
GATED = (4, 1, 7)  # digits, each alone between zeros
#: Words as people say and engines write them, which a filter of noise would drop or change.
REMARKS = (
    "[Music]", "(laughs)", "<unk>", "*sighs*", "um", "Thank", "you.",
    "\u0645\u06cc\u200c\u0631\u0648\u0645", "10\u00a0000", "\U0001f469\u200d\U0001f4bb",
)  # fmt: skip
#: Words without letters, which a filter of noise or punctuation would drop.
SIGNS = ("%", "&", "♪", "+", "?", "=", "°", "#", "✓", "\u0940")
LOW = 0.04  # a probability that engines report for words that are right


def _between_zeros(stimulus: Stimulus, seconds: float) -> Stimulus:
    """Return the one word of *stimulus* between zeros, as long as one of *seconds*."""
    (word,) = stimulus.words
    spoken = stimulus.cut(word.end)[0][round(word.start * SAMPLE_RATE) :]
    audio = np.zeros(round((seconds + 1.2) * SAMPLE_RATE), dtype=np.float32)
    begin = round(0.2 * SAMPLE_RATE)
    audio[begin : begin + len(spoken)] = spoken
    moved = word.shifted(0.2 - word.start)
    recipe = f"{stimulus.recipe}, the word alone in {len(audio) / SAMPLE_RATE:.2f} s of zeros"
    return attrs.evolve(stimulus, audio=audio, words=(moved,), recipe=recipe)


def _same(word: Word) -> Word:
    return attrs.evolve(word, text=word.text and " same")


def _spelled(word: Word, spellings: Sequence[str] = SPELLINGS) -> Word:
    text = word.text.strip()
    # An engine of other words may have a single one, which then is spelled in all ways together.
    names = (each.strip() for each in DIGIT_WORDS)
    spelling = dict(zip(names, spellings, strict=True)).get(text, "-".join(spellings))
    lead = word.text[: len(word.text) - len(word.text.lstrip())]
    return attrs.evolve(word, text=text and f"{lead}{spelling}")


def _doubted(word: Word) -> Word:
    # A probability that is not reported stays so.
    return attrs.evolve(word, probability=None if word.probability is None else LOW)


def _brief(word: Word) -> Word:
    return attrs.evolve(_doubted(word), end=word.start)


#: What an engine may return instead, none of which changes which words are committed.
CHANGES: tuple[Callable[[Word], Word], ...] = (
    _same, lambda word: _doubted(_spelled(word)), partial(_spelled, spellings=SIGNS), _brief,
    partial(_spelled, spellings=REMARKS),
)  # fmt: skip


class TextRules:
    """Rules of committed text."""

    @rule("COM-01", "an overlap is committed twice, or a reset decodes audio again")
    def test_committed_text_is_append_only(self, wlk: BackendUnderTest) -> None:
        """Committed text is append-only: never changed, never repeated, never retracted."""
        stimulus = wlk.speech(8, seed=7)

        def idle(driver: StreamDriver, _chunk: object) -> None:
            driver.drain()
            if not driver.clock:
                return  # LIFE-01 judges a new stream
            for _ in range(4):
                more = driver.process().committed
                assert not more, f"committed again without new audio: {more}"

        driver = wlk.run(stimulus, chunk_seconds=0.5, before=idle)
        # The monitor of every stream checks that no token changes.
        wlk.require_tokens(driver.tokens, stimulus)
        check_alone(wlk, stimulus, driver, "many calls against one call a second")
        check_spoken(wlk, stimulus, driver.tokens, "the transcript")

    @rule(
        "COM-01",
        "the overlap is found by text instead of by time",
        "the first word after a pause is taken for an echo of the last one before it",
        "a word that comes for the third time, or a phrase that comes again, is taken for a loop",
        kinds="O,G",
    )
    def test_a_repeated_word_is_committed_each_time(self, wlk: BackendUnderTest) -> None:
        """
        Words and phrases spoken several times in a row are committed as often, whatever the gap.

        The gap may be audio or a pause.
        """
        pairs, phrase, often = (7, 7, 3, 3, 9, 9), (7, 3, 9, 7, 3, 9, 1), (7,) * 6
        for is_paused, how, digits, manners in (
            (False, "in pairs", pairs, [(8, gap) for gap in (0.08, 0.24, 0.48, 0.96)]),
            (False, "as a phrase that comes twice", phrase, [(8, gap) for gap in (0.08, 0.24)]),
            (False, "six times in a row", often, [(8, gap) for gap in (0.24, 0.48)]),
            (True, "in pairs", pairs, [(seed, 0.24) for seed in (8, 9, 10)]),
        ):
            spoken = committed = apart = 0
            manner = how + (" with a pause between them" if is_paused else "")
            for seed, gap in manners:
                count = len(digits)
                stimulus = wlk.speech(count, seed=seed, gap=(gap, gap), digits=digits)
                tokens = wlk.require_tokens(_pairs(wlk, stimulus, is_paused=is_paused), stimulus)
                committed += len(words_of(tokens))
                check_spoken(wlk, stimulus, tokens, f"digits {manner}, {gap} s apart")
                if wlk.is_coded:
                    continue
                # The same gaps between other digits: the model may lose as many words of the
                # repeated ones as it loses of these, which QUAL judges, and as many again.
                other = wlk.speech(count, seed=seed, gap=(gap, gap), digits=(7, 3, 9, 1, 4, 2))
                apart += len(words_of(_pairs(wlk, other, is_paused=is_paused)))
                spoken += len(other.spoken)
            lost = max(0, spoken - apart)
            allowed = (WORD_ERRORS + wlk.bounds.get("wer", 0.0)) * spoken + lost
            assert committed >= apart - allowed, (
                f"{committed} words were committed of digits spoken {manner}, but {apart} of as "
                "many that differ"
            )

    @rule("COM-01", "windows of a second policy overlap, and words there come twice", since="2.0")
    def test_no_policy_commits_words_twice(self, wlk: BackendUnderTest) -> None:
        """With each policy, a stream has about as many words as were spoken."""
        if not wlk.is_recognisable or not wlk.policy_variants:
            raise NotApplicable("needs known words and another policy", "not declared")
        for arguments in wlk.policy_variants:
            spoken = committed = 0
            with suppress(OptionError):  # not every model has every policy of its backend
                for seed in SEEDS[: 1 if wlk.is_coded else None]:
                    stimulus = wlk.speech_for(
                        arguments, WORDS, seed=seed, lead=1.0, gap=MANNER["gap"]
                    )
                    driver = wlk.run(stimulus, **arguments)
                    check_spoken(wlk, stimulus, driver.tokens, f"with {arguments}")
                    spoken += len(stimulus.spoken)
                    committed += len(words_of(driver.tokens))
            allowed = spoken * (WORD_ERRORS + wlk.bounds.get("wer", 0.0))
            assert committed <= spoken + allowed, (
                f"with {arguments}, {committed} words were committed of {spoken} spoken"
            )

    @rule(
        "COM-02",
        "the emission contains the list that the processor continues to use",
        "the tokens of a hypothesis are written over at the next step",
    )
    def test_tokens_are_immutable(self, wlk: BackendUnderTest) -> None:
        """Tokens are immutable, those of hypotheses as well."""
        stimulus = wlk.speech(8, seed=7)
        # The monitor of every stream compares tokens with what they were.
        driver = wlk.run(
            stimulus, chunk_seconds=0.5, before=lambda driver, _: driver.processor.get_buffer()
        )
        for record in driver.records:
            emission = record.emission
            tokens, upto = emission  # the monitor of every stream checks their types
            assert (emission.committed, emission.processed_up_to) == (tokens, upto)
            what = "a new processed_up_to of an Emission"
            check_raises(AttributeError, what, setattr, emission, "processed_up_to", upto)
        for token in wlk.require_tokens(driver.tokens, stimulus):
            check_raises(AttributeError, "a new text of a token", setattr, token, "text", "")

    @rule("COM-03", "text.split() and a space before every word, or ids detokenised one by one")
    def test_the_transcript_is_the_join_of_the_tokens(self, wlk: BackendUnderTest) -> None:
        """
        `"".join(token.text)` is the transcript.

        Tokens carry their own spacing: no space is invented inside a word, before punctuation or
        in scripts without spaces, and none is lost.  Across pauses and resets, text is joined as
        its script requires.  No token is empty or has U+FFFD: incomplete bytes are held back.
        """
        stimulus = wlk.speech(6, seed=9)
        driver = wlk.play(stimulus.audio, 3.0, stimulus.audio, 3.0, stimulus.audio)
        assert driver.tokens or wlk.is_coded, (
            f"no token came back for {3 * stimulus.seconds:.0f} s of English digits, so the "
            "contract cannot be judged; run with --model digits, or declare a deviation"
        )
        # The monitor of every stream checks that no token is empty or has U+FFFD.
        wlk.require_tokens(driver.tokens, stimulus)
        assert "  " not in driver.text, f"two spaces in a row: {driver.text!r}"
        assert driver.text == driver.text.strip(), f"space at the start or end: {driver.text!r}"
        if wlk.is_recognisable:
            alone = "".join(token.text for token in wlk.solo(stimulus)).strip().split(" ")
            check_texts(alone * 3, driver.text.split(" "), what="across pauses")

    @rule("COM-03", "the space before each word is stripped", since="2.0", is_first=True)
    def test_a_space_lies_between_words(self, wlk: BackendUnderTest) -> None:
        """A space lies between the words of a script that has spaces."""
        stimulus = wlk.speech(8, seed=7)
        words = words_of(wlk.require_tokens(wlk.solo(stimulus), stimulus))
        longest = max((word for word in words if needs_space(word, word)), key=len, default="")
        assert len(longest) <= MAX_WORD_LETTERS, f"no space in {longest!r} for {stimulus.text!r}"
        joined = _joined_digits(words)
        assert len(joined) <= WORD_ERRORS * len(words), f"no space in {', '.join(joined)}"

    @rule("COM-03", "a segment inside the model begins without its space", since="2.0")
    def test_a_space_lies_between_words_after_minutes(self, wlk: BackendUnderTest) -> None:
        """After minutes without a pause, words have a space between them as after a pause."""
        if not wlk.is_recognisable:
            raise NotApplicable("needs known words", "not declared")
        paused, spoken = (words_of(rounds(wlk, kind).tokens) for kind in ("pauses", "speech"))
        joined = _joined_digits(spoken)
        allowed = len(_joined_digits(paused)) + FEW_JOINED * len(spoken)
        assert len(joined) <= allowed, f"no space in {', '.join(joined)}"

    @rule(
        "COM-03",
        "text is normalised or cut, or a repeated word dropped",
        "words of a low probability are never committed",
        kinds="F",
        since="2.0",
    )
    def test_the_engines_text_is_kept(self, wlk: BackendUnderTest) -> None:
        """
        The words that the engine returns are committed unchanged, whatever they are.

        Neither their script, case and punctuation nor their probability matters.
        """
        # In one window, because changed text of an earlier window would change the prompt.
        digits = tuple(range(len(SPELLINGS)))
        speech = wlk.speech_source.speech(len(digits), seed=7, gap=(0.08, 0.12), digits=digits)
        stimulus = wlk.log_stimulus(speech)
        with wlk.faults.changing(unchanged) as answers:
            driver = wlk.run(stimulus)
        check_running(driver.text, answers)
        expected = [token.text.strip() for token in driver.tokens]
        if not set(expected) <= {word.text.strip() for answer in answers for word in answer}:
            raise NotApplicable("its engine returns no words, or parts of words")
        for change in CHANGES:
            with wlk.faults.changing(change):
                tokens = wlk.run(stimulus).tokens
            changed = [change(Word(0.0, 0.0, f" {text}")).text.strip() for text in expected]
            what = "what the engine returned against what was committed"
            check_texts(changed, [token.text.strip() for token in tokens], what=what)

    @rule("COM-03", "a space is put between all tokens", kinds="O")
    def test_spacing_is_the_scripts_own(self, wlk: BackendUnderTest) -> None:
        """Pieces of words, punctuation and scripts without spaces are joined unchanged."""
        for name in ("pieces", "Chinese", "Thai"):
            vocabulary = VOCABULARIES[name].words
            other = wlk.another_backend()
            if not isinstance(other, SupportsCodedAudio):
                raise NotApplicable("its engine has no vocabulary that can be set")
            other.vocabulary = vocabulary
            source = CodedSpeech(vocabulary=vocabulary)
            script = [CodedToken(i % len(vocabulary) + 1, 2 + 3 * i, 3) for i in range(30)]
            stimulus = wlk.log_stimulus(source.script(script))
            for chunk_seconds in (0.24, 1.0):
                driver = wlk.run(stimulus, chunk_seconds=chunk_seconds, of=other)
                assert driver.text == stimulus.text, f"{driver.text!r} must be {stimulus.text!r}"

    @rule(
        "COM-04",
        "no seed, or dither",
        "a gain, cache or language left by another stream",
        "a cache whose key is the beginning of the audio, its length or its loudness",
        is_first=True,
    )
    def test_the_same_audio_gives_the_same_tokens(self, wlk: BackendUnderTest) -> None:
        """
        The same audio in the same chunks gives the same tokens.

        Earlier streams of another loudness, length, language or speaker change nothing.
        """
        backend = wlk.another_backend()
        usual = wlk.speech(5, seed=10, digits=(1, 2, 3, 4, 5) if wlk.is_coded else None)
        stimulus = usual
        if not wlk.is_coded:  # speech is quiet here, while coded samples cannot be scaled
            audio = usual.audio / np.float32(10)
            stimulus = attrs.evolve(usual, audio=audio, recipe=f"{usual.recipe} / 10")
        once = wlk.run(stimulus, chunk_seconds=0.7, of=backend)
        if not once.tokens:  # too quiet for the model, and two empty results always agree
            stimulus = usual
            once = wlk.run(stimulus, chunk_seconds=0.7, of=backend)
        wlk.require_tokens(once.tokens, stimulus)
        # Its first half twice, so that the beginning and the length are the same.
        middle = len(stimulus.words) // 2
        gap = (stimulus.words[middle - 1].end + stimulus.words[middle].start) / 2
        cut = round(gap * SAMPLE_RATE / CELL_SAMPLES) * CELL_SAMPLES
        audio = np.resize(stimulus.audio[: cut or None], len(stimulus.audio))
        recipe = f"{stimulus.recipe}, first half twice"
        alike = attrs.evolve(stimulus, audio=audio, words=(), recipe=recipe)
        # Its second half before the first, so that length and loudness are the same.
        audio, recipe = np.roll(stimulus.audio, -cut), f"{stimulus.recipe}, rolled"
        rolled = attrs.evolve(stimulus, audio=audio, words=(), recipe=recipe)
        if wlk.is_coded:  # other words in the same cells, so that both ends are the same too
            rolled = wlk.speech(5, seed=10, digits=(6, 7, 8, 9, 0))
        pairs = [
            (stimulus, alike, "with the same beginning"),
            (stimulus, rolled, "as long and as loud"),
        ]
        if wlk.speech_source.kind in {"digits", "unknown"}:
            # As from a gate: one word each, of the same length, with the same zeros around it.
            words = [wlk.speech_source.speech(1, seed=10, digits=(each,)) for each in GATED]
            longest = max(word.words[0].end - word.words[0].start for word in words)
            gated = [_between_zeros(word, longest) for word in words]
            pairs += [
                (*pair, "with the same zeros around another word") for pair in pairwise(gated)
            ]
        for earlier, near, what in pairs:
            wlk.log_stimulus(near)
            first = wlk.run(near, chunk_seconds=0.7, of=wlk.another_backend())
            # Directly after it, because a cache may keep a few results only.
            wlk.run(earlier, chunk_seconds=0.7, of=backend)
            then = wlk.run(near, chunk_seconds=0.7, of=backend)
            check_same(first.tokens, then.tokens, what=f"after a stream {what}")
        wlk.run(wlk.speech(3, seed=11), of=backend)
        wlk.run(wlk.log_stimulus(white_noise(5.0, level=0.3)), of=backend)
        if wlk.has("language-forcing"):
            other = next((code for code in wlk.spec.languages if code != "en"), "en")
            with suppress(OptionError):  # not every model has every language of its backend
                wlk.run(wlk.speech(3, seed=11), of=backend, language=other)
        for _ in range(8 if wlk.is_coded else 1):  # the difference may be rare
            again = wlk.run(stimulus, chunk_seconds=0.7, of=backend)
            what = "the same audio in the same chunks, a second time"
            check_same(once.tokens, again.tokens, what=what, tolerance=0.0)
            results = [(*each.tokens, *each.records) for each in (once, again)]
            for before, now in zip_longest(*results):
                assert now == before, f"the second time: expected {before}, got {now}"

    @rule(
        "COM-04",
        "an engine call that takes long is abandoned, and an older answer used",
        kinds="F",
        since="2.0",
    )
    def test_a_slow_engine_changes_no_word(self, wlk: BackendUnderTest) -> None:
        """An engine call that takes seconds gives the same words, in a step and in a flush."""
        stimulus = wlk.speech(6, seed=5)
        wlk.require_tokens(wlk.solo(stimulus), stimulus)
        first, rest = stimulus.cut(stimulus.words[-1].start)
        slow = threading.Event()  # set while calls, of any thread, are to be slowed down

        def wait() -> None:
            if slow.is_set():
                threading.Event().wait(SLOW)  # really: a time limit may count in any clock
                if where == "a step":  # one of many is enough
                    slow.clear()

        for where in ("a step", "a flush"):
            driver = wlk.stream(first)
            with wlk.faults.held(wait):
                if where == "a step":
                    slow.set()
                driver.process()
                slow.clear()
                driver.drain()
                driver.insert(rest)
                if where == "a flush":
                    slow.set()
                driver.finish()
                slow.clear()
            what = f"with an engine call of {where} that takes {SLOW:g} s more"
            check_alone(wlk, stimulus, driver, what, tolerance=0.1)

    @rule("COM-04", "state is kept by the address of an object that is gone", since="2.0")
    def test_streams_that_are_gone_change_nothing(self, wlk: BackendUnderTest) -> None:
        """
        A stream opened after others were closed and freed gives the same tokens.

        These were loud, or closed within a word, as by somebody who hangs up.
        """
        stimulus, loud = wlk.speech(2, seed=10), wlk.log_stimulus(white_noise(0.6, level=0.9))
        if not wlk.is_coded:
            stimulus = wlk.log_stimulus(stimulus.scaled(RISING[0]))

        def tokens_of(
            audio: NDArray[np.float32], count: int = 1, *, ends: bool = True
        ) -> list[list[ASRToken]]:
            # Not by the suite's own driver, which keeps what it has opened.
            with ExitStack() as opened:
                streams = [
                    opened.enter_context(
                        closing(wlk.backend.create_processor(**wlk.stream_options))
                    )
                    for _ in range(count)
                ]
                for stream in streams:
                    stream.insert_audio_chunk(audio)
                return [
                    [*stream.process_iter().committed, *(stream.finish().committed if ends else ())]
                    for stream in streams
                ]

        (expected,) = tokens_of(stimulus.audio)
        if not expected:  # too quiet for the model, and two empty results always agree
            stimulus = wlk.speech(2, seed=10)
            (expected,) = tokens_of(stimulus.audio)
        wlk.require_tokens(expected, stimulus)
        count = MANY_GONE if wlk.is_coded else GONE
        half, _ = stimulus.cut((stimulus.words[-1].start + stimulus.words[-1].end) / 2)
        for number in range(ROUNDS):
            # Their memory is free now, and some of it used again.
            tokens_of(loud.audio, count)
            tokens_of(half, count, ends=False)
            if number % 2:  # or as soon as their cycles are collected
                gc.collect()
            for tokens in tokens_of(stimulus.audio, count):
                with unless_answers_vary(wlk, stimulus):
                    check_same(expected, tokens, what="after streams that are gone")

    @rule("COM-04", "answers are cached by the length and the ends of the audio", since="2.0")
    def test_audio_that_begins_and_ends_alike_is_told_apart(self, wlk: BackendUnderTest) -> None:
        """A stream that begins and ends with the audio of an earlier one has its own words."""
        same, first, second = (wlk.speech(n, seed=seed) for n, seed in ((3, 3), (2, 4), (2, 5)))
        size = min(len(first.audio), len(second.audio))
        quiet = silence(0.5)
        parts = (
            np.concatenate((quiet, same.audio, a.audio[:size], quiet)) for a in (first, second)
        )
        wlk.recipes.append("between two clips of equal audio, all of it at once")
        one, other = (attrs.evolve(same, audio=audio) for audio in parts)

        def played(stimulus: Stimulus, backend: Backend) -> Sequence[ASRToken]:
            driver = wlk.stream(stimulus.audio, of=backend)
            driver.end()
            return driver.tokens

        alone, backend = played(other, wlk.another_backend()), wlk.another_backend()
        played(one, backend)
        after = played(other, backend)
        with unless_answers_vary(wlk, other):
            check_same(alone, after, what="after audio with the same ends")

    @rule("COM-04", "state of one stream or call reaches another", since="2.0")
    def test_generated_sessions_keep_every_rule(self, wlk: BackendUnderTest) -> None:
        """Generated sessions keep every rule; a violation is reported under the rule it breaks."""
        play_sessions(wlk)

    @rule(
        "COM-05",
        "a policy ticks at each chunk, or loses samples at its end",
        "a gate or a gain is computed for each chunk: a word in seconds of quiet is lost",
        kinds="G,O,S",
    )
    def test_the_chunk_size_changes_nothing(self, wlk: BackendUnderTest) -> None:
        """
        The chunk size changes nothing: {0.032, 0.08, 0.5, 1, 2, 5, 60} s, each stream drained.

        Tokens are the same and starts are within 0.1 s, because policies tick on their own grid.
        With --speech, this is tested on a minute of words too.
        """
        sparse = wlk.speech(2, seed=12, gap=(2.5, 3.5))
        if not wlk.is_coded:
            sparse = wlk.log_stimulus(sparse.scaled(RISING[0]))
        stimuli = [(wlk.speech(12, seed=12), CHUNKS), (sparse, (CHUNKS[1], CHUNKS[-1]))]
        if "speech" in wlk.tiers:
            stimuli.append((wlk.speech(60, seed=13, gap=(0.1, 0.8)), CHUNKS))
        for stimulus, lengths in stimuli:
            expected = wlk.solo(stimulus)
            if stimulus is not sparse:  # whose few soft words a model need not recognise
                wlk.require_tokens(expected, stimulus)
            for seconds in lengths:
                tokens = wlk.solo(stimulus, chunk_seconds=seconds)
                what = f"chunks of {seconds} s against 1 s"
                with unless_answers_vary(wlk, stimulus, chunks=(1.0, seconds)):
                    check_same(expected, tokens, what=what, tolerance=0.1)

    @rule("COM-05", "a policy other than the default one decodes what a chunk brings", since="2.0")
    def test_the_chunk_size_changes_nothing_with_any_policy(self, wlk: BackendUnderTest) -> None:
        """The chunk size changes nothing with other policies either."""
        if not wlk.policy_variants:
            raise NotApplicable("there are no other policies to try", "not declared")
        for arguments in wlk.policy_variants:
            with suppress(OptionError):  # not every model has every policy of its backend
                stimulus = wlk.speech_for(arguments, 8, seed=12)
                expected = wlk.run(stimulus, **arguments).tokens
                for seconds in (0.2, 5.0):
                    tokens = wlk.run(stimulus, chunk_seconds=seconds, **arguments).tokens
                    what = f"with {arguments}, chunks of {seconds} s against 1 s"
                    with unless_answers_vary(wlk, stimulus, chunks=(1.0, seconds)):
                        check_same(expected, tokens, what=what, tolerance=0.1)

    @rule("COM-06", "times include padding that the model received", kinds="G,S")
    def test_no_token_comes_before_its_audio(self, wlk: BackendUnderTest) -> None:
        """No token comes before its audio: start < A when the token is first returned."""
        stimulus = wlk.speech(8, seed=7)
        driver = wlk.run(
            stimulus, chunk_seconds=0.3, before=lambda driver, _: driver.processor.get_buffer()
        )
        # The monitor of every stream checks each token, of hypotheses as well.
        wlk.require_tokens(driver.tokens, stimulus)


def _joined_digits(words: Sequence[str]) -> list[str]:
    """Return those of *words* that are several digits without a space between them."""
    return [word for word in words if JOINED_DIGITS.fullmatch(word)]


def _pairs(wlk: BackendUnderTest, stimulus: Stimulus, *, is_paused: bool) -> Sequence[ASRToken]:
    """Return the tokens of *stimulus*, perhaps with a pause between the words of each pair."""
    if not is_paused:
        return wlk.run(stimulus, chunk_seconds=0.5).tokens
    parts: list[NDArray[np.float32] | float] = []
    begin = 0
    for first, second in zip(stimulus.words[::2], stimulus.words[1::2], strict=False):
        end = round((first.end + second.start) / 2 * SAMPLE_RATE)
        parts += [stimulus.audio[begin:end], 3.0]
        begin = end
    return wlk.play(*parts, stimulus.audio[begin:]).tokens


def check_running(running: str, answers: Sequence[Sequence[Word]]) -> None:
    """Assert that an engine returned each word of a *running* transcript in its *answers*."""
    returned = [text_of(answer) for answer in answers]
    # An answer without a leading space may continue the last word of the one before.
    ends = tuple(text.split()[0] for text in returned if text and not text[0].isspace())
    known = {word for text in returned for word in text.split()}
    if not known:
        return
    for word in running.split():
        assert word in known or (ends and word.endswith(ends)), (
            f"{word!r} of the running transcript {running!r} is not among the words that the "
            f"engine returned for this audio: {sorted(known)}; it was added, changed, or taken "
            "from the answer to another call"
        )
