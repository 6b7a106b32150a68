"""Faults around the answers of an engine: their probabilities, texts and times, and slow ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from functools import partial
import unicodedata

import attrs
from fakes.wlk_fakes import MATCHER

from faulty_backends.base import FaultyBackend, FaultyStream, by_tests, each, edit, without
from faulty_backends.engine import Matcher
from wlk_core.plugins import Hypothesis, LocalAgreementRecognizer

PATIENCE = 1.0  # seconds that a faulty backend waits for its engine


class _Kept(FaultyStream):
    """A stream that commits only the tokens for which `keeps` is true."""

    def changed(self, emission, call):
        kept = tuple(token for token in emission.committed if self.keeps(token))
        return attrs.evolve(emission, committed=kept)


@by_tests("COM-03")
class DropsImprobableWords(_Kept):
    """Shows words of a probability below a half, but never commits them."""

    def keeps(self, token):
        return token.probability >= 0.5


@by_tests("COM-03")
class DropsWordsWithoutDuration(_Kept):
    """Drops words that end where they begin, in the times of its engine."""

    def keeps(self, token):
        return token.end > token.start


@by_tests("COM-03")
class DropsOtherScripts(_Kept):
    """Drops words that are not written in Latin letters, as noise."""

    def keeps(self, token):
        first = token.text.strip()[:1]
        return not first.isalpha() or "LATIN" in unicodedata.name(first, "")


@by_tests("COM-03")
class DropsWordsWithoutLetters(_Kept):
    """Drops words that have no letter or digit, such as an emoji."""

    def keeps(self, token):
        return any(map(str.isalnum, token.text))


class _Rewritten(FaultyStream):
    """A stream whose texts are changed by `rewrite`."""

    def changed(self, emission, call):
        return each(emission, lambda token: edit(token, text=self.rewrite))


@by_tests("COM-03")
class DropsApostrophes(_Rewritten):
    """Writes words without their apostrophes."""

    @staticmethod
    def rewrite(text):
        return text.replace("'", "").replace("\u2019", "")


@by_tests("COM-03")
class JoinsHyphens(_Rewritten):
    """Joins the parts of a word with a hyphen inside."""

    @staticmethod
    def rewrite(text):
        return text[:2] + text[2:-1].replace("-", "") + text[-1:] if len(text) > 3 else text


@by_tests("COM-03")
class DropsQuestionMarks(_Rewritten):
    """Drops the question marks and exclamation marks at the end of a word."""

    @staticmethod
    def rewrite(text):
        return text.rstrip("?!")


@by_tests("COM-03")
class WritesSmallLetters(_Rewritten):
    """Writes every word in small letters."""

    @staticmethod
    def rewrite(text):
        return text.lower()


class _SlowReader:
    """An engine call on a thread, of which a caller waits at most PATIENCE seconds."""

    def __init__(self, call):
        self.call = call
        self.last = Hypothesis()
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="engine")

    def __call__(self, audio, **options):
        """Return the answer, or the last one if it takes too long."""
        try:
            self.last = self.threads.submit(self.call, audio, **options).result(PATIENCE)
        except LateError:
            return self.late(options)
        return self.last

    def late(self, options):
        """Return the answer for a call that takes too long."""
        return self.last


class _ReaderWithoutAnswer(_SlowReader):
    def late(self, options):
        return Hypothesis()


class _Impatient(FaultyBackend):
    reader = _SlowReader

    def __init__(self):
        super().__init__()
        self._open_stream = self.opened

    def opened(self, engine, config, calls):
        """Open a stream whose engine calls are those of `reader`."""
        return partial(
            LocalAgreementRecognizer,
            self.reader(calls.wrap(engine.transcribe)),
            language=config.language,
            tick_seconds=config.options["tick_seconds"],
        )


@by_tests("COM-04")
class UsesLastAnswerOfSlowEngine(_Impatient):
    """Abandons an engine call after a second, and uses the answer to the call before it."""


@by_tests("COM-04")
class TakesSlownessForSilence(_Impatient):
    """Abandons an engine call after a second, and takes it for an answer without words."""

    reader = _ReaderWithoutAnswer


@by_tests("COM-04", spec=MATCHER)
class CachesByBeginning(Matcher):
    """Answers from a cache keyed by the length and the first second of the audio."""

    def __init__(self):
        self.cache = {}

    def __call__(self, audio, **arguments):
        """Look it up."""
        key = len(audio), audio[:16_000].tobytes()
        if key not in self.cache:
            self.cache[key] = super().__call__(audio, **arguments)
        return self.cache[key]


@by_tests("COM-04", spec=MATCHER)
class CachesByEnds(CachesByBeginning):
    """Answers from a cache keyed by the length, the first two seconds and the last quarter."""

    def __call__(self, audio, **arguments):
        """Look it up."""
        key = len(audio), audio[:32_000].tobytes(), audio[-4_000:].tobytes()
        if key not in self.cache:
            self.cache[key] = Matcher.__call__(self, audio, **arguments)
        return self.cache[key]


@by_tests("COM-04")
class RemembersMutedStreamByAddress(FaultyStream):
    """Loses the first word of a stream at the address of one that ended without words."""

    def changed(self, emission, call):
        muted = self.backend.marks.setdefault("muted", set())
        if not self.words and emission.committed and id(self) in muted:
            return without(emission)
        if call == "finish" and not self.words and not emission.committed:
            muted.add(id(self))
        return emission
