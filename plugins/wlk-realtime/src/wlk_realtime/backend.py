"""Open streams of a model at a server: the backend `realtime`."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, LoadedBackend, OptionError, StreamConfig
from wlk_realtime.engine.recognizer import RemoteRecognizer
from wlk_realtime.engine.requests import SessionConfig
from wlk_realtime.realtime.address import Address, Endpoint, read_key, tls_context
from wlk_realtime.realtime.child import start_children
from wlk_realtime.realtime.child_command import commands_of
from wlk_realtime.realtime.server import Remote
from wlk_realtime.realtime.server_pool import ServerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.plugins import (
        BackendSpec,
        EngineCalls,
        OnlineStream,
        Recognizer,
    )
    from wlk_realtime.realtime.server import Source

__all__ = ["RealtimeBackend", "load"]

logger = logging.getLogger(__name__)

# A server transcribes; what it cannot do for a stream is not declared.
_NOT_OVER_THE_WIRE = frozenset({"translation", "batching"})
_OWN = frozenset({"speaker-turns"})  # turns are applied here


class RealtimeBackend(LoadedBackend[ServerPool]):
    """
    A LoadedBackend whose declaration is that of its server, once it was reached.

    Loading sends nothing; the first stream, `warmup` or `declared` reaches the server.
    """

    def __init__(self, spec: BackendSpec, pool: ServerPool, *, model: str | None) -> None:
        super().__init__(
            spec, pool, open_stream=_open_stream, warmup=_warm_up, release=ServerPool.close
        )
        self._model = model
        self._is_declared = False

    def declared(self) -> BackendSpec:
        """
        Return what this backend and its server declare together.

        Raises:
            BackendError: the server cannot be reached or is not a realtime server.

        """
        declaration = self.engine.declaration
        if not self._is_declared:
            self._spec = attrs.evolve(
                self._spec,
                capabilities=(declaration.capabilities - _NOT_OVER_THE_WIRE) | _OWN,
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
        return self._spec

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        self.declared()
        return super().create_processor(language=language, task=task, **options)

    def warmup(self) -> None:
        """Let the server decode a second of silence; see Backend."""
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
    python: str | None = None,
    backend: str | None = None,
    backend_options: str = "",
    start_seconds: float = 300.0,
) -> RealtimeBackend:
    """
    Prepare a client of the servers that *model* names, or start those of *python*.

    Nothing is sent to a server that runs elsewhere.

    Raises:
        ModelNotFoundError: *model* is not the address of a server.
        OptionError: an option is invalid.
        BackendUnavailable: the network is switched off, the key is malformed, or a server of
            *python* does not start.

    """
    sources: Sequence[Source]
    if python is None:
        if backend is not None or backend_options:
            raise OptionError(
                "realtime: backend and backend_options belong to a server of another environment; "
                "name its Python with --option python=/path/to/venv/bin/python"
            )
        sources = _remotes(model, api_key_env=api_key_env, ca_file=ca_file)
    else:
        sources = start_children(
            commands_of(python, backend, model, backend_options), start_seconds=start_seconds
        )
    pool = ServerPool(sources, timeout_seconds=timeout_seconds, dialect=dialect)
    return RealtimeBackend(spec, pool, model=model)


def _remotes(model: str | None, *, api_key_env: str, ca_file: str | None) -> list[Remote]:
    addresses = Address.parse_all(model)
    key = read_key(api_key_env)
    tls = tls_context(ca_file)
    for address in addresses:
        if not address.is_encrypted and not address.is_local:
            logger.warning("key and audio go to %s without encryption", address.url)
        logger.info("audio goes to %s", address.url)
    return [
        Remote(Endpoint(address=address, key=key, tls=tls), key_variable=api_key_env)
        for address in addresses
    ]


def _open_stream(
    pool: ServerPool, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    declaration = pool.declaration
    prompt = config.options["prompt"]
    if prompt is not None and not declaration.takes_prompt:
        raise OptionError(
            f"realtime: the backend {declaration.backend} at {pool.name} takes no prompt; "
            "leave it out"
        )
    if config.language is not None:
        pool.check_language(config.language)
    ask = calls.wrap(pool.ask)

    def make() -> RemoteRecognizer:
        client = pool.open_client()
        return RemoteRecognizer(
            partial(ask, client),
            partial(pool.close_client, client),
            config=SessionConfig(language=config.language, prompt=prompt or ""),
            takes_prompt=declaration.takes_prompt,
            can_force="language-forcing" in declaration.capabilities,
        )

    return make


def _warm_up(pool: ServerPool, calls: EngineCalls) -> None:
    """Let the server decode a second of silence, which tests address, key and model."""
    recognizer = _open_stream(pool, StreamConfig(options={"prompt": None}), calls)()
    try:
        recognizer.feed(np.zeros(SAMPLE_RATE, np.float32))
        while recognizer.step(is_last=True) is not None:
            pass
    finally:
        recognizer.close()
