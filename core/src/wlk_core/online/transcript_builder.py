"""What a stream has said: words of a run become tokens of the stream."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from wlk_core.errors import ClockError
from wlk_core.streaming.words import joined
from wlk_core.tokens import ASRToken, Transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming.words import Word
    from wlk_core.tokens import ChangeSpeaker

__all__ = ["TranscriptBuilder", "Utterance"]

TAIL_CHARACTERS = 400  # of the transcript, kept as context for the next run
LAST_MOMENT = 0.02  # seconds before the end of the audio by which a word has begun at the latest


@attrs.frozen
class Utterance:
    """Where a run lies on the stream clock (seconds), and the language heard in it."""

    origin: float
    end: float
    language: str | None = None


class TranscriptBuilder:
    """
    The committed side of a stream: spacing, order of times and speakers.

    Tokens carry their own spacing; only where two runs meet is the script's own join put between
    them.  Times are made to keep the contract whatever the model's jitter: starts never go back,
    nothing starts before the last committed end or before `stable`, and no token leaves its
    utterance.
    """

    def __init__(self) -> None:
        self.prompt_tail = ""  #: the end of the transcript
        self.stable = 0.0  #: no later token starts before this stream time
        self._is_seam = True  # the next token is the first of its run
        self._turns: list[ChangeSpeaker] = []

    @property
    def nbytes(self) -> int:
        """Room for the text held: its bound, so that the figure is flat from the start."""
        return TAIL_CHARACTERS

    def commit(self, word: Word, utterance: Utterance) -> ASRToken:
        """Return *word*, timed in its run, as the next token of the stream."""
        token = self._placed(word, utterance, self.stable, is_seam=self._is_seam)
        self._is_seam = False
        self.prompt_tail = (self.prompt_tail + token.text)[-TAIL_CHARACTERS:]
        self.stable = max(self.stable, min(token.end, utterance.end - LAST_MOMENT))
        return token

    def preview(self, words: Sequence[Word], utterance: Utterance) -> Transcript:
        """Return the hypothesis as it would be committed now; changes nothing."""
        tokens: list[ASRToken] = []
        floor, is_seam = self.stable, self._is_seam
        for word in words:
            tokens.append(self._placed(word, utterance, floor, is_seam=is_seam))
            floor, is_seam = tokens[-1].start, False
        return Transcript(tuple(tokens))

    def end_utterance(self, time: float) -> None:
        """End the run at the stream time *time*: no later token starts before it."""
        self._is_seam = True
        self.stable = max(self.stable, time)
        current = [turn for turn in self._turns if turn.start <= time][-1:]
        self._turns = current + [turn for turn in self._turns if turn.start > time]

    def check_turn(self, change: ChangeSpeaker) -> None:
        """Raise ClockError unless the turn has a usable time."""
        if not math.isfinite(change.start) or change.start < 0:
            raise ClockError(f"a turn starts at a stream time of 0 s or more, got {change.start!r}")

    def turn(self, change: ChangeSpeaker) -> None:
        """Attribute words that start at `change.start` or later to the new speaker."""
        self._turns = [turn for turn in self._turns if turn.start < change.start]
        self._turns.append(change)

    @staticmethod
    def reattributed(token: ASRToken, change: ChangeSpeaker) -> ASRToken:
        """Return *token* with the new speaker if it starts within the turn."""
        if token.start < change.start:
            return token
        return attrs.evolve(token, speaker=change.speaker)

    def _speaker_at(self, time: float) -> int | str | None:
        speaker: int | str | None = None
        for turn in self._turns:
            if turn.start <= time:
                speaker = turn.speaker
        return speaker

    def _placed(self, word: Word, utterance: Utterance, floor: float, *, is_seam: bool) -> ASRToken:
        latest = max(utterance.origin, utterance.end - LAST_MOMENT)
        start = max(floor, min(utterance.origin + word.start, latest))
        end = max(start, min(utterance.origin + word.end, utterance.end))
        return ASRToken(
            start=start,
            end=end,
            text=joined(self.prompt_tail, word.text) if is_seam else word.text,
            probability=word.probability,
            speaker=self._speaker_at(start),
            detected_language=utterance.language,
        )
