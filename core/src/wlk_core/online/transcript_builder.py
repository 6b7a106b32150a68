"""Turn the words of utterances into tokens of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.streaming.words import joined
from wlk_core.tokens import ASRToken, Transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming.words import Word
    from wlk_core.tokens import ChangeSpeaker

PROMPT_TAIL_CHARACTERS = 400  # of the transcript, kept as prompt for the next utterance
LATEST_START = 0.02  # seconds before the end of the audio; no word begins later


@attrs.frozen
class Utterance:
    """Where an utterance lies on the stream clock (seconds), and its language if known."""

    origin: float
    end: float
    language: str | None = None


class TranscriptBuilder:
    """
    Turn committed words into tokens: spacing, order of times and speakers.

    Times satisfy the contract even if a model's times jitter: starts never go back, no token starts
    before the last committed end or before `stable`, and none leaves its utterance.
    """

    def __init__(self) -> None:
        self.prompt_tail = ""  #: the end of the transcript
        self.stable = 0.0  #: no later token starts before this stream time
        self._is_first = True  # the next token is the first of its utterance
        self._turns: list[ChangeSpeaker] = []

    def commit(self, words: Sequence[Word], utterance: Utterance) -> list[ASRToken]:
        """Return *words*, timed in their utterance, as the next tokens of the stream."""
        # Nothing is changed before the end, because a word may be invalid.
        tokens: list[ASRToken] = []
        tail, stable, is_first = self.prompt_tail, self.stable, self._is_first
        for word in words:
            token = self._token(word, utterance, stable, tail=tail if is_first else None)
            tokens.append(token)
            is_first = False
            tail = (tail + token.text)[-PROMPT_TAIL_CHARACTERS:]
            stable = max(stable, min(token.end, utterance.end - LATEST_START))
        self.prompt_tail, self.stable, self._is_first = tail, stable, is_first
        return tokens

    def preview(self, words: Sequence[Word], utterance: Utterance) -> Transcript:
        """Return the hypothesis as it would be committed now; changes nothing."""
        tokens: list[ASRToken] = []
        floor, tail = self.stable, self.prompt_tail if self._is_first else None
        for word in words:
            tokens.append(self._token(word, utterance, floor, tail=tail))
            floor, tail = tokens[-1].start, None
        return Transcript(tuple(tokens))

    def start_utterance(self, time: float) -> None:
        """End the utterance at the stream time *time*: no later token starts before it."""
        self._is_first = True
        self.stable = max(self.stable, time)
        current = [turn for turn in self._turns if turn.start <= time][-1:]
        self._turns = current + [turn for turn in self._turns if turn.start > time]

    def add_turn(self, change: ChangeSpeaker) -> None:
        """Attribute words that start at `change.start` or later to the new speaker."""
        self._turns = [turn for turn in self._turns if turn.start < change.start]
        self._turns.append(change)

    def _token(
        self, word: Word, utterance: Utterance, floor: float, *, tail: str | None
    ) -> ASRToken:
        # *tail* is None except for the first word of an utterance: only between two utterances is a
        # space added, if the script wants one.
        # A word that a model places in its padding would begin in audio that is still to come.
        latest = max(utterance.origin, utterance.end - LATEST_START)
        start = max(floor, min(utterance.origin + word.start, latest))
        end = max(start, min(utterance.origin + word.end, utterance.end))
        speakers = [turn.speaker for turn in self._turns if turn.start <= start]
        return ASRToken(
            start=start,
            end=end,
            text=word.text if tail is None else joined(tail, word.text),
            probability=word.probability,
            speaker=speakers[-1] if speakers else None,
            detected_language=utterance.language,
        )
