"""The backend `realtime`: open streams on a model that a server runs."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, LoadedBackend, OptionError, StreamConfig
from wlk_realtime.engine.recognizer import RemoteRecognizer
from wlk_realtime.engine.requests import SessionConfig
from wlk_realtime.realtime.address import Address, ServerAccess, read_key, tls_context
from wlk_realtime.realtime.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, OnlineStream, Recognizer

logger = logging.getLogger(__name__)

# The protocol offers transcription of single streams only.
_NOT_OVER_THE_WIRE = frozenset({"translation", "batching"})
_LOCAL_CAPABILITIES = frozenset({"speaker-turns"})  # the client applies speaker turns itself


class RealtimeBackend(LoadedBackend[Server]):
    """
    A LoadedBackend that declares what its server declares.

    Loading sends nothing; the first stream, `warmup` or `declared` connects to the server.
    """

    def __init__(self, spec: BackendSpec, server: Server, *, model: str | None) -> None:
        super().__init__(spec, server, open_stream=_open_stream, warmup=_warm_up)
        self._model = model
        self._is_declared = False

    def declared(self) -> BackendSpec:
        """
        Return the spec, updated with the declaration of the server.

        Raises:
            BackendError: the server cannot be reached or is not a realtime server.

        """
        declaration = self.engine.declaration
        if not self._is_declared:
            self.spec = attrs.evolve(
                self.spec,
                capabilities=(declaration.capabilities - _NOT_OVER_THE_WIRE) | _LOCAL_CAPABILITIES,
                languages=declaration.languages,
                max_delay=declaration.max_delay,
                bounds=declaration.bounds,
                digit_models=(self._model,)
                if declaration.recognises_digits and self._model is not None
                else (),
            )
            if declaration.vocabulary:
                self.vocabulary = declaration.vocabulary
            self._is_declared = True
        return self.spec

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        self.declared()
        return super().create_processor(language=language, task=task, **options)

    def warmup(self) -> None:
        """Have the server decode a second of silence; see Backend."""
        self.declared()
        super().warmup()


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    api_key_env: str = "WLK_REALTIME_API_KEY",
    ca_file: str | None = None,
    dialect: str = "auto",
    timeout_seconds: float = 30.0,
) -> RealtimeBackend:
    """
    Prepare a backend for the server at the address *model*, without connecting to it.

    Raises:
        ModelNotFoundError: *model* is not the address of a server.
        OptionError: an option is invalid.
        BackendUnavailable: the network is switched off, or the key is malformed.

    """
    address = Address.parse(model)
    access = ServerAccess(
        address=address,
        key=read_key(api_key_env),
        key_variable=api_key_env,
        tls=tls_context(ca_file),
        timeout_seconds=timeout_seconds,
    )
    if not address.is_encrypted and not address.is_local:
        logger.warning("the key and the audio are sent to %s unencrypted", address.url)
    logger.info("audio is sent to %s", address.url)
    return RealtimeBackend(spec, Server(access, dialect=dialect), model=model)


def _open_stream(
    server: Server, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    declaration = server.declaration
    prompt = config.options["prompt"]
    if prompt is not None and not declaration.takes_prompt:
        raise OptionError(
            f"realtime: the backend {declaration.backend} at {server.name} takes no prompt; "
            "leave it out"
        )
    if config.language is not None:
        server.check_language(config.language)
    ask = calls.wrap(server.ask)

    def make_recognizer() -> RemoteRecognizer:
        client = server.open_client()
        return RemoteRecognizer(
            partial(ask, client),
            partial(server.close_client, client),
            config=SessionConfig(language=config.language, prompt=prompt or ""),
            takes_prompt=declaration.takes_prompt,
            can_force="language-forcing" in declaration.capabilities,
        )

    return make_recognizer


def _warm_up(server: Server, calls: EngineCalls) -> None:
    """Have the server decode a second of silence, which tests address, key and model."""
    recognizer = _open_stream(server, StreamConfig(options={"prompt": None}), calls)()
    try:
        recognizer.feed(np.zeros(SAMPLE_RATE, np.float32))
        while recognizer.step(is_last=True) is not None:
            pass
    finally:
        recognizer.close()
