"""The openai-api backend: streams over any OpenAI-compatible transcription endpoint."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wlk_core import SAMPLE_RATE, AgreementRecognizer, OnlineStream, OptionError, StreamClosed
from wlk_whisper.api_client import ApiClient
from wlk_whisper.api_endpoint import Endpoint
from wlk_whisper.specs.api import OPENAI_API

if TYPE_CHECKING:
    from types import TracebackType

    from wlk_core import BackendSpec
    from wlk_whisper.api_cost import Cost

__all__ = ["OpenAIBackend"]

logger = logging.getLogger(__name__)


class OpenAIBackend:
    """A model at an endpoint shared by any number of streams; the audio is sent there."""

    def __init__(self, client: ApiClient) -> None:
        self._client: ApiClient | None = client
        self._meter = client.meter  # streams that outlive the backend go on counting

    @classmethod
    def load(
        cls,
        model: str | None,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout_seconds: float = 30.0,
        max_retries: int = 2,
    ) -> OpenAIBackend:
        """
        Prepare a client; nothing is sent before `warmup` or a stream's first audio.

        Raises:
            OptionError: an option cannot be right, or the model is known to give no word times.
            ModelNotFoundError: the model is no name that an endpoint could know.
            BackendUnavailable: there is no key, or the network is switched off.

        """
        name = model or str(OPENAI_API.default_model)
        endpoint = Endpoint.find(base_url, key_variable=api_key_env, model=name)
        if not endpoint.is_encrypted and not endpoint.is_here:
            logger.warning("key and audio go to %s without encryption", endpoint.url)
        client = ApiClient(endpoint, name, timeout_seconds=timeout_seconds, max_retries=max_retries)
        logger.info("audio goes to %s, model %s", endpoint.url, name)
        return cls(client)

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return OPENAI_API

    @property
    def cost(self) -> Cost:
        """
        Requests and seconds of audio that were sent, repeated attempts and warmup included.

        An attempt that no endpoint took is none.  Streams that are open when the backend is closed
        go on counting.
        """
        return self._meter.cost

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        client = self._open()
        OPENAI_API.check_language(language)
        OPENAI_API.check_task(task)
        if task == "translate" and language is not None:
            raise OptionError(
                "openai-api: an endpoint cannot be told the language of what it translates "
                f"(translations take no language), got {language!r}; leave it out, it is heard"
            )
        chosen = OPENAI_API.stream_options(options)
        return OnlineStream(
            lambda: AgreementRecognizer(
                partial(client.transcribe, task=task, is_forced=language is not None),
                language=language,
                prompt=chosen["init_prompt"] or "",
                tick_seconds=chosen["tick_seconds"],
                buffer_seconds=chosen["buffer_seconds"],
            )
        )

    def warmup(self) -> None:
        """
        Send a second of silence: the least that tells whether URL, key and model are right.

        Lists of models would be cheaper, and many compatible servers have none.
        """
        self._open().transcribe(np.zeros(SAMPLE_RATE, np.float32), prompt="", language=None)

    def close(self) -> None:
        """Let go of the client; streams that are open keep it, and its meter, until they close."""
        if self._client is not None:
            sent = self.cost
            logger.info(
                "sent %.1f s of audio in %d requests to %s",
                sent.audio_seconds,
                sent.requests,
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
