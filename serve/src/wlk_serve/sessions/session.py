"""A client's session in the event loop: its protocol, its streams and its socket's queue."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from wlk_core.errors import WLKError
from wlk_serve.blocking_work import LARGE_MESSAGE
from wlk_serve.ops.metrics import SessionFigures
from wlk_serve.protocols.audio import SessionAudio
from wlk_serve.protocols.routes import SessionInfo
from wlk_serve.sessions.messages import (
    RESUME_SECONDS,
    ResumeLog,
    SendQueue,
    encode,
    resume_expired,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping

    from wlk_live.session.events import Event
    from wlk_serve.admission import Limits
    from wlk_serve.models.served_stream import ServedStream
    from wlk_serve.models.service import Service
    from wlk_serve.ops.running import Running
    from wlk_serve.protocols.audio import SegmentEnd
    from wlk_serve.protocols.options import StreamOptions
    from wlk_serve.protocols.routes import HandleEvent, Message, Opening
    from wlk_serve.sessions.messages import Encoded

_LOGGER = logging.getLogger(__name__)

DONE, RESTART, BROKEN, OVERLOADED = 1000, 1012, 1011, 1013  #: close codes of RFC 6455
LOST = 1006  #: stands for the close code of a socket that ended without one
TAKEN_OVER = 4409  #: close code: another socket resumed the session
_DELIBERATE = {1000, 1001}  # close codes with which a client ends its session
# Seconds of undecoded audio at which reading pauses: many, because a ping then waits unread behind
# the audio, and clients that send a whole recording at once may give up after 20 s without a pong.
_MAX_WAITING_SECONDS = 400.0
# Minimum time between openings of a session's streams.  A client that changes options with every
# message would otherwise keep opening threads, and so the GIL, busy: /livez took 87 ms, not 33.
_OPENING_SECONDS = 0.25
#: The type of a message that a socket receives when its client only reads from now on.
END_OF_AUDIO = "wlk.end_of_audio"
# For the last words after the socket is lost: more than the decoding of the largest backlog takes.
_COMPLETION_SECONDS = 900.0
_FROZEN_SECONDS = 1.0  # for reading what arrived while the process was frozen


class MessageSource(Protocol):
    """What a session asks of the socket that it reads."""

    async def receive(self) -> MutableMapping[str, Any]:
        """Wait for the next message, in the form of ASGI, or for `END_OF_AUDIO`."""


@attrs.define(eq=False)
class _Channel:
    """
    Some audio of a session, and what handles its events.

    The channels after the first are counted as sessions, each until it is over; the session ends
    and closes them.
    """

    audio: SessionAudio
    handle: HandleEvent
    next_opening: float  # when its next stream may be opened
    release: Callable[[], object] = lambda: None  # stops counting it as a session
    streams: list[ServedStream] = attrs.field(factory=list)  # those that may have a backlog

    def end(self) -> None:
        """Do nothing: the session ends its channels, and is counted itself."""

    def close(self) -> None:
        """Do nothing, as `end`."""


class ClientSession:
    """
    One session, with at most one attached socket at a time.

    A resumable session waits for its client after a loss; any other ends with its socket, at once
    or, if others read its words, after the last of them.  One that a limit ends still delivers all
    of its words.

    Args:
        occupy: called with what has to be counted: the session, then each further channel; returns
            a function that stops counting it early, and raises RequestError if the server is full.
        on_over: called once, when the session takes and decodes no more audio.
        on_closed: called once after that, when no socket can attach to the session any more.

    """

    def __init__(
        self,
        service: Service,
        opening: Opening,
        *,
        protocol: str,
        key_id: str,
        limits: Limits,
        occupy: Callable[[Running], Callable[[], object]],
        on_over: Callable[[], object],
        on_closed: Callable[[], object],
    ) -> None:
        occupy(self)
        self._service = service
        self._occupy = occupy
        self._on_over: Callable[[], object] | None = on_over
        self._on_closed: Callable[[], object] | None = on_closed
        self._outcome = "left"  # for the log
        self._queue: SendQueue | None = None  # of the attached socket
        self.close_code = DONE
        self.close_reason = ""  #: why the server ends the session, for the client and the log
        self._has_readers = opening.has_readers
        self._only_reads = opening.only_reads
        self._is_defective = False  # whether the protocol raised an error that is not its client's
        token = secrets.token_urlsafe(18) if opening.is_resumable else None
        info = SessionInfo(
            id=f"sess_{secrets.token_hex(12)}",
            card=service.card,
            expires_at=int(time.time() + limits.max_session_seconds),
            resume=None if token is None else (token, RESUME_SECONDS),
            open_channel=self._open_channel,
            send=self._send,
        )
        self._loop = asyncio.get_running_loop()
        self.audio = SessionAudio(opening.options)  #: of the first channel
        self._channels = [_Channel(self.audio, self._handle_first, self._loop.time())]
        self._left_samples = 0  # of channels that ended before the session
        self._protocol = opening.make(self.audio, info)
        self._replaceable = {"wlk.ack", *self._protocol.replaceable}
        self.log = None if token is None else ResumeLog(token, self._replaceable)
        self.figures = SessionFigures(
            metrics=service.metrics, protocol=protocol, session_id=info.id, key_id=key_id
        )
        self._may_have_decoded = asyncio.Event()  # cleared only by a socket that waits for steps
        self._may_have_decoded.set()
        self._lifetime_timer = self._loop.call_later(
            limits.max_session_seconds,
            partial(self._finish, f"longer than {limits.max_session_seconds:g} s"),
        )
        self._idle_seconds = limits.idle_seconds
        self._last_message = self._loop.time()
        self._idle_timer = self._loop.call_later(limits.idle_seconds, self._check_idle)
        self._resume_timer: asyncio.TimerHandle | None = None

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio received and not yet decoded."""
        seconds = 0.0
        for channel in self._channels:
            for stream in channel.streams:
                seconds += stream.backlog_seconds
        return seconds

    @property
    def _waiting(self) -> _Channel | None:
        """The first channel with actions that wait, if any."""
        return next((each for each in self._channels if each.audio.is_waiting), None)

    @property
    def _is_ended(self) -> bool:
        """Whether no channel takes more audio."""
        return all(channel.audio.is_ended for channel in self._channels)

    def _handle_first(self, event: Event | SegmentEnd) -> Iterable[Message]:
        return self._protocol.handle(event)

    def _open_channel(self, options: StreamOptions, handle: HandleEvent) -> SessionAudio:
        channel = _Channel(SessionAudio(options), handle, self._loop.time())
        channel.release = self._occupy(channel)
        self._channels.append(channel)
        return channel.audio

    def _send(self, messages: Iterable[Message]) -> None:
        """Send messages that answer neither the client nor an event."""
        self._put(messages)
        self._stop_if_over()

    def _count_audio(self) -> None:
        samples = sum(channel.audio.samples for channel in self._channels)
        self.figures.count_audio(self._left_samples + samples, self.audio.options.rate)

    def _rewind(self) -> None:
        for channel in self._channels:
            channel.audio.rewind()

    def begin(self) -> SendQueue:
        """Attach the first socket; return its queue."""
        first: list[Encoded] = []  # of any length; the log numbers only later messages
        with self._answering():
            first.extend(map(encode, self._protocol.begin()))
        self._queue = SendQueue(self._replaceable, first)
        self._stop_if_over()
        return self._queue

    def resume(self, last: int) -> SendQueue:
        """
        Attach another socket; its client has received the messages up to number *last*.

        Raises:
            RequestError: the client misses a message that is no longer kept.

        """
        if self.log is None:
            raise resume_expired("the session has no token; open a new one")
        missed = self.log.resume(last, self.audio.samples)
        self._rewind()
        if self._queue is not None:
            self._queue.close(drops=True)
        if self._on_over is not None and self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer = None
            self.figures.set_state("connected")
        self._last_message = self._loop.time()
        self._queue = SendQueue(self._replaceable, missed)
        self._stop_if_over()
        return self._queue

    def detach(self, queue: SendQueue, code: int | None) -> int:
        """
        Detach the socket of *queue*, if it is attached; return the code to close it with.

        *code* is the client's close code, None if the server closes the socket.  A session that is
        over waits for its client only once: one that resumed it again and again would keep it for
        ever.
        """
        if queue is not self._queue:
            return TAKEN_OVER
        self._queue = None
        own_code = self.close_code
        if queue.is_full:
            own_code = OVERLOADED
            self.figures.metrics.send_queue_full.inc()
        self._outcome = str(own_code if code is None else code)
        if code is None and self.close_reason:
            self._outcome += f" ({self.close_reason})"
        if self._has_readers:
            self._finish()
            if self._on_closed is not None:
                self._resume_timer = self._loop.call_later(_COMPLETION_SECONDS, self._give_up)
            return own_code
        self._rewind()
        if self.log is None or code in _DELIBERATE:
            self.close()
            return own_code
        if code is None and not queue.is_full:
            self._stop()  # the client may not have received the last words
        elif self._on_over is not None:
            self.figures.set_state("waiting")
        if self._resume_timer is None and self._on_closed is not None:
            self._resume_timer = self._loop.call_later(RESUME_SECONDS, self._expire)
        return own_code

    def _expire(self) -> None:
        # After a freeze, this overdue timer runs before a resume that arrived in time is read.
        self._resume_timer = self._loop.call_later(_FROZEN_SECONDS, self.close)

    def _give_up(self) -> None:
        _LOGGER.warning("dropped words that were not decoded in %g s", _COMPLETION_SECONDS)
        self.close()

    async def read(self, socket: MessageSource, queue: SendQueue) -> int:
        """Apply the messages of the *socket* of *queue*; return the client's close code."""
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return int(message.get("code", LOST))
            if message["type"] == END_OF_AUDIO:
                self._finish()
                continue  # until the last words are sent
            text = message.get("text")
            await self.receive(queue, message.get("bytes") or b"" if text is None else text)
            await self.give_way(queue)  # `socket.receive` does not yield while messages are queued

    async def receive(self, queue: SendQueue, data: str | bytes) -> None:
        """Apply a message from the socket of *queue*; wait while it opens a stream."""
        is_large = len(data) > LARGE_MESSAGE
        self._last_message = self._loop.time()
        async with self._service.blocking_work.turn() if is_large else nullcontext():
            if queue is not self._queue:
                return  # the client sends it again through its new socket
            with self._answering() as answers:
                try:
                    answers.extend(self._protocol.receive(data))
                except WLKError as error:
                    answers.extend(self._refusal(error))
            self._count_audio()
            self._may_have_decoded.set()  # the message may have dropped audio
        if self._waiting is not None:
            await self._proceed(queue, is_blocking=is_large)
            self._last_message = self._loop.time()
        if self.log is not None and queue is self._queue:
            self._put(self.log.acknowledge(self.audio.samples, self.audio.options.rate))
        if self._is_ended:  # no other message ends a session
            self._stop_if_over()

    async def give_way(self, queue: SendQueue) -> None:
        """Yield to other tasks, and wait while too much is queued for the client or the model."""
        await asyncio.sleep(0)
        # TCP slows down a client that is not read.
        while not queue.has_room.is_set() or self.backlog_seconds > _MAX_WAITING_SECONDS:
            await queue.has_room.wait()
            self._may_have_decoded.clear()  # first, so that no step is missed
            if self.backlog_seconds > _MAX_WAITING_SECONDS:
                await self._may_have_decoded.wait()

    def _after_step(self) -> None:
        """Wake a socket that waits for steps; called in the threads that step the streams."""
        if not self._may_have_decoded.is_set():
            self._loop.call_soon_threadsafe(self._may_have_decoded.set)

    async def _proceed(self, queue: SendQueue, *, is_blocking: bool) -> None:
        """Do what a message left waiting, unless the session ends or changes sockets meanwhile."""
        await asyncio.sleep(0)
        while queue is self._queue and (channel := self._waiting) is not None:
            audio = channel.audio
            try:
                if audio.open_segment is None:
                    await self._open_stream(queue, channel)
                    continue
                async with self._service.blocking_work.turn() if is_blocking else nullcontext():
                    if queue is self._queue:
                        audio.proceed()
                        self._count_audio()
                if audio.is_waiting:
                    is_blocking = True
                    await self.give_way(queue)
            except WLKError as error:
                if queue is self._queue and audio.is_waiting:
                    with self._answering() as answers:
                        answers.extend(self._refusal(error))
                    if audio.drop_waiting():
                        with self._answering() as answers:
                            answers.extend(self._protocol.end())

    def _refusal(self, error: WLKError) -> Iterable[Message]:
        return self._protocol.refuse(self._service.metrics.counted(error))

    async def _open_stream(self, queue: SendQueue, channel: _Channel) -> None:
        audio = channel.audio
        if audio.is_full:
            # An error would end the calls of clients that could have waited for their own words.
            self._may_have_decoded.clear()
            await self._may_have_decoded.wait()
            return  # `_proceed` checks again
        if (seconds := channel.next_opening - self._loop.time()) > 0:
            await asyncio.sleep(seconds)
            return  # `_proceed` checks again: the session may have ended meanwhile
        channel.next_opening = self._loop.time() + _OPENING_SECONDS
        options = audio.options
        opened = await self._service.open_stream(
            options, partial(self._handle, channel), after_step=self._after_step
        )
        if queue is self._queue and audio.is_waiting and options == audio.options:
            channel.streams = [*(old for old in channel.streams if old.backlog_seconds), opened]
            audio.open(opened)
        else:
            opened.close()  # the session ended, or the end of a turn changed the options

    def end(self) -> None:
        """Take no more audio, deliver the last words and close, as the server restarts."""
        if not self._is_ended:  # otherwise the client ended the session, which is complete
            self.close_code = RESTART
        self._finish("the server restarts")

    def _check_idle(self) -> None:
        if self._only_reads:
            return
        now = self._loop.time()
        left = self._last_message + self._idle_seconds - now
        if now - self._idle_timer.when() > _FROZEN_SECONDS:
            left = _FROZEN_SECONDS  # messages that came during a freeze are not read yet
        if left > 0 or self._queue is None or self._waiting is not None:
            self._idle_timer = self._loop.call_later(max(left, 1.0), self._check_idle)
        elif not self._is_ended:
            # No error event: LiveKit's clients end the call on one, but reconnect after a close.
            self.figures.metrics.errors.labels("idle_timeout").inc()
            self._finish(f"idle for {self._idle_seconds:g} s")

    def close_unless_waiting(self) -> None:
        """Close the session unless a socket is attached or can still attach."""
        if self._queue is None and self._resume_timer is None:
            self.close()

    def close(self) -> None:
        """Drop everything; may be called again."""
        self._stop()
        if self._resume_timer is not None:
            self._resume_timer.cancel()
        if self._on_closed is not None:
            on_closed, self._on_closed = self._on_closed, None
            on_closed()

    def _stop(self) -> None:
        self._lifetime_timer.cancel()
        self._idle_timer.cancel()
        for channel in self._channels:
            channel.audio.close()
        self._may_have_decoded.set()
        if self._on_over is not None:
            on_over, self._on_over = self._on_over, None
            self.figures.finish(self._outcome)
            on_over()

    def _finish(self, reason: str = "") -> None:
        """End the audio before its client does, perhaps in the middle of a word."""
        if not self._is_ended:
            self.close_reason = reason
        for channel in self._channels:
            with suppress(WLKError):  # the messages of the end already say that audio was dropped
                channel.audio.take_waiting()
        self._count_audio()
        for channel in self._channels:
            channel.audio.drop_waiting()
        with self._answering() as answers:
            answers.extend(self._protocol.end())
        self._stop_if_over()

    def _handle(self, channel: _Channel, stream: ServedStream, events: list[Event]) -> None:
        self.figures.add_events(events, self.backlog_seconds, stream.commit_times)
        for event in channel.audio.events(stream, events):
            with self._answering() as answers:
                answers.extend(channel.handle(event))
        self._may_have_decoded.set()  # another stream may be opened
        self._stop_if_over()

    @contextmanager
    def _answering(self) -> Iterator[list[Message]]:
        """
        Send what the body, a call of the protocol, puts into the list.

        Whatever it raises ends this session only; a SystemExit would end the event loop.
        """
        answers: list[Message] = []
        try:
            yield answers
            if answers:
                self._put(answers)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if self._is_defective:  # what a defective protocol raises again is the same defect
                return
            self._is_defective = True
            _LOGGER.exception("a session failed")
            self.figures.metrics.errors.labels("internal_error").inc()
            self.fail()

    def fail(self) -> None:
        """Close the session because of a defect in the server."""
        for channel in self._channels:
            channel.audio.has_failed = True
        self._stop_if_over()

    def _put(self, answers: Iterable[Message]) -> None:
        texts = [*map(encode, answers)] if self.log is None else self.log.number(answers)
        if self._queue is not None:
            self._queue.put(texts)

    def _stop_if_over(self) -> None:
        if all(channel.audio.is_over for channel in self._channels):
            if any(channel.audio.has_failed for channel in self._channels):
                self.close_code = BROKEN
            if self._queue is not None:
                self._queue.close()
            elif self._has_readers:
                self.close()
            return
        for channel in self._channels[1:]:
            if channel.audio.is_over and not channel.audio.has_failed:
                self._channels.remove(channel)
                self._left_samples += channel.audio.samples
                channel.release()
