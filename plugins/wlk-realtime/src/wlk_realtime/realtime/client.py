"""The client of one server: its declaration, and the links of all streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendError
from wlk_realtime.engine.exchange import SessionConfig
from wlk_realtime.realtime.declaration import (
    Declaration,
    declaration_of,
    fetch_models,
    is_wlk_serve,
)
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error
from wlk_realtime.realtime.event_loop import EventLoopThread
from wlk_realtime.realtime.greeting import greeted, handshake_of
from wlk_realtime.realtime.link import Link

if TYPE_CHECKING:
    from wlk_realtime.engine.exchange import Answer, Dialect, Request
    from wlk_realtime.realtime.address import Address

__all__ = ["Client"]


class Client:
    """
    Holds the sockets of a backend, in one thread; any thread may call it.

    The thread runs while streams are open.
    """

    def __init__(
        self,
        address: Address,
        *,
        key: str | None,
        key_variable: str,
        timeout_seconds: float,
        dialect: str = "auto",
    ) -> None:
        self.address = address
        self._dialect = dialect
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
            return self._fetched()
        except EXPECTED_ERRORS as error:
            failure = error
        raise backend_error(failure, self.address, key_variable=self._key_variable)

    def _fetched(self) -> Declaration:
        models = fetch_models(self.address, key=self._key, timeout=self._timeout_seconds)
        declaration = declaration_of(models, self.address.model)
        if declaration.has_marks and self._dialect != "vllm":
            return declaration
        if is_wlk_serve(models):
            raise BackendError(
                f"realtime: {self.address.url} lists no model of a wlk-serve"
                + (f" called {self.address.model}" if self.address.model else "")
                + "; check address, key and model, and leave the option dialect out",
                retryable=False,
            )
        handshake = handshake_of(models, self._dialect, model=self.address.model)
        try:
            return self._loop.run(
                greeted(
                    self.address, handshake, key=self._key, timeout_seconds=self._timeout_seconds
                )
            )
        finally:
            self._stop_if_idle()

    def _new_dialect(self, config: SessionConfig) -> Dialect:
        return self.declaration.new_dialect(config, model=self.address.model)

    def open_link(self) -> Link:
        """Return a link for a stream; it connects with its first request."""
        link = Link(
            self.address,
            self._new_dialect,
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
        self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        with self._lock:
            if not self._links:
                self._loop.stop()
