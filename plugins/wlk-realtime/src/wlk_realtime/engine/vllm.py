"""
The dialect of vLLM's realtime protocol; vLLM 0.33, vllm/entrypoints/speech_to_text/realtime.

vLLM sends no times.  A natively streaming model emits one token for each step of 80 ms of audio,
and vLLM sends one delta for each token, so counting deltas gives the times of words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE
from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    ServerRefusalError,
    check_length,
    parse,
    shortened,
    to_text,
)
from wlk_realtime.engine.pieces import (
    MAX_UNTIMED_STEPS,
    STEP_SAMPLES,
    AudioPieces,
    Part,
    base64_pcm16,
    untimed_words,
)
from wlk_realtime.engine.requests import Decoded
from wlk_realtime.engine.step_words import StepWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.plugins import Word

# The prompt of a generation: steps of silence, the begin token, and the steps of the delay.
LEFT_PAD_STEPS = 32
_BEGIN_STEPS = 1
_MAX_EXTRA_STEPS = 64  # of padding after the audio; Voxtral has 10
_MIN_GENERATION_STEPS = 125  # ten seconds
# The lengths of two silences: if deltas follow the audio, their numbers differ by as many steps.
_PROBE_STEPS = (4, 12)

#: Begins a generation; while one is running, vLLM ignores it without an answer.
_START = json.dumps({"type": "input_audio_buffer.commit"})
#: Ends the audio of a generation.  vLLM drops audio sent before the generation is done.
_FINAL = json.dumps({"type": "input_audio_buffer.commit", "final": True})
_RETRYABLE = (None, "processing_error")  # other codes reject the request, and would do so again
_QWEN3_ASR = "<asr_text>"  # that model begins each 5 s with "language English<asr_text>"


@attrs.frozen(kw_only=True)
class VllmServer:
    """
    A model at vLLM, as measured by VllmProbe.

    Attributes:
        model: its name at vLLM.
        is_timed: whether generations have one delta for each step of 80 ms, so that counting
            deltas gives times.
        prompt_steps: steps of silence and delay before the first delta.
        extra_steps: deltas of a generation beyond the steps of its audio.
        max_model_len: tokens after which vLLM ends a generation, None if unknown.

    """

    model: str
    is_timed: bool = False
    prompt_steps: int = 0
    extra_steps: int = 0
    max_model_len: int | None = None

    @property
    def delay_steps(self) -> int:
        """Steps by which text lags behind its audio."""
        return self.prompt_steps - LEFT_PAD_STEPS - _BEGIN_STEPS

    @property
    def max_generation_steps(self) -> int | None:
        """Steps of audio that a generation can decode before it is ended; None if unlimited."""
        if not self.is_timed:
            return MAX_UNTIMED_STEPS
        if self.max_model_len is None:
            return None
        return self.max_model_len - self.prompt_steps - self.extra_steps


class VllmProbe:
    """
    Decode two silences of different lengths, and compare the numbers of deltas and tokens.

    Times are available if each generation has as many deltas as tokens, and the longer silence has
    one more for each additional step of 80 ms.  Older versions of vLLM, a --stream-interval above
    1, and models that transcribe whole pieces do not pass.
    """

    def __init__(self, model: str, *, max_model_len: int | None) -> None:
        self._model = model
        self._max_model_len = max_model_len
        self._deltas = 0
        self._counts: list[tuple[int, int | None, int | None]] = []  # deltas, tokens, prompt
        #: the result, None until the probe has ended
        self.server: VllmServer | None = None

    def begin(self) -> list[str]:
        """Return the messages that select the model and send the first silence."""
        return [_update(self._model), *_silence(_PROBE_STEPS[0])]

    @property
    def is_ready(self) -> bool:
        """Whether both silences have been decoded."""
        return self.server is not None

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return the messages to send."""
        message = parse(text)
        match message["type"]:
            case "transcription.delta":
                _delta(message)
                self._deltas += 1
            case "transcription.done" if self.is_ready:
                raise ServerMessageError("a generation ended, but none was running")
            case "transcription.done":
                tokens = _usage(message, "completion_tokens")
                self._counts.append((self._deltas, tokens, _usage(message, "prompt_tokens")))
                self._deltas = 0
                if len(self._counts) < len(_PROBE_STEPS):
                    return _silence(_PROBE_STEPS[len(self._counts)])
                self.server = self._measured_server()
            case "error":
                raise _refusal(message)
        return []

    def _measured_server(self) -> VllmServer:
        (deltas, tokens, prompt), (more_deltas, more_tokens, same_prompt) = self._counts
        server = VllmServer(
            model=self._model,
            is_timed=True,
            prompt_steps=prompt or 0,
            extra_steps=deltas - _PROBE_STEPS[0],
            max_model_len=self._max_model_len,
        )
        is_timed = (
            deltas == tokens
            and more_deltas == more_tokens
            and prompt == same_prompt
            and more_deltas - deltas == _PROBE_STEPS[1] - _PROBE_STEPS[0]
            and 0 <= server.extra_steps <= _MAX_EXTRA_STEPS
            and server.delay_steps > 0
        )
        if not is_timed:
            return VllmServer(model=self._model)
        max_steps = server.max_generation_steps
        if max_steps is not None and max_steps < _MIN_GENERATION_STEPS:
            raise ServerRefusalError(
                f"its max_model_len of {self._max_model_len} tokens allows only "
                f"{max(0, max_steps) * 0.08:.1f} s of audio; start it with --max-model-len 45000",
                is_retryable=False,
            )
        return server


class VllmDialect:
    """
    A session at vLLM; see docs/realtime.md.

    An utterance is one generation, or several if it exceeds vLLM's context.  After the end of a
    generation, audio is queued until vLLM reports that it is done, because vLLM would drop it.
    """

    def __init__(self, server: VllmServer) -> None:
        self._server = server
        self._pieces = AudioPieces(server.max_generation_steps)  # each is a generation
        self._is_generating = False
        self._deltas = 0  # of the generation
        self._text = ""  # of the generation, if it is not timed
        self._timed = StepWords()  # of the generation, if it is
        #: whether the server has sent its greeting
        self.is_ready = False

    def begin(self) -> list[str]:
        """Return the message that selects the model, which vLLM does not acknowledge."""
        return [_update(self._server.model)]

    @property
    def is_answered(self) -> bool:
        """Whether every delta has arrived that needs no later audio."""
        if not self._pieces.is_idle:
            return False
        if not self._is_generating or not self._server.is_timed:
            return True
        # 1 because the encoder needs the beginning of the next step
        return self._deltas >= self._steps - self._server.delay_steps - 1

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return appends, and commits if a generation begins or ends."""
        self._pieces.append(audio, is_last=is_last)
        return self._queued_messages()

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return the queued messages that it allows to send."""
        message = parse(text)
        match message["type"]:
            case "session.created":
                self.is_ready = True
            case "transcription.delta":
                self._add(_delta(message))
            case "transcription.done":
                return self._end(_usage(message, "completion_tokens"))
            case "error":
                raise _refusal(message)
        return []

    def take(self) -> Decoded:
        """Return the words since the last call."""
        pieces = self._pieces
        samples = pieces.samples
        if self._server.is_timed and self._is_generating:
            delay = self._server.delay_steps if self._deltas else 0
            samples = (self._deltas + delay) * STEP_SAMPLES
        return Decoded(
            words=pieces.take_words(),
            hypothesis=pieces.placed(self._timed.pending or self._untimed()),
            processed_samples=pieces.processed(samples),
        )

    @property
    def _steps(self) -> int:
        """The number of steps of audio in the generation, the last one padded."""
        return -(-self._pieces.samples // STEP_SAMPLES)

    def _untimed(self) -> list[Word]:
        return untimed_words(self._text, self._pieces.samples)

    def _queued_messages(self) -> list[str]:
        """Return the messages of all queued audio that can be sent now."""
        return [text for part in self._pieces.parts() for text in self._messages(part)]

    def _messages(self, part: Part) -> list[str]:
        messages: list[str] = []
        if part.is_first:
            self._is_generating, self._deltas, self._text = True, 0, ""
            self._timed = StepWords()
            messages.append(_START)
        if len(part.audio):
            if self._server.is_timed:
                self._timed.append(part.audio)
            # vLLM would drop the last step of an utterance if it were incomplete
            messages.append(_append(np.pad(part.audio, (0, -len(part.audio) % STEP_SAMPLES))))
        return [*messages, _FINAL] if part.is_last else messages

    def _add(self, text: str) -> None:
        if not self._is_generating:
            raise ServerMessageError(f"text came without audio, {shortened(text)}")
        self._deltas += 1
        if not self._server.is_timed:
            self._text = check_length(self._text + text, self._pieces.samples / SAMPLE_RATE)
            return
        possible = self._steps
        if self._pieces.is_closed:
            possible += self._server.extra_steps
        if self._deltas > possible:
            raise ServerMessageError(
                f"got delta {self._deltas} for {self._steps} steps of 80 ms, {shortened(text)}"
            )
        self._pieces.commit(self._timed.push(check_length(text, 0.0)))

    def _end(self, tokens: int | None) -> list[str]:
        if not self._is_generating:
            raise ServerMessageError("a generation ended, but none was running")
        if not self._pieces.is_closed:
            raise ServerRefusalError(
                f"the generation ended early after {self._deltas} deltas, as vLLM does at its "
                "max_model_len",
                is_retryable=True,
            )
        # A different count means that vLLM dropped audio or merged deltas, which makes the times of
        # all later words wrong.
        expected = self._steps + self._server.extra_steps
        if self._server.is_timed and not self._deltas == tokens == expected:
            raise ServerMessageError(
                f"expected {expected} deltas and tokens for {self._steps} steps of 80 ms, "
                f"got {self._deltas} deltas and {tokens} tokens"
            )
        self._pieces.commit(self._timed.finish() if self._server.is_timed else self._untimed())
        self._pieces.finish()
        self._is_generating, self._text = False, ""
        return self._queued_messages()


def _update(model: str) -> str:
    return json.dumps({"type": "session.update", "model": model})


def _append(audio: NDArray[np.float32]) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64_pcm16(audio)})


def _silence(steps: int) -> list[str]:
    return [_START, _append(np.zeros(steps * STEP_SAMPLES, np.float32)), _FINAL]


def _delta(message: Message) -> str:
    """Return the text of a delta, which is empty for most steps."""
    text = to_text(message, "delta")
    if _QWEN3_ASR in text:
        raise ServerRefusalError(
            "the model is Qwen3-ASR, which vLLM transcribes in separate pieces of 5 s, "
            "without times; use --backend qwen3-simul for it",
            is_retryable=False,
        )
    return text


def _usage(message: Message, name: str) -> int | None:
    """Return the count *name* of the usage that vLLM reports for a generation, None if missing."""
    usage = message.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value >= 0 else None


def _refusal(message: Message) -> ServerRefusalError:
    """Return the exception for an `error`, in which vLLM sends a string and OpenAI an object."""
    code = message.get("code")
    return ServerRefusalError(
        f"{shortened(message.get('error'))} ({shortened(code)})", is_retryable=code in _RETRYABLE
    )
