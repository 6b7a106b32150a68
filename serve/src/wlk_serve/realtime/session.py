"""A Realtime session in the event loop: its protocol, its streams and the queue of its socket."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError
from wlk_serve.errors import RequestError
from wlk_serve.ops.records import SessionFigures
from wlk_serve.realtime.protocol import RealtimeProtocol
from wlk_serve.realtime.resume import RESUME_SECONDS, ResumeLog, resume_expired
from wlk_serve.realtime.send_queue import SendQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.session.events import Event
    from wlk_serve.models.service import Service
    from wlk_serve.models.stream import ServedStream
    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.realtime.config import RealtimeConfig
    from wlk_serve.realtime.messages import Message
    from wlk_serve.realtime.streams import StreamConfig

__all__ = ["BROKEN", "DONE", "OVERLOADED", "RESTART", "TAKEN_OVER", "RealtimeSession"]

DONE, RESTART, BROKEN, OVERLOADED = 1000, 1012, 1011, 1013  #: close codes of RFC 6455
TAKEN_OVER = 4409  #: another socket resumed the session
_DELIBERATE = {1000, 1001}  # codes with which a client ends its session
_TOKEN_BYTES = 18


class RealtimeSession:
    """
    One session, which one socket at a time is attached to.

    A session that is resumable waits for its client after a loss; any other ends with its socket.

    Args:
        service: opens the streams.
        config: the configuration at the beginning.
        key_id: the key of the client, as `Admission.key_id` writes it.
        limits: how long the session may last and its client be silent; then it ends with all of
            its words.
        usage: what the client has used.
        is_beta: whether messages have the beta shape.
        is_resumable: whether the client asked for a token.
        on_over: called once, when the session takes and decodes nothing any more.
        on_closed: called once after that, when no socket can attach to it any more.

    """

    def __init__(
        self,
        service: Service,
        *,
        config: RealtimeConfig,
        key_id: str,
        limits: Limits,
        usage: Usage,
        is_beta: bool = False,
        is_resumable: bool = False,
        on_over: Callable[[], object],
        on_closed: Callable[[], object],
    ) -> None:
        self._service = service
        self._streams: list[ServedStream] = []
        self._on_over: Callable[[], object] | None = on_over
        self._on_closed: Callable[[], object] | None = on_closed
        self._is_broken = False
        self._usage = usage
        self._outcome = "left"  # how it ended, for the log
        self._queue: SendQueue | None = None  # of the socket that is attached
        self.log = ResumeLog(secrets.token_urlsafe(_TOKEN_BYTES)) if is_resumable else None
        self.close_code = DONE
        self.protocol = RealtimeProtocol(
            service.card,
            new_id=lambda prefix: f"{prefix}_{secrets.token_hex(12)}",
            expires_at=int(time.time() + limits.max_session_seconds),
            is_beta=is_beta,
            config=config,
        )
        self.figures = SessionFigures(
            service.metrics,
            protocol="realtime",
            session_id=self.protocol.session_id,
            key_id=key_id,
        )
        self._loop = asyncio.get_running_loop()
        self._lifetime = self._loop.call_later(limits.max_session_seconds, self._finish)
        self._idle_seconds = limits.idle_seconds
        self._last_message = self._loop.time()
        self._idleness = self._loop.call_later(limits.idle_seconds, self._check_idle)
        self._patience: asyncio.TimerHandle | None = None

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio that wait to be decoded."""
        return sum(stream.backlog_seconds for stream in self._streams)

    def begin(self) -> SendQueue:
        """Attach the first socket; return the queue of its messages."""
        messages = self.protocol.begin()
        if self.log is not None:
            messages = self.log.announce(messages)
        self._queue = SendQueue()
        self._queue.put(messages)
        return self._queue

    def resume(self, last: int) -> SendQueue:
        """
        Attach another socket, whose client received the messages up to number *last*.

        Raises:
            RequestError: the client misses a message that is no longer kept.

        """
        if self.log is None:
            raise resume_expired("the session has no token; open a new one")
        missed = self.log.resume(last, self.protocol.samples)
        if self._queue is not None:
            self._queue.close_with(TAKEN_OVER)
        if self._on_over is not None:
            self._stop_waiting()
        self._last_message = self._loop.time()
        self._queue = SendQueue(missed)
        self._stop_if_over()
        return self._queue

    def detach(self, queue: SendQueue, code: int | None) -> None:
        """
        Detach the socket of *queue*, if it is still attached, and wait for another if one may come.

        A session that is over waits once, because a client that fetches its last words again and
        again would keep it for ever.

        Args:
            queue: what the socket was given when it was attached.
            code: the close code of the client; None where the server closed the socket.

        """
        if queue is not self._queue:
            return  # another socket has taken the session over
        self._queue = None
        own_code = OVERLOADED if queue.is_full else self.close_code
        self._outcome = str(own_code if code is None else code)
        if self.log is None or code in _DELIBERATE:
            self.close()
            return
        if code is None and not queue.is_full:
            self._stop()  # the client may not have received the last words
        elif self._on_over is not None:
            self.figures.set_state("waiting")
        if self._patience is None and self._on_closed is not None:
            self._patience = self._loop.call_later(RESUME_SECONDS / 2, self._wait_on)

    async def receive(self, queue: SendQueue, data: str | bytes) -> None:
        """Apply a message that came through the socket of *queue*; wait where it opens a stream."""
        if queue is not self._queue:
            return  # the client sends it again through its new socket
        self._last_message = self._loop.time()
        message = self.protocol.parse(data)
        opened: ServedStream | WLKError | None = None
        if (config := self.protocol.stream_needed(message)) is not None:
            opened = await self._open_stream(config)
            if queue is not self._queue:
                if not isinstance(opened, WLKError):
                    opened.close()
                return
        before = self.protocol.samples
        self._put(self.protocol.apply(message, opened))
        if self.log is not None:
            self._put(self.log.acknowledge(self.protocol.samples, self.protocol.rate))
        seconds = (self.protocol.samples - before) / self.protocol.rate
        self.figures.add_audio(seconds)
        try:
            key_id = self.figures.key_id
            self._usage.use(key_id, self._last_message, audio_seconds=seconds, size=len(data))
        except RequestError as error:
            self._end_with(error, OVERLOADED)
        self._stop_if_over()

    async def _open_stream(self, config: StreamConfig) -> ServedStream | WLKError:
        """Return a new stream, or why the backend refuses it, which answers the message."""
        try:
            opened = await self._service.open_stream(config, self._handle)
        except WLKError as error:
            return error
        self._streams = [*(old for old in self._streams if old.backlog_seconds), opened]
        return opened

    def end(self) -> None:
        """Take no more audio, deliver the last words and close for a restart of the server."""
        if not self.protocol.is_ending:  # a session that its client ended is complete
            self.close_code = RESTART
        self._finish()

    def _end_with(self, error: RequestError, code: int) -> None:
        """Report *error*, deliver the last words and close with *code*."""
        if not self.protocol.is_ending:
            self.close_code = code
            self._put(self.protocol.report(error))
            self._finish()

    def _check_idle(self) -> None:
        left = self._last_message + self._idle_seconds - self._loop.time()
        if left <= 0 and self._queue is not None:
            message = f"no message came for {self._idle_seconds:g} s; connect again"
            self._end_with(RequestError(message, status=408, code="idle_timeout"), DONE)
            return
        self._idleness = self._loop.call_later(max(left, 1.0), self._check_idle)

    def _wait_on(self) -> None:
        # In two parts: after the process was frozen, a timer ends before any socket is read.
        self._patience = self._loop.call_later(RESUME_SECONDS / 2, self.close)

    def close_unless_waiting(self) -> None:
        """Close the session unless a socket is attached or may come."""
        if self._queue is None and self._patience is None:
            self.close()

    def close(self) -> None:
        """Drop everything; may be called again."""
        self._stop()
        self._stop_waiting()
        if self._on_closed is not None:
            on_closed, self._on_closed = self._on_closed, None
            on_closed()

    def _stop(self) -> None:
        self._lifetime.cancel()
        self._idleness.cancel()
        self.protocol.close()
        if self._on_over is not None:
            on_over, self._on_over = self._on_over, None
            self.figures.finish(self._outcome)
            on_over()

    def _finish(self) -> None:
        """End the audio although its client sends more, perhaps in the middle of a word."""
        if self.log is not None and not self.protocol.is_ending:
            self._put([{"type": "wlk.cut"}])
        self._put(self.protocol.end())
        self._stop_if_over()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._on_over is not None:
                self.figures.set_state("connected")

    def _handle(self, stream: ServedStream, events: list[Event]) -> None:
        self.figures.add_events(events, self.backlog_seconds, stream.commit_times)
        try:
            self._put(self.protocol.handle(stream, events))
        except Exception:
            self.fail()
            raise  # to the scheduler, which logs it
        self._stop_if_over()

    def fail(self) -> None:
        """Close the session because of a defect of the server."""
        self.close_code, self._is_broken = BROKEN, True
        self._stop_if_over()

    def _put(self, messages: list[Message]) -> None:
        if not messages:
            return
        for message in messages:
            if "error" in message:  # of the types `error` and `...failed`
                self.figures.metrics.count_error_code(message["error"]["code"])
        if self.log is not None:
            messages = self.log.number(messages)
        if self._queue is not None:
            self._queue.put(messages)

    def _stop_if_over(self) -> None:
        if self.protocol.is_over or self._is_broken:
            if self.protocol.has_failed:
                self.close_code = BROKEN
            if self._queue is not None:
                self._queue.close()
