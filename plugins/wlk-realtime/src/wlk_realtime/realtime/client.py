"""The client of a backend: its servers, what they declare together, the links of all streams."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
import logging
import threading
from typing import TYPE_CHECKING
import weakref

from wlk_core.plugins import BackendError
from wlk_realtime.engine.exchange import SessionConfig
from wlk_realtime.engine.messages import ServerMessageError
from wlk_realtime.realtime.declaration import (
    Declaration,
    common_declaration,
    declaration_of,
    fetch_models,
    is_wlk_serve,
)
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error
from wlk_realtime.realtime.event_loop import EventLoopThread
from wlk_realtime.realtime.greeting import greeted, handshake_of
from wlk_realtime.realtime.link import Link
from wlk_realtime.realtime.server import Server, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_realtime.engine.exchange import Answer, Request
    from wlk_realtime.realtime.server import Endpoint, Source

__all__ = ["Client"]

_LOGGER = logging.getLogger(__name__)


class Client:
    """
    Holds the sockets of a backend, in one thread; any thread may call it.

    The thread runs while streams are open.

    Args:
        sources: the servers, one at least; they are closed with the client.
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
        self._links: set[Link] = set()
        self._closing: set[Link] = set()
        self._checked: set[str] = set()  # languages that the models take
        self._declaring = threading.Lock()
        self._declaration: Declaration | None = None
        self._is_closed = False
        # Servers that this process has started end with it, and with a client that is forgotten.
        self._end_sources = weakref.finalize(self, _close_all, tuple(sources))

    @property
    def declaration(self) -> Declaration:
        """
        What all servers declare that can be reached, requested once.

        Raises:
            BackendError: none can be reached, or none is a server that this client can use.

        """
        with self._declaring:
            if self._declaration is None:
                self._declaration = self._declared()
            return self._declaration

    def open_link(self) -> Link:
        """Return a link for a stream; it connects with its first request."""
        link = Link(self._usable, self._admit, timeout_seconds=self._timeout_seconds)
        with self._lock:
            self._links.add(link)
        return link

    def ask(self, link: Link, request: Request) -> Answer:
        """Make a request; see `Link.ask`."""
        return self._loop.run(link.ask(request))

    def check_language(self, language: str) -> None:
        """
        Check with a server that its model can be forced to *language*; once for each.

        Raises:
            OptionError: it cannot.
            BackendError: no answer, see `Link.ask`.

        """
        if language in self._checked:
            return
        link = self.open_link()
        try:
            self._loop.run(link.check(SessionConfig(language=language)))
        finally:
            self.close_link(link)
        self._checked.add(language)

    def close_link(self, link: Link) -> None:
        """Close a link; may be called again."""
        with self._lock:
            if link not in self._links or link in self._closing:
                return
            self._closing.add(link)
        try:
            if link.is_open:
                self._loop.run(link.close())
        finally:
            with self._lock:
                # Not before it is closed: another thread would stop the loop, and cancel this.
                self._links.remove(link)
                self._closing.remove(link)
                if not self._links:
                    self._loop.stop()
        self._end()

    def close(self) -> None:
        """End servers that this process has started, once the last link is closed."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        with self._lock:
            is_idle = not self._links
        if self._is_closed and is_idle:
            self._end_sources()

    def _usable(self) -> list[Server]:
        """Return the servers that declare all that the backend has declared, the best first."""
        return ranked(tuple(server for server in self.servers if not server.is_other))

    def _admit(self, server: Server) -> None:
        """
        Check a server that could not be reached before: the backend has declared without it.

        Raises:
            one of EXPECTED_ERRORS: it cannot be reached, or declares less than the others.

        """
        if server.declaration is not None or len(self.servers) == 1:
            return
        declaration = self._fetched(server.source.endpoint())
        if not declaration.has(self.declaration):
            server.is_other = True
            _LOGGER.warning(
                "%s is left out, because it declares less than %s", server.source.name, self.name
            )
            raise ServerMessageError("less capabilities or languages than the other servers")
        server.declaration = declaration

    def _declared(self) -> Declaration:
        with ThreadPoolExecutor(len(self.servers)) as pool:
            failures = [failure for failure in pool.map(self._reach, self.servers) if failure]
        reached = [server.declaration for server in self.servers if server.declaration is not None]
        if not reached:
            raise failures[0]
        for failure in failures:
            _LOGGER.warning("%s", failure)
        return common_declaration(reached)

    def _reach(self, server: Server) -> BackendError | None:
        """Note what *server* declares; return why that is not possible."""
        source = server.source
        endpoint: Endpoint | None = None
        try:
            endpoint = source.endpoint()
            declaration = self._fetched(endpoint)
        except EXPECTED_ERRORS as error:
            cause = error if endpoint is None else source.diagnosed(error, endpoint)
            return backend_error(cause, source.name, key_variable=source.key_variable)
        if not declaration.has_marks and declaration.server is None:
            model = endpoint.address.model
            return BackendError(
                f"realtime: {source.name} lists no model of a wlk-serve"
                + (f" called {model}" if model else "")
                + "; check address, key and model, and start the server with: wlk-serve",
                retryable=False,
            )
        server.declaration = declaration
        return None

    def _fetched(self, endpoint: Endpoint) -> Declaration:
        models = fetch_models(endpoint, timeout=self._timeout_seconds)
        declaration = declaration_of(models, endpoint.address.model)
        if is_wlk_serve(models) and self._dialect != "vllm":
            return declaration
        handshake = handshake_of(models, self._dialect, model=endpoint.address.model)
        # This runs in a thread without an event loop, see `_declared` and `Link`.
        return asyncio.run(greeted(endpoint, handshake, timeout_seconds=self._timeout_seconds))


def _close_all(sources: Sequence[Source]) -> None:
    for source in sources:
        source.close()
