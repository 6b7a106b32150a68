"""The openai-api backend: streams over any OpenAI-compatible transcription server."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.plugins import SAMPLE_RATE, LoadedBackend, OptionError
from wlk_whisper.backend import window_recognizer
from wlk_whisper.openai_api.client import ApiAddress, ApiClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

logger = logging.getLogger(__name__)

_BUFFER_SECONDS = 8.0  # four ticks


def load(
    spec: BackendSpec,
    model: str,
    *,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    timeout_seconds: float = 30.0,
    max_retries: int = 3,
) -> LoadedBackend[ApiClient]:
    """
    Prepare a client; the first request is made by `warmup` or by a stream's first audio.

    Raises:
        OptionError: an option is invalid, or the model has no word times.
        ModelNotFoundError: the model is a directory or, offline, a repository.
        BackendUnavailable: the key is missing, or the network is switched off.

    """
    address = ApiAddress.resolve(base_url, key_variable=api_key_env, model=model)
    if address.url.startswith("http:") and not address.is_local:
        logger.warning("the key and the audio are sent to %s unencrypted", address.url)
    client = ApiClient(address, model, timeout_seconds=timeout_seconds, max_retries=max_retries)
    logger.info("audio is sent to %s, model %s", address.url, model)
    return LoadedBackend(spec, client, open_stream=_open_stream, warmup=_warm_up)


def _open_stream(
    client: ApiClient, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    if config.task == "translate" and config.language is not None:
        raise OptionError(
            "openai-api: translations take no source language, because servers detect it; "
            f"leave the language out, got {config.language!r}"
        )
    call = calls.wrap(
        partial(
            client.transcribe,
            task=config.task,
            is_forced=config.language is not None,
            keyterms=config.options["keyterms"] or "",
        )
    )
    return window_recognizer(call, config, buffer_seconds=_BUFFER_SECONDS)


def _warm_up(client: ApiClient, calls: EngineCalls) -> None:
    """
    Send a second of silence, the smallest request that tests the URL, the key and the model.

    A list of models would cost less, but many compatible servers have none.
    """
    calls.wrap(client.transcribe)(np.zeros(SAMPLE_RATE, np.float32), prompt="", language=None)
