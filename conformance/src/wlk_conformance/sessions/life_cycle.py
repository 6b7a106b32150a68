"""The life cycle of a stream between resets: its clock, and what must hold of its tokens."""

from __future__ import annotations

from fractions import Fraction
import math
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.generated_session import Violation
from wlk_core import EPS, SAMPLE_RATE, ASRToken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wlk_core import BackendSpec, ChangeSpeaker, Emission, Transcript

ROUNDING = 1e-6  # seconds: rounding allowed in a clock that counts samples
RECENT = 32  # newest tokens checked for changes after every call; at the end all are
# The rule of a call that commits text although no audio was inserted since the last flush.
IDLE = {
    "start_silence": "SIL-02", "new_speaker": "SPK-01", "is_last": "LIFE-07", "finish": "LIFE-03",
}  # fmt: skip

Snapshot = tuple[Any, ...]
Speaker = int | str | None


@attrs.frozen
class StreamClock:
    """
    Samples and silences, counted exactly; `pauses` has the samples before each, seconds and rule.

    The core's own Timeline is not used, because it is under test.
    """

    samples: int = 0
    silence: Fraction = Fraction(0)
    pauses: tuple[tuple[int, Fraction, str], ...] = ()

    @property
    def end(self) -> float:
        """The end of audio and silences, in seconds."""
        return float(self.silence + Fraction(self.samples, SAMPLE_RATE))

    def after(self, *, samples: int = 0, pause: float = 0.0, rule: str = "SIL-05") -> StreamClock:
        """Return the clock after a pause, then *samples*; a token in the pause breaks *rule*."""
        silence, pauses = self.silence, self.pauses
        if pause > 0:
            silence += Fraction(pause)
            pauses = (*pauses, (self.samples, Fraction(pause), rule))
        return StreamClock(self.samples + samples, silence, pauses)

    def gap_before(self, samples: int, end_time: float | None) -> float:
        """Return the silence before a chunk that ends at *end_time*, negative for an overlap."""
        if end_time is None or not math.isfinite(end_time):
            return 0.0
        difference = end_time - (self.end + samples / SAMPLE_RATE)
        return 0.0 if abs(difference) <= EPS + ROUNDING else difference

    def time_of(self, sample: int, *, is_before_pause: bool = False) -> float:
        """Return the stream time of *sample*, at a silence the time before or after it."""
        silence = Fraction(sample, SAMPLE_RATE)
        for before, seconds, _ in self.pauses:
            if before < sample or (before == sample and not is_before_pause):
                silence += seconds
        return float(silence)

    def audio_time(self, time: float) -> float:
        """Return *time* without earlier silences; a time inside a silence counts as its start."""
        silences = (max(0.0, min(time, end) - start) for start, end, _ in self.spans())
        return max(0.0, time - sum(silences))

    def spans(self) -> Iterator[tuple[float, float, str]]:
        """Yield the start, the end and the rule of each silence."""
        silence = Fraction(0)
        for sample, seconds, rule in self.pauses:
            begins = silence + Fraction(sample, SAMPLE_RATE)
            silence += seconds
            yield float(begins), float(begins + seconds), rule


@attrs.frozen(kw_only=True)
class Reading:
    """A hypothesis, and the numbers of tokens committed and samples inserted when it was read."""

    tokens: tuple[ASRToken, ...]
    committed: int
    samples: int = attrs.field(eq=False)


@attrs.define
class LifeCycle:
    """A stream from its opening or a reset to the next reset or its close."""

    clock: StreamClock = attrs.field(factory=StreamClock)
    cuts: list[int] = attrs.field(factory=list)  #: samples at which a flush ended an utterance
    tokens: list[ASRToken] = attrs.field(factory=list)
    readings: list[Reading] = attrs.field(factory=list)  #: not empty, each unlike the last
    is_complete: bool = False  #: finish has returned, so that every word was committed
    is_broken: bool = False  #: StreamBroken was raised
    first_sample: int = 0  #: its start in the tape
    may_end_early: bool = False  #: a word may be decoded before it has ended

    def read(self, tokens: Sequence[ASRToken]) -> None:
        """Note the hypothesis of a read."""
        if not tokens:
            return
        reading = Reading(
            tokens=tuple(tokens), committed=len(self.tokens), samples=self.clock.samples
        )
        if not self.readings or self.readings[-1] != reading:
            self.readings.append(reading)


class CommittedTokens:
    """The tokens of a life cycle, and a snapshot of each, with which it is compared later."""

    def __init__(self, life_cycle: LifeCycle, spec: BackendSpec, language: str | None) -> None:
        self._life_cycle = life_cycle
        self._spec = spec
        self._language = language
        self._snapshots: list[Snapshot] = []
        self._shown: list[tuple[Any, Snapshot]] = []  # the newest hypothesis, as it was returned
        self._stable = 0.0

    @property
    def end(self) -> float | None:
        """The end of the last committed token."""
        return self._snapshots[-1][1] if self._snapshots else None

    def keep(self, tokens: Iterable[Any]) -> None:
        """Add *tokens* to the life cycle."""
        for token in tokens:
            if isinstance(getattr(token, "start", None), float):
                self._life_cycle.tokens.append(token)
                self._snapshots.append(_snapshot(token))

    def take(self, emission: Emission, call: str, *, has_audio: bool) -> Iterator[Violation]:
        """Check and keep the tokens of *emission*; `has_audio` means audio since the last flush."""
        if type(emission.committed) is not tuple:
            kind = type(emission.committed).__name__
            yield Violation("COM-02", f"{call} returned its tokens as {kind}")
        for token in emission.committed:
            problem = next(self._problems(token, call, has_audio=has_audio), None)
            if problem is not None:
                yield Violation(*problem)
            self.keep([token])
        self._stable = max(self._stable, emission.stable_up_to)

    def verify(self, *, is_whole: bool = False) -> Iterator[Violation]:
        """Compare the newest tokens, or all of them, and the hypothesis with their snapshots."""
        tokens = self._life_cycle.tokens
        for index in range(0 if is_whole else max(0, len(tokens) - RECENT), len(tokens)):
            before, now = self._snapshots[index], _snapshot(tokens[index])
            if now != before:
                self._snapshots[index] = now
                message = f"a token was {before} when it was returned, and later {now}"
                yield Violation("COM-02", message)
        for token, before in self._shown:
            if (now := _snapshot(token)) != before:
                message = f"a token of the hypothesis was {before} when it was returned"
                yield Violation("COM-02", f"{message}, and later {now}")

    def check_shown(
        self, shown: Transcript, *, committed_end: float | None, is_flushed: bool
    ) -> Iterator[Violation]:
        """Check what get_buffer returned; `is_flushed` if no audio followed the last flush."""
        yield from self.verify()
        tokens, before = shown.tokens, 0.0
        self._shown = [(token, _snapshot(token)) for token in tokens]
        if is_flushed and tokens:
            yield Violation("HYP-03", f"the hypothesis is {shown.text!r} after a flush")
            return
        if shown.text != "".join(token.text for token in tokens):
            yield Violation("COM-03", f"the text of the hypothesis {tokens} is {shown.text!r}")
        for token in tokens:
            where = f"the hypothesis has {_described(token)}, but"
            if problem := next(self._misdeclared(token), None):
                yield Violation(problem[0], f"in the hypothesis: {problem[1]}")
            if committed_end is not None and token.start < committed_end - EPS:
                yield Violation("HYP-02", f"{where} committed text ends at {committed_end:.3f} s")
            if token.start < before:
                yield Violation("TIME-02", f"{where} the token before it starts at {before:.3f} s")
            before = token.start

    def _problems(self, token: Any, call: str, *, has_audio: bool) -> Iterator[tuple[str, str]]:
        """Yield the rules that *token* breaks, and how; the first may cause the others."""
        clock = self._life_cycle.clock
        if not isinstance(token, ASRToken):
            yield "COM-02", f"{call} returned a {type(token).__name__}, expected an ASRToken"
        if not clock.samples:
            rule = "LIFE-05" if call == "finish" else "LIFE-01"
            yield rule, f"{call} committed {token.text!r} before any audio was inserted"
        if not has_audio:
            rule = IDLE.get(call, "COM-01")
            yield rule, f"{call} committed {token.text!r} without new audio since the last flush"
        recent = [snapshot[:3] for snapshot in self._snapshots[-RECENT:]]
        if token.end > token.start and _snapshot(token)[:3] in recent:
            yield "COM-01", f"{call} committed {_described(token)} again"
        yield from self._misdeclared(token)
        before = self._snapshots[-1][0] if self._snapshots else 0.0
        if token.start < before:
            yield "TIME-02", f"{_described(token)} starts before the last token, at {before:.3f} s"
        if token.start < self._stable - ROUNDING:
            stable = f"stable_up_to, which was {self._stable:.3f} s"
            yield "TIME-03", f"{_described(token)} starts before {stable}"
        for start, end, rule in clock.spans():
            if token.end > start + EPS and token.start < end - EPS:
                yield rule, f"{_described(token)} overlaps the pause at {start:.3f}-{end:.3f} s"

    def _misdeclared(self, token: ASRToken) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with *token* regardless of earlier tokens."""
        spec, audio_time = self._spec, self._life_cycle.clock.end
        if not token.text.strip():
            yield "COM-03", f"an empty token: {token}"
        if "\ufffd" in token.text:
            yield "COM-03", f"U+FFFD in {token}: incomplete bytes must be held back"
        probability = token.probability
        if ("probabilities" in spec.capabilities) != (probability is not None):
            text = f"{token.text!r} has the probability {probability}, contradicting the spec"
            yield "PKG-01", text
        if probability is not None and not 0 <= probability <= 1:
            yield "PKG-01", f"{token.text!r} has the probability {probability}, expected 0 to 1"
        reported = token.detected_language
        if reported not in {None, *spec.languages}:
            yield "LANG-01", f"{reported!r} is not a declared language"
        if self._language is not None and reported != self._language:
            text = f"{self._language!r} is forced, but {token.text!r} is reported as {reported!r}"
            yield "LANG-01", text
        where = f"{_described(token)}, but the audio ends at {audio_time:.3f} s"
        if not math.isfinite(token.start) or not math.isfinite(token.end):
            yield "TIME-01", f"{token} has no finite times"
        if token.start >= audio_time:
            yield "COM-06", where
        if not 0 <= token.start <= token.end <= audio_time + EPS:
            yield "TIME-01", f"{where}; expected 0 <= start <= end <= that, in seconds"


def _described(token: ASRToken) -> str:
    return f"{token.text!r} at {token.start:.3f}-{token.end:.3f} s"


def _snapshot(token: Any) -> Snapshot:
    names = ("start", "end", "text", "probability", "speaker", "detected_language")
    return tuple(getattr(token, name, None) for name in names)


class Speakers:
    """The turns of a stream, in the order of the calls."""

    def __init__(self, *, is_reset: bool) -> None:
        self._is_reset = is_reset
        self.turns: list[ChangeSpeaker] = []  #: noted before the call returns tokens

    def take(self, emission: Emission, call: str) -> Iterator[Violation]:
        """Check the speakers of the tokens of *emission*."""
        for token in emission.committed:
            allowed = self._allowed(token)
            # Types are compared too, because 1 == True == 1.0.
            if (type(token.speaker), token.speaker) not in [(type(s), s) for s in allowed]:
                yield Violation(
                    "LIFE-06" if self._is_reset and not self.turns else "SPK-02",
                    f"{call}: {token.text!r} at {token.start:.3f} s has speaker "
                    f"{token.speaker!r}, expected {' or '.join(map(repr, allowed))}; turns: "
                    + ", ".join(f"{turn.speaker!r} from {turn.start:.3f} s" for turn in self.turns),
                )
                return

    def _allowed(self, token: ASRToken) -> list[Speaker]:
        """
        Return the speakers that a token may have.

        Within EPS of a turn, both speakers are accepted.  The contract does not say whether a later
        call cancels a turn that starts later, so both readings are accepted.
        """
        allowed: list[Speaker] = []
        for time in (token.start, token.start - EPS, token.start + EPS):
            by_call = [turn for turn in self.turns if turn.start <= time]
            by_start = sorted(by_call, key=lambda turn: turn.start)
            allowed += [each[-1].speaker if each else None for each in (by_call, by_start)]
        return list(dict.fromkeys(allowed))
