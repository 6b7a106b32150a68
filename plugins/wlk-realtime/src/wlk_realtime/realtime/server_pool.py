"""The servers of a backend: what they declare together, and the clients of all streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import logging
import threading
from typing import TYPE_CHECKING
import weakref

import numpy as np

from wlk_core.plugins import BackendError, OptionError
from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.pieces import STEP_SAMPLES
from wlk_realtime.engine.requests import Request, SessionConfig
from wlk_realtime.realtime.declaration import common_declaration, fetch_declaration
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error
from wlk_realtime.realtime.event_loop import EventLoopThread
from wlk_realtime.realtime.reconnecting_client import ReconnectingClient
from wlk_realtime.realtime.server import Server, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_realtime.engine.requests import Decoded
    from wlk_realtime.realtime.address import Endpoint
    from wlk_realtime.realtime.declaration import Declaration
    from wlk_realtime.realtime.server import Source

__all__ = ["ServerPool"]

_LOGGER = logging.getLogger(__name__)


class ServerPool:
    """
    Holds the sockets of a backend, in one thread; any thread may call it.

    The thread runs while streams are open.

    Args:
        sources: the servers, one at least; they are closed with the pool.
        timeout_seconds: the time of a request, connecting included.
        dialect: the messages that a server must speak, "auto" for any.

    """

    def __init__(
        self, sources: Sequence[Source], *, timeout_seconds: float, dialect: str = "auto"
    ) -> None:
        self._dialect = dialect
        self.servers = tuple(map(Server, sources))
        self.name = ", ".join(source.name for source in sources)
        self._timeout_seconds = timeout_seconds
        self._loop = EventLoopThread("wlk-realtime")
        self._lock = threading.Lock()
        self._clients: set[ReconnectingClient] = set()
        self._closing: set[ReconnectingClient] = set()
        self._checked: set[str] = set()  # languages that the models take
        self._declaring = threading.Lock()
        self._declaration: Declaration | None = None
        self._is_closed = False
        # Servers that this process has started end with it, and with a pool that is forgotten.
        self._end_sources = weakref.finalize(self, _close_all, tuple(sources))

    @property
    def declaration(self) -> Declaration:
        """
        What all servers declare that can be reached, requested once.

        Raises:
            BackendError: none can be reached, or none is a server that this backend can use.

        """
        with self._declaring:
            if self._declaration is None:
                with ThreadPoolExecutor(len(self.servers)) as pool:
                    failures = [error for error in pool.map(self._reach, self.servers) if error]
                reached = [server.declaration for server in self.servers if server.declaration]
                if not reached:
                    raise failures[0]
                for failure in failures:
                    _LOGGER.warning("%s", failure)
                self._declaration = common_declaration(reached)
            return self._declaration

    def open_client(self) -> ReconnectingClient:
        """Return a client for a stream; it connects with its first request."""
        client = ReconnectingClient(
            lambda: ranked(server for server in self.servers if not server.is_excluded),
            self._admit,
            timeout_seconds=self._timeout_seconds,
        )
        with self._lock:
            self._clients.add(client)
        return client

    def ask(self, client: ReconnectingClient, request: Request) -> Decoded:
        """Make a request; see `ReconnectingClient.ask`."""
        return self._loop.run(client.ask(request))

    def check_language(self, language: str) -> None:
        """
        Check with a server that its model can be forced to *language*; once for each.

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
        self._end()

    def close(self) -> None:
        """End servers that this process has started, once the last stream is closed."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        with self._lock:
            is_idle = not self._clients
        if self._is_closed and is_idle:
            self._end_sources()

    def _admit(self, server: Server) -> None:
        """
        Check a server that could not be reached before: the backend has declared without it.

        Raises:
            one of EXPECTED_ERRORS: it cannot be reached, or declares less than the others.

        """
        if len(self.servers) == 1:
            return
        declaration = self._fetched(server.source.endpoint())
        if declaration is None or not declaration.has(self.declaration):
            server.is_excluded = True
            _LOGGER.warning(
                "%s is left out, because it declares less than %s", server.source.name, self.name
            )
            raise ServerMessageError("fewer capabilities or languages than the other servers")
        server.declaration = declaration

    def _reach(self, server: Server) -> BackendError | None:
        """Note what *server* declares; return why that is not possible."""
        source = server.source
        endpoint: Endpoint | None = None
        try:
            endpoint = source.endpoint()
            server.declaration = self._fetched(endpoint)
        except EXPECTED_ERRORS as error:
            cause = error if endpoint is None else source.explain_failure(error, endpoint)
            return backend_error(cause, source.name, endpoint, key_variable=source.key_variable)
        if server.declaration is not None:
            return None
        model = endpoint.address.model
        return BackendError(
            f"realtime: {source.name} lists no model of a wlk-serve"
            + (f" called {model}" if model else "")
            + "; check address, key and model, and start the server with: wlk-serve",
            retryable=False,
        )

    def _fetched(self, endpoint: Endpoint) -> Declaration | None:
        return fetch_declaration(endpoint, dialect=self._dialect, timeout=self._timeout_seconds)


def _close_all(sources: Sequence[Source]) -> None:
    for source in sources:
        source.close()
