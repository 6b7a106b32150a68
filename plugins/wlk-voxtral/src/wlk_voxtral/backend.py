"""Turn a loaded Voxtral model into a backend, which builds a recognizer for each stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wlk_core.plugins import LoadedBackend
from wlk_voxtral.engine import DecodeRequest, cut_answer
from wlk_voxtral.recognizer import silence_features, voxtral_recognizer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_voxtral.engine import DecodeAnswer, StreamState, VoxtralEngine
    from wlk_voxtral.recognizer import StepDecoder


def loaded_backend(spec: BackendSpec, engine: VoxtralEngine) -> LoadedBackend[VoxtralEngine]:
    """Return the backend of *spec* around a loaded model."""
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warmup)


def _open_stream(
    engine: VoxtralEngine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that creates recognizers; raises OptionError for an untrained delay."""
    checkpoint = engine.checkpoint
    delay_steps = checkpoint.delay_steps(config.options["delay_ms"])
    return partial(
        voxtral_recognizer,
        _step_decoder(engine, calls, delay_steps, config.options["draft_steps"]),
        tokenizer=checkpoint.tokenizer,
        delay_steps=delay_steps,
        log_mel=checkpoint.log_mel,
    )


def _step_decoder(
    engine: VoxtralEngine, calls: EngineCalls, delay_steps: int, draft_steps: int
) -> StepDecoder:
    """Return the engine call of a stream, batched with those of others if the backend can."""
    cut = partial(cut_answer, pad_id=engine.checkpoint.tokenizer.pad_id)
    if not calls.is_batching:
        decode_alone = partial(engine.decode, delay_steps=delay_steps, draft_steps=draft_steps)
        return calls.wrap(decode_alone, cut=cut)
    decode = calls.wrap_batch(engine.decode_batch, cut=cut)

    def decode_steps(mel: NDArray[np.float32], state: StreamState | None) -> DecodeAnswer:
        request: DecodeRequest = DecodeRequest(
            mel=mel, state=state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        answer: DecodeAnswer = decode(request)
        return answer

    return decode_steps


def _warmup(engine: VoxtralEngine, calls: EngineCalls) -> None:
    """Decode a step of silence, which also computes the opening state of the default delay."""
    checkpoint = engine.checkpoint
    mel = silence_features(checkpoint.log_mel, 1)
    _step_decoder(engine, calls, checkpoint.tokenizer.delay_steps, 1)(mel, None)
