"""Invariants of tokens: committed ones are final, in order and declared, hypotheses follow them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wlk_conformance.sessions.clock import ROUNDING
from wlk_conformance.sessions.violation import Violation
from wlk_core import EPS, ASRToken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.sessions.clock import StreamClock
    from wlk_core import BackendSpec, ChangeSpeaker, Emission

__all__ = ["CommittedTokens", "Speakers", "check_declared", "check_hypothesis", "check_text"]

RECENT = 32  # tokens that every call compares again with what they were; the end compares all
# The rule of a call that commits text although no audio came since the last flush.
IDLE = {
    "start_silence": "SIL-02", "new_speaker": "SPK-01", "is_last": "LIFE-07", "finish": "LIFE-03",
}  # fmt: skip

Snapshot = tuple[Any, ...]


class CommittedTokens:
    """The tokens of a stream, with a copy of each to compare it with later."""

    def __init__(self, spec: BackendSpec, language: str | None) -> None:
        self._spec = spec
        self._language = language
        self._tokens: list[Any] = []
        self._snapshots: list[Snapshot] = []
        self._stable = 0.0

    @property
    def end(self) -> float | None:
        """The end of the last committed token."""
        return self._snapshots[-1][1] if self._snapshots else None

    def take(
        self, emission: Emission, call: str, clock: StreamClock, *, has_audio: bool
    ) -> Iterator[Violation]:
        """Check and keep the tokens of *emission*; `has_audio` since the last flush."""
        if type(emission.committed) is not tuple:
            yield Violation(
                "COM-02", f"{call} returned its tokens as {type(emission.committed).__name__}"
            )
        for token in emission.committed:
            problem = self._problem(token, call, clock, has_audio=has_audio)
            if problem is not None:
                yield Violation(*problem)
            if isinstance(getattr(token, "start", None), float):
                self._tokens.append(token)
                self._snapshots.append(_snapshot(token))
        self._stable = max(self._stable, emission.stable_up_to)

    def verify(self, *, is_whole: bool = False) -> Iterator[Violation]:
        """Compare the newest tokens, or all, with what they were when they were returned."""
        first = 0 if is_whole else max(0, len(self._tokens) - RECENT)
        for index in range(first, len(self._tokens)):
            now = _snapshot(self._tokens[index])
            if now != self._snapshots[index]:
                message = f"a token was {self._snapshots[index]} when it was returned, later {now}"
                self._snapshots[index] = now
                yield Violation("COM-02", message)

    def _problem(
        self, token: Any, call: str, clock: StreamClock, *, has_audio: bool
    ) -> tuple[str, str] | None:
        """Return the first rule that *token* breaks, and how."""
        if not isinstance(token, ASRToken):
            return "COM-02", f"{call} returned a {type(token).__name__}, expected an ASRToken"
        if not clock.samples:
            rule = "LIFE-05" if call == "finish" else "LIFE-01"
            return rule, f"{call} committed {token.text!r}, and no audio was inserted"
        return (
            check_text(token)
            or check_declared(token, self._spec, self._language)
            or self._repetition(token, call, has_audio=has_audio)
            or _outside(token, clock.end)
            or self._disorder(token)
            or _in_pause(token, clock)
        )

    def _repetition(self, token: ASRToken, call: str, *, has_audio: bool) -> tuple[str, str] | None:
        if not has_audio:
            rule = IDLE.get(call, "COM-01")
            return rule, f"{call} committed {token.text!r}, and no audio came since the last flush"
        if token.end > token.start and _snapshot(token)[:3] in (
            snapshot[:3] for snapshot in self._snapshots[-RECENT:]
        ):
            return "COM-01", f"{call} committed {_described(token)} again"
        return None

    def _disorder(self, token: ASRToken) -> tuple[str, str] | None:
        before = self._snapshots[-1][0] if self._snapshots else 0.0
        if token.start < before:
            return "TIME-02", f"{_described(token)} starts before the last token, at {before:.3f} s"
        if token.start < self._stable - ROUNDING:
            return (
                "TIME-03",
                f"{_described(token)} starts before {self._stable:.3f} s, which was stable",
            )
        return None


def check_text(token: ASRToken) -> tuple[str, str] | None:
    """Return COM-03 for a token without text or with incomplete characters."""
    if not token.text.strip():
        return "COM-03", f"an empty token: {token}"
    if "\ufffd" in token.text:
        return "COM-03", f"U+FFFD in {token}: bytes were not waited for"
    return None


def check_declared(
    token: ASRToken, spec: BackendSpec, language: str | None
) -> tuple[str, str] | None:
    """Return PKG-01 or LANG-01 for a probability or language that the spec does not declare."""
    probability = token.probability
    if ("probabilities" in spec.capabilities) != (probability is not None):
        return "PKG-01", f"{token.text!r} has the probability {probability}; see the capabilities"
    if probability is not None and not 0 <= probability <= 1:
        return "PKG-01", f"{token.text!r} has the probability {probability}, expected 0 to 1"
    if token.detected_language not in {None, *spec.languages}:
        return "LANG-01", f"{token.detected_language!r} is not a declared language"
    if language is not None and token.detected_language != language:
        return (
            "LANG-01",
            f"{language!r} is forced, {token.text!r} is reported as {token.detected_language!r}",
        )
    return None


def _outside(token: ASRToken, audio_time: float) -> tuple[str, str] | None:
    if not math.isfinite(token.start) or not math.isfinite(token.end):
        return "TIME-01", f"{token} has no time"
    where = f"{_described(token)}, the audio ends at {audio_time:.3f} s"
    if token.start >= audio_time:
        return "COM-06", where
    if not 0 <= token.start <= token.end <= audio_time + EPS:
        return "TIME-01", f"{where}; times are seconds"
    return None


def _in_pause(token: ASRToken, clock: StreamClock) -> tuple[str, str] | None:
    pause = clock.pause_crossed(token.start, token.end)
    if pause is None:
        return None
    start, end, rule = pause
    return rule, f"{_described(token)}, and a pause at {start:.3f}-{end:.3f} s"


def _described(token: ASRToken) -> str:
    return f"{token.text!r} at {token.start:.3f}-{token.end:.3f} s"


def _snapshot(token: Any) -> Snapshot:
    names = ("start", "end", "text", "probability", "speaker", "detected_language")
    return tuple(getattr(token, name, None) for name in names)


def check_hypothesis(
    shown: Any,
    spec: BackendSpec,
    language: str | None,
    *,
    committed_end: float | None,
    audio_time: float,
    is_flushed: bool,
) -> Iterator[Violation]:
    """Check what get_buffer returned; `is_flushed` where nothing came since the last flush."""
    tokens = shown.tokens
    if is_flushed and tokens:
        yield Violation("HYP-03", f"after a flush the hypothesis is {shown.text!r}")
        return
    if shown.text != "".join(token.text for token in tokens):
        yield Violation("COM-03", f"the hypothesis {tokens} reads {shown.text!r}")
    before = 0.0
    for token in tokens:
        where = f"the hypothesis has {token.text!r} at {token.start:.3f}-{token.end:.3f} s"
        problem = check_text(token) or check_declared(token, spec, language)
        if problem is not None:
            yield Violation(*problem)
        elif not (math.isfinite(token.start) and math.isfinite(token.end)):
            yield Violation("TIME-01", f"{where}: no time")
        elif token.start >= audio_time:
            yield Violation("COM-06", f"{where}, the audio ends at {audio_time:.3f} s")
        elif not 0 <= token.start <= token.end <= audio_time + EPS:
            yield Violation("TIME-01", f"{where}, the audio ends at {audio_time:.3f} s")
        elif committed_end is not None and token.start < committed_end - EPS:
            yield Violation("HYP-02", f"{where}, committed text ends at {committed_end:.3f} s")
        elif token.start < before:
            yield Violation("TIME-02", f"{where}, the token before it starts at {before:.3f} s")
        else:
            before = token.start
            continue
        return


Speaker = int | str | None


class Speakers:
    """The turns of a stream, in the order of the calls."""

    def __init__(self, *, is_reset: bool) -> None:
        self._is_reset = is_reset
        self._turns: list[ChangeSpeaker] = []

    def turn(self, change: ChangeSpeaker) -> None:
        """Note a turn; its own call already returns tokens by it."""
        self._turns.append(change)

    def take(self, emission: Emission, call: str) -> Iterator[Violation]:
        """Check the speakers of the tokens of *emission*."""
        for token in emission.committed:
            allowed = self._allowed(token)
            if not any(_is_same(token.speaker, speaker) for speaker in allowed):
                yield Violation(
                    "LIFE-06" if self._is_reset and not self._turns else "SPK-02",
                    f"{call}: {token.text!r} at {token.start:.3f} s is by speaker "
                    f"{token.speaker!r}, expected {' or '.join(map(repr, allowed))}; turns: "
                    + ", ".join(
                        f"{turn.speaker!r} from {turn.start:.3f} s" for turn in self._turns
                    ),
                )
                return

    def _allowed(self, token: ASRToken) -> list[Speaker]:
        """
        Return the speakers that a token may have.

        Either side of a turn is accepted within EPS.  The contract leaves open whether a turn that
        is called later cancels one that starts later, so that both readings are accepted.
        """
        allowed: list[Speaker] = []
        for time in (token.start, token.start - EPS, token.start + EPS):
            by_call: Speaker = None
            for turn in self._turns:
                by_call = turn.speaker if turn.start <= time else by_call
            in_time = sorted(
                (turn for turn in self._turns if turn.start <= time), key=lambda turn: turn.start
            )
            allowed += [by_call, in_time[-1].speaker if in_time else None]
        return list(dict.fromkeys(allowed))


def _is_same(actual: object, expected: object) -> bool:
    return type(actual) is type(expected) and actual == expected
