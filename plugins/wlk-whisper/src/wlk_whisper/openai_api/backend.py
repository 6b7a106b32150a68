"""The openai-api backend: streams over any OpenAI-compatible transcription endpoint."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wlk_core import SAMPLE_RATE, AgreementRecognizer, OnlineStream, OptionError, StreamClosed
from wlk_whisper.openai_api.client import ApiClient
from wlk_whisper.openai_api.endpoint import Endpoint

if TYPE_CHECKING:
    from types import TracebackType

    from wlk_core import BackendSpec
    from wlk_whisper.openai_api.usage import Usage

__all__ = ["OpenAIBackend", "load"]

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    timeout_seconds: float = 30.0,
    max_retries: int = 2,
) -> OpenAIBackend:
    """
    Prepare a client; the first request is made by `warmup` or by a stream's first audio.

    Raises:
        OptionError: an option is invalid, or the model has no word times.
        ModelNotFoundError: the model is a directory or, offline, a repository.
        BackendUnavailable: the key is missing, or the network is switched off.

    """
    name = model or str(spec.default_model)
    endpoint = Endpoint.resolve(base_url, key_variable=api_key_env, model=name)
    if not endpoint.is_encrypted and not endpoint.is_local:
        logger.warning("key and audio go to %s without encryption", endpoint.url)
    client = ApiClient(endpoint, name, timeout_seconds=timeout_seconds, max_retries=max_retries)
    logger.info("audio goes to %s, model %s", endpoint.url, name)
    return OpenAIBackend(spec, client)


class OpenAIBackend:
    """A model at an endpoint, shared by any number of streams; the audio is sent there."""

    def __init__(self, spec: BackendSpec, client: ApiClient) -> None:
        self._spec = spec
        self._client: ApiClient | None = client
        self._meter = client.meter  # streams that outlive the backend continue to count

    @property
    def spec(self) -> BackendSpec:
        """The declaration of this backend."""
        return self._spec

    @property
    def usage(self) -> Usage:
        """
        Requests and seconds of audio sent, including repeated attempts and warmup.

        Attempts that did not reach an endpoint are not counted.  Streams that are open when the
        backend is closed continue to count.
        """
        return self._meter.usage

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        client = self._open()
        self._spec.check_language(language)
        self._spec.check_task(task)
        if task == "translate" and language is not None:
            raise OptionError(
                "openai-api: translations take no source language, because endpoints detect it; "
                f"leave the language out, got {language!r}"
            )
        values = self._spec.stream_options(options)
        return OnlineStream(
            lambda: AgreementRecognizer(
                partial(client.transcribe, task=task, is_forced=language is not None),
                language=language,
                prompt=values["init_prompt"] or "",
                tick_seconds=values["tick_seconds"],
                buffer_seconds=values["buffer_seconds"],
            )
        )

    def warmup(self) -> None:
        """
        Send a second of silence, the smallest request that tests URL, key and model.

        A list of models would cost less, but many compatible servers have none.
        """
        self._open().transcribe(np.zeros(SAMPLE_RATE, np.float32), prompt="", language=None)

    def close(self) -> None:
        """Release the client; open streams keep it, and its meter, until they close."""
        if self._client is not None:
            usage = self.usage
            logger.info(
                "sent %.1f s of audio in %d requests to %s",
                usage.audio_seconds,
                usage.requests,
                self._client.endpoint.url,
            )
        self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> ApiClient:
        if self._client is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._client
