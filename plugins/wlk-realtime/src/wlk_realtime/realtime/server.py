"""Fetch what a server declares, and run the clients of all its streams in one thread."""

from __future__ import annotations

import asyncio
from functools import partial
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.plugins import BackendError, OptionError
from wlk_realtime.engine.messages import ServerRefusalError
from wlk_realtime.engine.pieces import STEP_SAMPLES
from wlk_realtime.engine.requests import Request, SessionConfig
from wlk_realtime.realtime.connection import ReconnectingClient
from wlk_realtime.realtime.declaration import fetch_declaration
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from wlk_realtime.engine.requests import Decoded
    from wlk_realtime.realtime.address import ServerAccess
    from wlk_realtime.realtime.declaration import Declaration

T = TypeVar("T")
_CANCEL_SECONDS = 2.0  # for cancelled tasks to clean up


class Server:
    """
    The remote server of a backend, whose sockets share one event loop; any thread may call it.

    The thread of the event loop runs while streams are open.

    Args:
        access: how to reach the server.
        dialect: the dialect that the server must speak, "auto" for any.

    """

    def __init__(self, access: ServerAccess, *, dialect: str = "auto") -> None:
        self.name = access.address.url
        self._access = access
        self._dialect = dialect
        self._loop = EventLoopThread("wlk-realtime")
        self._lock = threading.Lock()
        self._clients: set[ReconnectingClient] = set()
        self._closing: set[ReconnectingClient] = set()
        self._checked: set[str] = set()  # languages that the model accepts
        self._declaring = threading.Lock()
        self._declaration: Declaration | None = None

    @property
    def declaration(self) -> Declaration:
        """
        What the server declares, fetched once.

        Raises:
            BackendError: the server cannot be reached, or this backend cannot use it.

        """
        with self._declaring:
            if self._declaration is None:
                self._declaration = self._fetch_declaration()
            return self._declaration

    def _fetch_declaration(self) -> Declaration:
        async def fetch() -> Declaration | None:
            async with asyncio.timeout(self._access.timeout_seconds):
                return await fetch_declaration(self._access, self._dialect)

        try:
            declaration = self._loop.run(fetch())
        except EXPECTED_ERRORS as error:
            raise backend_error(error, self._access) from error
        finally:
            self._loop.stop()  # no stream can be open yet: each needs the declaration
        if declaration is None:
            model = self._access.address.model
            raise BackendError(
                f"realtime: {self.name} lists no wlk-serve model"
                + (f" called {model}" if model else "")
                + "; check address, key and model, and start the server with: wlk-serve",
                retryable=False,
            )
        return declaration

    def open_client(self) -> ReconnectingClient:
        """Return a client for one stream; its first request connects it."""
        new_dialect = partial(self.declaration.new_dialect, model=self._access.address.model)
        client = ReconnectingClient(self._access, new_dialect)
        with self._lock:
            self._clients.add(client)
        return client

    def ask(self, client: ReconnectingClient, request: Request) -> Decoded:
        """Make a request; see `ReconnectingClient.ask`."""
        return self._loop.run(client.ask(request))

    def check_language(self, language: str) -> None:
        """
        Check with the server that its model can be forced to *language*, once per language.

        A backend declares the languages of all its models; the loaded one may support fewer.

        Raises:
            OptionError: the server refuses the language.
            BackendError: the server did not answer, see `ReconnectingClient.ask`.

        """
        if language in self._checked:
            return
        silence = Request(  # one step of it makes the server open a stream in that language
            utterance=0,
            first_sample=0,
            end_sample=STEP_SAMPLES,
            is_last=False,
            audio=lambda start, end: np.zeros(end - start, np.float32),
            config=SessionConfig(language=language),
        )
        client = self.open_client()
        try:
            self.ask(client, silence)
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
                # Only now: an empty set lets another thread stop the loop, which cancels `close`.
                self._clients.remove(client)
                self._closing.remove(client)
                if not self._clients:
                    self._loop.stop()


class EventLoopThread:
    """
    An event loop in its own thread, which the first call starts.

    `run` may be called from any other thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine*, which must have its own timeout, and return its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller was interrupted; no effect if the coroutine itself raised
            raise

    def stop(self) -> None:
        """Cancel running coroutines and end the thread; a later `run` starts another one."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * _CANCEL_SECONDS)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_tasks())
    finally:
        loop.close()


async def _cancel_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
