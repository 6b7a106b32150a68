"""The client of one server: its declaration, and the links of all streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendError
from wlk_realtime.engine.exchange import SessionConfig
from wlk_realtime.realtime.declaration import Declaration, declaration_of, fetch_models
from wlk_realtime.realtime.errors import backend_error
from wlk_realtime.realtime.event_loop import EventLoopThread
from wlk_realtime.realtime.link import Link

if TYPE_CHECKING:
    from wlk_realtime.engine.exchange import Answer, Request
    from wlk_realtime.realtime.address import Address

__all__ = ["Client"]


class Client:
    """
    Holds the sockets of a backend, in one thread; any thread may call it.

    The thread runs while streams are open.
    """

    def __init__(
        self, address: Address, *, key: str | None, key_variable: str, timeout_seconds: float
    ) -> None:
        self.address = address
        self._key = key
        self._key_variable = key_variable
        self._timeout_seconds = timeout_seconds
        self._loop = EventLoopThread("wlk-realtime")
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._checked: set[str] = set()  # languages that the model takes
        self._declaring = threading.Lock()
        self._declaration: Declaration | None = None

    @property
    def declaration(self) -> Declaration:
        """
        What the server declares, requested once.

        Raises:
            BackendError: it cannot be reached, or is no server that this client can use.

        """
        with self._declaring:
            if self._declaration is None:
                self._declaration = self._declared()
            return self._declaration

    def _declared(self) -> Declaration:
        try:
            models = fetch_models(self.address, key=self._key, timeout=self._timeout_seconds)
        except OSError as error:
            failure = error
        else:
            declaration = declaration_of(models, self.address.model)
            if not declaration.has_marks:
                raise BackendError(
                    f"realtime: {self.address.url} lists no model of a wlk-serve"
                    + (f" called {self.address.model}" if self.address.model else "")
                    + "; check address, key and model, and start the server with: wlk-serve",
                    retryable=False,
                )
            return declaration
        raise backend_error(failure, self.address, key_variable=self._key_variable)

    def open_link(self) -> Link:
        """Return a link for a stream; it connects with its first request."""
        link = Link(
            self.address,
            key=self._key,
            key_variable=self._key_variable,
            timeout_seconds=self._timeout_seconds,
        )
        with self._lock:
            self._links.add(link)
        return link

    def ask(self, link: Link, request: Request) -> Answer:
        """Make a request; see `Link.ask`."""
        return self._loop.run(link.ask(request))

    def check_language(self, language: str) -> None:
        """
        Check with the server that its model can be forced to *language*; once for each.

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
            if link not in self._links:
                return
            self._links.remove(link)
        if link.is_open:
            self._loop.run(link.close())
        with self._lock:
            if not self._links:
                self._loop.stop()
