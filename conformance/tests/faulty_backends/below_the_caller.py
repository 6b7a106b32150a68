"""Faults of a real engine, its client and its wrapper, which every stream has alike."""

from __future__ import annotations

from functools import partial
import socket
from typing import TYPE_CHECKING, Any

import attrs
from fakes.wlk_fakes_matcher import transcribe, warmup
import numpy as np

from faulty_backends.base import FaultyStream, violates
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core import Transcript
from wlk_core.plugins import (
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core import ASRToken, Emission

__all__: list[str] = []

MATCHER: dict[str, Any] = {
    "options": (),
    "capabilities": frozenset({"hypothesis", "word-times", "speaker-turns", "bounded-state"}),
    "languages": ("en",),
    "policies": ("local-agreement",),
    "models": {"small": "bundled"},
    "default_model": "small",
    "digit_models": ("small",),
    "bounds": {"wer": 0.25},
}


class _Matcher:
    """A recogniser of spoken digits, one for all streams; a subclass has the fault."""

    stream: type[FaultyStream] = FaultyStream
    recognizer = LocalAgreementRecognizer

    @classmethod
    def load(cls, model: str | None) -> Any:
        """Return the backend."""
        if model != "small":
            raise ModelNotFoundError(f"no model {model!r}; use: --model small")
        return _Backend(
            attrs.evolve(SCRIPTED_SPEC, **MATCHER), cls(), open_stream=_open, warmup=_warm_up
        )

    def __call__(self, audio: Any, *, prompt: str, language: str | None) -> Hypothesis:
        """Return the words of *audio*."""
        hypothesis: Hypothesis = transcribe(
            list, self.scaled(audio), prompt=prompt, language=language
        )
        return hypothesis

    def scaled(self, audio: Any) -> Any:
        """Return *audio* as the model gets it."""
        return audio


class _Backend(LoadedBackend[_Matcher]):
    def create_processor(self, **arguments: Any) -> Any:
        """Return a stream with the fault."""
        return self.engine.stream(super().create_processor(**arguments), self)  # type: ignore[arg-type]


def _open(engine: _Matcher, config: Any, calls: Any) -> Callable[[], Any]:
    return partial(engine.recognizer, calls.wrap(engine), language=config.language)


def _warm_up(engine: _Matcher, calls: Any) -> None:
    warmup(engine, calls)


@violates("COM-04", spec=MATCHER)
class AmplifiesByLoudestStream(_Matcher):
    """Scales its audio by the loudest sample of all streams so far."""

    peak = 1e-3

    def scaled(self, audio: Any) -> Any:
        """Scale it."""
        self.peak = max(self.peak, float(np.abs(audio).max(initial=0.0)))
        return audio * np.float32(0.5 / self.peak)


@violates("COM-04", spec=MATCHER)
class NormalisesByMeanOfStreams(_Matcher):
    """Scales its audio by a mean loudness over the calls of all streams."""

    mean = 0.05

    def scaled(self, audio: Any) -> Any:
        """Scale it."""
        loudness = float(np.sqrt(np.square(audio).mean())) if len(audio) else 0.0
        self.mean = 0.95 * self.mean + 0.05 * loudness
        return audio * np.float32(0.05 / max(self.mean, 1e-4))


@violates("COM-04", spec=MATCHER)
class CachesByLengthAndLoudness(_Matcher):
    """Answers from a cache whose key is the length and the loudest sample of the audio."""

    def __init__(self) -> None:
        self.cache: dict[Any, Hypothesis] = {}

    def __call__(self, audio: Any, **arguments: Any) -> Hypothesis:
        """Look it up."""
        key = len(audio), round(float(np.abs(audio).max(initial=0.0)), 3)
        if key not in self.cache:
            self.cache[key] = super().__call__(audio, **arguments)
        return self.cache[key]


@violates("ERR-01", spec=MATCHER)
class TakesLostConnectionForSilence(_Matcher):
    """Returns no words where the server of its engine cannot be reached."""

    def __call__(self, audio: Any, **arguments: Any) -> Hypothesis:
        """Ask a server."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            try:
                socket.create_connection(server.getsockname()).close()
            except OSError:
                return Hypothesis(words=())
        return super().__call__(audio, **arguments)


class _HastyFlush(LocalAgreementRecognizer):
    def step(self, *, is_last: bool) -> Step | None:
        """Drop a word of a flush that no second hypothesis confirmed."""
        shown, step = len(self.hypothesis), super().step(is_last=is_last)
        if step is None or not is_last or len(step.committed) <= shown:
            return step
        return attrs.evolve(step, committed=step.committed[:-1])


@violates("LIFE-02", spec=MATCHER)
class FlushDropsUnconfirmedWord(_Matcher):
    """Drops the newest word of a flush, because no second hypothesis has it."""

    recognizer = _HastyFlush


class _Wrapper(FaultyStream):
    words = 0
    last = ""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Return the words that are left."""
        kept = [new for token in emission.committed for new in self.passed_on(token)]
        return emission.replace(committed=tuple(kept))

    def passed_on(self, token: ASRToken) -> list[ASRToken]:
        """Return what becomes of *token*."""
        return [token]


class _NinthLost(_Wrapper):
    def passed_on(self, token: ASRToken) -> list[ASRToken]:
        self.words += 1
        return [] if self.words % 9 == 0 else [token]


class _RepeatLost(_Wrapper):
    def passed_on(self, token: ASRToken) -> list[ASRToken]:
        before, self.last = self.last, token.text
        return [] if token.text == before else [token]


class _Folded(_Wrapper):
    def passed_on(self, token: ASRToken) -> list[ASRToken]:
        return [attrs.evolve(token, text=token.text.upper())]


class _OtherShown(FaultyStream):
    def get_buffer(self) -> Transcript:
        tokens = self.stream.get_buffer().tokens
        return Transcript(tuple(attrs.evolve(token, text=" word") for token in tokens))


class _JoinedShown(FaultyStream):
    def get_buffer(self) -> Transcript:
        tokens = self.stream.get_buffer().tokens
        return Transcript(tuple(attrs.evolve(token, text=token.text.strip()) for token in tokens))


for rule, name, stream, sentence in (
    ("LIFE-02", "LosesEveryNinthWord", _NinthLost, "Loses every ninth word of every stream."),
    ("COM-03", "LosesWordThatRepeats", _RepeatLost, "Drops a word that repeats the one before it."),
    ("COM-03", "WritesCapitals", _Folded, "Writes the words of its engine in capitals."),
    ("HYP-02", "ShowsAnotherWord", _OtherShown, "Shows a word that its engine never returned."),
    ("HYP-02", "ShowsWordsJoined", _JoinedShown, "Shows its hypothesis without any space."),
):
    members = {"__doc__": sentence, "__module__": __name__, "stream": stream}
    violates(rule, spec=MATCHER)(type(name, (_Matcher,), members))
