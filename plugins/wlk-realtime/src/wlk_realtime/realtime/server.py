"""The server of a backend: what it declares, and the clients of all streams."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.plugins import BackendError, OptionError
from wlk_realtime.engine.messages import ServerRefusalError
from wlk_realtime.engine.pieces import STEP_SAMPLES
from wlk_realtime.engine.requests import Request, SessionConfig
from wlk_realtime.realtime.declaration import fetch_declaration
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error
from wlk_realtime.realtime.event_loop import EventLoopThread
from wlk_realtime.realtime.reconnecting_client import ReconnectingClient

if TYPE_CHECKING:
    from wlk_realtime.engine.requests import Decoded
    from wlk_realtime.realtime.address import Endpoint
    from wlk_realtime.realtime.declaration import Declaration

__all__ = ["Server"]


class Server:
    """
    Holds the sockets of a backend, in one thread; any thread may call it.

    The thread runs while streams are open.

    Args:
        endpoint: where the server listens.
        dialect: the messages that the server must speak, "auto" for any.

    """

    def __init__(self, endpoint: Endpoint, *, dialect: str = "auto") -> None:
        self.name = endpoint.address.url
        self._endpoint = endpoint
        self._dialect = dialect
        self._loop = EventLoopThread("wlk-realtime")
        self._lock = threading.Lock()
        self._clients: set[ReconnectingClient] = set()
        self._closing: set[ReconnectingClient] = set()
        self._checked: set[str] = set()  # languages that the model takes
        self._declaring = threading.Lock()
        self._declaration: Declaration | None = None

    @property
    def declaration(self) -> Declaration:
        """
        What the server declares, requested once.

        Raises:
            BackendError: it cannot be reached, or this backend cannot use it.

        """
        with self._declaring:
            if self._declaration is None:
                self._declaration = self._fetch_declaration()
            return self._declaration

    def _fetch_declaration(self) -> Declaration:
        async def fetch() -> Declaration | None:
            async with asyncio.timeout(self._endpoint.timeout_seconds):  # however slowly it answers
                return await fetch_declaration(self._endpoint, self._dialect)

        try:
            declaration = self._loop.run(fetch())
        except EXPECTED_ERRORS as error:
            raise backend_error(error, self._endpoint) from error
        finally:
            self._loop.stop()  # no stream is open yet: each needs the declaration
        if declaration is None:
            model = self._endpoint.address.model
            raise BackendError(
                f"realtime: {self.name} lists no model of a wlk-serve"
                + (f" called {model}" if model else "")
                + "; check address, key and model, and start the server with: wlk-serve",
                retryable=False,
            )
        return declaration

    def open_client(self) -> ReconnectingClient:
        """Return a client for a stream; it connects with its first request."""
        client = ReconnectingClient(self._endpoint, self.declaration)
        with self._lock:
            self._clients.add(client)
        return client

    def ask(self, client: ReconnectingClient, request: Request) -> Decoded:
        """Make a request; see `ReconnectingClient.ask`."""
        return self._loop.run(client.ask(request))

    def check_language(self, language: str) -> None:
        """
        Check with the server that its model can be forced to *language*; once for each.

        A backend declares the languages of all of its models, and the one that runs may lack some.

        Raises:
            OptionError: it cannot.
            BackendError: no answer, see `ReconnectingClient.ask`.

        """
        if language in self._checked:
            return
        a_step = Request(  # of silence, after which the server has opened a stream of its model
            utterance=0,
            first=0,
            stop=STEP_SAMPLES,
            is_last=False,
            audio=lambda start, stop: np.zeros(stop - start, np.float32),
            config=SessionConfig(language=language),
        )
        client = self.open_client()
        try:
            self.ask(client, a_step)
        except BackendError as error:
            refusal = error.__cause__
            if not isinstance(refusal, ServerRefusalError) or refusal.is_retryable:
                raise
            raise OptionError(str(error)) from None
        finally:
            self.close_client(client)
        self._checked.add(language)

    def close_client(self, client: ReconnectingClient) -> None:
        """Close the client of a stream; may be called again."""
        with self._lock:
            if client not in self._clients or client in self._closing:
                return
            self._closing.add(client)
        try:
            if client.is_open:
                self._loop.run(client.close())
        finally:
            with self._lock:
                # Not before it is closed: another thread would stop the loop, and cancel this.
                self._clients.remove(client)
                self._closing.remove(client)
                if not self._clients:
                    self._loop.stop()
