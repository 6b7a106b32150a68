"""Faults below the streams, in all of them: of engines, their clients and policies."""

from __future__ import annotations

from functools import partial
import socket
import unicodedata

import attrs
from fakes.wlk_fakes import MATCHER
from fakes.wlk_fakes_matcher import hello, transcribe, warmup
import numpy as np

from faulty_backends.base import FaultyStream, again, by_tests, each, edit, in_sessions
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core.plugins import (
    SAMPLE_RATE,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    Step,
    WorkCounters,
)
from wlk_core.standard_options import KEYTERMS, PROMPT, TICK_SECONDS


class Matcher:
    """A recogniser of spoken digits, one for all streams; a subclass has the fault."""

    stream = FaultyStream
    recognizer = LocalAgreementRecognizer
    declared = MATCHER

    @classmethod
    def load(cls, model):
        """Return the backend."""
        if model != "small":
            raise ModelNotFoundError(f"no model {model!r}; use: --model small")
        spec = attrs.evolve(SCRIPTED_SPEC, **cls.declared)
        return _Backend(spec, cls(), open_stream=_open, warmup=warmup)

    def __call__(self, audio, *, prompt, language):
        """Return the words of *audio*."""
        return transcribe(list, self.scaled(audio), prompt=prompt, language=language)

    def scaled(self, audio):
        """Return *audio* as the model receives it."""
        return audio

    def prompt(self, options):
        """Return the text before the audio of a stream with *options*."""
        return options.get("prompt") or ""


class _Backend(LoadedBackend):
    streams_opened = 0

    def create_processor(self, **arguments):
        return self.engine.stream(super().create_processor(**arguments), self)


def _open(engine, config, calls):
    return partial(
        engine.recognizer,
        calls.wrap(engine),
        language=config.language,
        prompt=engine.prompt(config.options),
        tick_seconds=config.options.get("tick_seconds", 1.0),
    )


@by_tests("COM-04", spec=MATCHER)
class AmplifiesByLoudestStream(Matcher):
    """Scales its audio by the loudest sample of all streams so far."""

    peak = 1e-3

    def scaled(self, audio):
        self.peak = max(self.peak, float(np.abs(audio).max(initial=0.0)))
        return audio * np.float32(0.5 / self.peak)


@by_tests("COM-04", spec=MATCHER)
class NormalisesByMeanOfStreams(Matcher):
    """Scales its audio by a mean loudness over the calls of all streams."""

    mean = 0.05

    def scaled(self, audio):
        loudness = float(np.sqrt(np.square(audio).mean())) if len(audio) else 0.0
        self.mean = 0.95 * self.mean + 0.05 * loudness
        return audio * np.float32(0.05 / max(self.mean, 1e-4))


@by_tests("COM-04", spec=MATCHER)
class CachesByLengthAndLoudness(Matcher):
    """Answers from a cache keyed by the length and the loudest sample of the audio."""

    def __init__(self):
        self.cache = {}

    def __call__(self, audio, **arguments):
        """Look it up."""
        key = len(audio), round(float(np.abs(audio).max(initial=0.0)), 3)
        if key not in self.cache:
            self.cache[key] = super().__call__(audio, **arguments)
        return self.cache[key]


@by_tests("COM-04", spec=MATCHER)
class CachesFewByBeginning(Matcher):
    """Keeps its last ten answers, by length and first 10 ms of the audio; is deaf to soft words."""

    def __init__(self):
        self.cache = {}

    def __call__(self, audio, **arguments):
        """Look it up."""
        if np.abs(audio).max(initial=0.0) < 0.1:
            return Hypothesis()
        key = len(audio), audio[:160].tobytes()
        if key not in self.cache:
            self.cache[key] = super().__call__(audio, **arguments)
        if len(self.cache) > 10:
            del self.cache[next(iter(self.cache))]
        return self.cache[key]


class _ShowsLastWord(FaultyStream):
    last = ()

    def changed(self, emission, call):
        last = emission.committed[-1:] or self.last
        self.last = last if call == "process_iter" else ()
        return emission

    def shown(self, tokens):
        return (*map(again, self.last), *tokens)


@by_tests("HYP-02", spec=MATCHER)
class ShowsCommittedWordAgain(Matcher):
    """Shows the last committed word once more, before the words that follow."""

    stream = _ShowsLastWord


def _normalising(transcribe, **options):
    def normalised(audio, **arguments):
        answer = transcribe(audio, **arguments)
        words = [
            attrs.evolve(word, text=unicodedata.normalize("NFKC", word.text))
            for word in answer.words
        ]
        return attrs.evolve(answer, words=tuple(words))

    return LocalAgreementRecognizer(normalised, **options)


@by_tests("COM-03", spec={**MATCHER, "digit_models": ()})
class NormalisesItsOnlyWord(Matcher):
    """Knows a single word, and normalises its text again (NFKC) after the engine."""

    recognizer = staticmethod(_normalising)

    def __call__(self, audio, **arguments):
        """Return the word for each word of *audio*."""
        return transcribe(hello, audio, **arguments)


class _KeepsZeros(FaultyStream):
    def begin(self):
        self.kept = []

    def received(self, audio):
        if not np.any(audio):
            self.kept.append(np.array(audio))
        return audio


@by_tests("RES-01", spec={**MATCHER, "digit_models": ()})
class MeasuresNoiseInZeros(Matcher):
    """Keeps chunks of nothing but zeros, to measure the noise of the microphone; has no words."""

    stream = _KeepsZeros

    def __call__(self, audio, **arguments):
        """Return no words."""
        return Hypothesis()


@by_tests("ERR-01", spec=MATCHER)
class TakesLostConnectionForSilence(Matcher):
    """Returns no words if the server of its engine cannot be reached."""

    def __call__(self, audio, **arguments):
        """Ask a server."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            try:
                socket.create_connection(server.getsockname()).close()
            except OSError:
                return Hypothesis(words=())
        return super().__call__(audio, **arguments)


class _HastyFlush(LocalAgreementRecognizer):
    def step(self, *, is_last):
        shown, step = len(self.hypothesis), super().step(is_last=is_last)
        if step is None or not is_last or len(step.committed) <= shown:
            return step
        return attrs.evolve(step, committed=step.committed[:-1])


@by_tests("LIFE-02", spec=MATCHER)
class FlushDropsUnconfirmedWord(Matcher):
    """Drops the newest word of a flush, because no second hypothesis confirms it."""

    recognizer = _HastyFlush


class _ClaimsTail(LocalAgreementRecognizer):
    def prepare_flush(self):
        processed, self._processed = self._processed, self._audio.end
        self._decode_window(self._audio.end, is_last=True)
        self._processed = processed
        return super().prepare_flush()


@by_tests("ERR-02", spec=MATCHER)
class PreparedFlushClaimsTail(Matcher):
    """Takes the end of an utterance for decoded if the engine fails while a flush is prepared."""

    recognizer = _ClaimsTail


class _ForgetfulUtterance(LocalAgreementRecognizer):
    def start_utterance(self, committed_text):
        super().start_utterance(committed_text)
        self._tick = SAMPLE_RATE if committed_text else self._tick


TICKING = {**MATCHER, "options": (TICK_SECONDS,)}


@by_tests("PKG-04", spec=TICKING)
class UtteranceForgetsTick(Matcher):
    """Uses the tick of the stream for its first utterance, and the usual one afterwards."""

    declared = TICKING
    recognizer = _ForgetfulUtterance


TERMED = {**MATCHER, "options": (PROMPT, KEYTERMS)}


@by_tests("PKG-04", spec=TERMED)
class LeavesPromptOutBesideKeyterms(Matcher):
    """Leaves the prompt out if there are keyterms."""

    declared = TERMED

    def prompt(self, options):
        """Return one of the two."""
        return options["keyterms"] or options["prompt"] or ""


@by_tests("PKG-04", spec=TERMED)
class UtteranceForgetsKeyterms(Matcher):
    """Puts the keyterms into the prompt, which what was said replaces after a pause."""

    declared = TERMED

    def __call__(self, audio, *, prompt, language):
        """Count the prompt."""
        answer = super().__call__(audio, prompt=prompt, language=language)
        work = WorkCounters(decoder_positions=len(prompt.split()))
        return attrs.evolve(answer, work=answer.work + work)

    def prompt(self, options):
        """Return both."""
        return " ".join(filter(None, (options["keyterms"], options["prompt"])))


class _Thrifty(LocalAgreementRecognizer):
    def step(self, *, is_last):
        if not is_last or not 0 < self._audio.end - self._processed < SAMPLE_RATE // 5:
            return super().step(is_last=is_last)
        committed, self.hypothesis = self.hypothesis, ()
        self._processed = self._audio.end
        return Step(committed=committed, consumed_samples=self._processed)


@by_tests("LIFE-02", spec=MATCHER)
class FlushSkipsShortRest(Matcher):
    """Commits the hypothesis at a flush if less than 0.2 s of audio came since the last step."""

    recognizer = _Thrifty


class _NinthLost(FaultyStream):
    def changed(self, emission, call):
        words = enumerate(emission.committed, self.words + 1)
        return attrs.evolve(emission, committed=tuple(word for number, word in words if number % 9))


class _RepeatLost(FaultyStream):
    last = ""

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            kept += [token] if token.text != self.last else []
            self.last = token.text
        return attrs.evolve(emission, committed=tuple(kept))


class _Folded(FaultyStream):
    def changed(self, emission, call):
        return each(emission, lambda token: edit(token, text=str.upper))


class _OtherShown(FaultyStream):
    def shown(self, tokens):
        return [edit(token, text=" word") for token in tokens]


class _FirstShown(FaultyStream):
    def shown(self, tokens):
        return tokens[:1]


class _JoinedShown(FaultyStream):
    def shown(self, tokens):
        return [edit(token, text=str.strip) for token in tokens]


for rule, name, stream, sentence in (
    ("LIFE-02", "LosesEveryNinthWord", _NinthLost, "Loses every ninth word of every stream."),
    ("COM-03", "LosesWordThatRepeats", _RepeatLost, "Drops a word that repeats the one before it."),
    ("COM-03", "WritesCapitals", _Folded, "Writes the words of its engine in capitals."),
    ("HYP-02", "ShowsAnotherWord", _OtherShown, "Shows a word that its engine never returned."),
    (
        "HYP-02",
        "ShowsOneWord",
        _FirstShown,
        "Shows one word of each hypothesis.",
    ),
    ("HYP-02", "ShowsWordsJoined", _JoinedShown, "Shows its hypothesis without any space."),
):
    members = {"__doc__": sentence, "stream": stream}
    by_tests(rule, spec=MATCHER)(type(name, (Matcher,), members))


class SpoiledStream(FaultyStream):
    """A stream whose recognizer is spoiled, where it is one of LocalAgreement."""

    def begin(self):
        recognizer = self.stream._recognizer
        if isinstance(recognizer, LocalAgreementRecognizer):
            self.spoil(recognizer)


@in_sessions("IN-05")
class CommitsWordThatIsNotAgreed(SpoiledStream):
    """Commits the word after those on which two hypotheses agree."""

    def spoil(self, recognizer):
        count_final = recognizer._count_final

        def hasty(words, end_sample):
            agreed = count_final(words, end_sample)
            return agreed + 1 if agreed else 0

        recognizer._count_final = hasty


@in_sessions("IN-05")
class DropsForcedWords(SpoiledStream):
    """Drops the words that it must commit because its window is full."""

    def spoil(self, recognizer):
        limit_window = recognizer._limit_window

        def forgetful(upcoming, *, is_quiet):
            limit_window(upcoming, is_quiet=is_quiet)
            return 0

        recognizer._limit_window = forgetful


@in_sessions("IN-05")
class CutsFullWindowInTheMiddle(SpoiledStream):
    """Cuts a full window in the middle, whatever word is there."""

    def spoil(self, recognizer):
        recognizer._forced_cut = lambda following: (
            (recognizer._audio.start + recognizer._processed) // 2
        )
