"""The dialect of vLLM: texts of steps, of which counting makes words with times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE
from wlk_core.streaming import joined
from wlk_realtime.engine.exchange import Decoded
from wlk_realtime.engine.messages import (
    ServerMessageError,
    ServerRefusalError,
    parse,
    shortened,
)
from wlk_realtime.engine.pieces import AudioPieces
from wlk_realtime.engine.rotation import STEP_SAMPLES
from wlk_realtime.engine.untimed_words import UntimedWords
from wlk_realtime.engine.vllm.messages import (
    FINAL,
    START,
    append,
    delta_of,
    done_of,
    refusal_of,
    update,
)
from wlk_realtime.engine.vllm.step_words import StepWords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.plugins import Word
    from wlk_realtime.engine.pieces import Part
    from wlk_realtime.engine.vllm.messages import Done
    from wlk_realtime.engine.vllm.server import VllmServer

__all__ = ["VllmDialect"]


class _Generation:
    """What was sent for one generation, and what came."""

    def __init__(self, *, is_timed: bool, first_sample: int) -> None:
        self.first_sample = first_sample  # of the session
        self.samples = 0
        self.deltas = 0
        self.timed = StepWords() if is_timed else None
        self.untimed = UntimedWords()

    @property
    def steps(self) -> int:
        """How many steps of audio were sent, the last one padded."""
        return -(-self.samples // STEP_SAMPLES)

    @property
    def pending(self) -> Sequence[Word]:
        """The words that are not final."""
        return self.untimed.over(self.samples) if self.timed is None else self.timed.pending

    def append(self, audio: NDArray[np.float32]) -> None:
        """Note audio that was sent."""
        self.samples += len(audio)
        if self.timed is not None:
            self.timed.append(audio)

    def push(self, text: str) -> Sequence[Word]:
        """Take a text; return the words that it completes."""
        self.deltas += 1
        if self.timed is not None:
            return self.timed.push(text)
        self.untimed.push(text)
        return ()

    def finish(self) -> Sequence[Word]:
        """Return the words that are left."""
        return self.untimed.over(self.samples) if self.timed is None else self.timed.finish()


class VllmDialect:
    """
    A session at vLLM; see docs/realtime.md.

    An utterance is a generation, or several where vLLM's context ends.  Audio that comes after the
    end of one is held until vLLM reports that it is done, because vLLM would drop it.
    """

    def __init__(self, server: VllmServer) -> None:
        self._server = server
        self._is_ready = False
        self._generation: _Generation | None = None
        self._pieces = AudioPieces(server.longest_generation)
        self._sent_samples = 0
        self._words: list[Word] = []
        self._tail = ""  # the last word of the utterance
        self._is_seam = False  # the next word follows words of another generation

    def begin(self) -> list[str]:
        """Return the name of the model, which vLLM does not acknowledge."""
        return [update(self._server.model)]

    @property
    def is_ready(self) -> bool:
        """Whether the server has greeted."""
        return self._is_ready

    @property
    def is_answered(self) -> bool:
        """Whether the texts of all steps came that need no later audio."""
        if not self._pieces.is_idle:
            return False
        generation = self._generation
        if generation is None or not self._server.is_timed:
            return True
        return generation.deltas >= self._server.expected_deltas(generation.steps)

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return appends, and commits where a generation begins or ends."""
        if self._pieces.begins_utterance:
            self._tail = ""
        self._pieces.append(audio, is_last=is_last)
        return self._advance()

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return what was held for it."""
        message = parse(text)
        match message["type"]:
            case "session.created":
                self._is_ready = True
            case "transcription.delta":
                self._add(delta_of(message))
            case "transcription.done":
                self._end(done_of(message))
                return self._advance()
            case "error":
                raise refusal_of(message)
        return []

    def take(self) -> Decoded:
        """Return the words since the last call."""
        words, self._words = tuple(self._words), []
        generation = self._generation
        if generation is None:
            return Decoded(words=words, processed_samples=self._sent_samples)
        samples = generation.samples
        if self._server.is_timed:
            decoded = self._server.decoded_steps(generation.deltas) * STEP_SAMPLES
            samples = min(samples, decoded)
        return Decoded(
            words=words,
            hypothesis=self._of_session(generation, generation.pending),
            processed_samples=generation.first_sample + samples,
        )

    def _advance(self) -> list[str]:
        """Send what can be sent."""
        messages: list[str] = []
        while (part := self._pieces.take()) is not None:
            messages += self._messages(part)
        return messages

    def _messages(self, part: Part) -> list[str]:
        messages: list[str] = []
        generation = self._generation
        if generation is None:
            generation = self._generation = _Generation(
                is_timed=self._server.is_timed, first_sample=self._sent_samples
            )
            messages.append(START)
        if len(part.audio):
            generation.append(part.audio)
            self._sent_samples += len(part.audio)
            # vLLM would leave out the last step of an utterance where it is incomplete
            messages.append(append(np.pad(part.audio, (0, -len(part.audio) % STEP_SAMPLES))))
        return [*messages, FINAL] if part.is_last else messages

    def _add(self, text: str) -> None:
        generation = self._generation
        if generation is None:
            raise ServerMessageError(f"text came without audio, {shortened(text)}")
        words = generation.push(text)
        possible = generation.steps + self._server.extra_steps * self._pieces.is_closed
        if self._server.is_timed and generation.deltas > possible:
            raise ServerMessageError(
                f"text {generation.deltas} came for {generation.steps} steps of 80 ms, "
                f"{shortened(text)}"
            )
        self._commit(generation, words)

    def _end(self, done: Done) -> None:
        generation = self._generation
        if generation is None:
            raise ServerMessageError("the end of a generation came, and none had begun")
        if not self._pieces.is_closed:
            raise ServerRefusalError(
                f"the generation ended by itself after {generation.deltas} texts, as vLLM does at "
                "its max_model_len",
                is_retryable=True,
            )
        expected = generation.steps + self._server.extra_steps
        if self._server.is_timed and {generation.deltas, done.completion_tokens} != {expected}:
            raise ServerMessageError(
                f"{generation.deltas} texts and {done.completion_tokens} tokens came for "
                f"{generation.steps} steps of 80 ms, which are {expected} of each"
            )
        self._commit(generation, generation.finish())
        self._generation = None
        self._pieces.finish()
        self._is_seam = bool(self._tail)

    def _commit(self, generation: _Generation, words: Sequence[Word]) -> None:
        committed = self._of_session(generation, words)
        self._words += committed
        if committed:
            self._tail, self._is_seam = committed[-1].text, False

    def _of_session(self, generation: _Generation, words: Sequence[Word]) -> tuple[Word, ...]:
        """Return *words* of a generation in seconds of the session, joined to those before."""
        shifted = [word.shifted(generation.first_sample / SAMPLE_RATE) for word in words]
        if shifted and self._is_seam and self._tail:
            text = joined(self._tail, shifted[0].text)
            shifted[0] = attrs.evolve(shifted[0], text=text)
        return tuple(shifted)
