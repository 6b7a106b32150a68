"""A loaded Voxtral model as a backend: from the options of a stream to its recognizer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from wlk_core.plugins import LoadedBackend
from wlk_voxtral.engine import cut_answer
from wlk_voxtral.recognizer import VoxtralRecognizer, silence_features

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_voxtral.engine import VoxtralEngine

__all__ = ["loaded_backend"]


def loaded_backend(
    spec: BackendSpec, engine: VoxtralEngine[Any, Any, Any]
) -> LoadedBackend[VoxtralEngine[Any, Any, Any]]:
    """Return the backend of *spec* around a loaded model."""
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warmup)


def _open_stream(
    engine: VoxtralEngine[Any, Any, Any], config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that makes recognizers; raises OptionError for an untrained delay."""
    settings = engine.settings
    delay_steps = settings.delay_steps(config.options["delay_ms"])
    decode = calls.wrap(
        partial(engine.decode, delay_steps=delay_steps, draft_steps=config.options["draft_steps"]),
        cut=partial(cut_answer, pad_id=settings.tokenizer.pad_id),
    )
    return partial(
        VoxtralRecognizer,
        decode,
        tokenizer=settings.tokenizer,
        delay_steps=delay_steps,
        log_mel=settings.log_mel,
    )


def _warmup(engine: VoxtralEngine[Any, Any, Any], calls: EngineCalls) -> None:
    """Decode a step of silence, which also computes the opening of the default delay."""
    settings = engine.settings
    mel = silence_features(settings.log_mel, 1)
    decode = calls.wrap(engine.decode)
    decode(mel, None, delay_steps=settings.tokenizer.delay_steps, draft_steps=1)
