"""
Test a protocol of any distribution, without sockets, against the rules for all protocols.

    python -m wlk_conformance.protocols my_protocol.tests.client:CLIENT

CLIENT is a `Client`: what a client of the protocol sends and how it reads text.  The rules are
listed in docs/protocols.md.  No model is needed, because the speech is a signal, see `speech`.
The extra ``wlk-conformance[protocols]`` installs what this module imports.
"""

from __future__ import annotations

from collections import deque
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

import attrs
import click
import numpy as np

from wlk_conformance.extras import missing_extra
from wlk_core.errors import BackendError, WLKError
from wlk_core.plugins import BackendSpec, Option
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken, Transcript

try:
    from starlette.datastructures import Headers, QueryParams

    from wlk_live.session import (
        Commit,
        End,
        Endpoint,
        Failure,
        HypothesisChange,
        Marked,
        SpeechStarted,
    )
    from wlk_serve.protocols import (
        Handshake,
        ModelCard,
        RequestError,
        SessionAudio,
        SessionInfo,
        SocketRoute,
        TcpRoute,
        as_request_error,
    )
except ModuleNotFoundError as error:
    explained = missing_extra("protocols", error)
    if __name__ == "__main__":
        sys.exit(str(explained))
    raise explained from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from wlk_live.session import Event
    from wlk_serve.protocols import Message, StreamOptions

_BLOCKS = 10  # blocks per second; each is a word or silence
_PAUSE_BLOCKS = 8  # blocks of silence that end an utterance
_LOUD = 1000  # each sample of word n is this + n
_FULL_SCALE = 32_768  # of 16 bits
_COUNT = 12
_WORDS = [f"w{word}" for word in range(_COUNT)]
#: The model of played sessions, which takes a prompt and recognises English and German.
CARD = ModelCard(
    name="played",
    language="en",
    spec=BackendSpec(
        name="played",
        api=1,
        summary="For tests.",
        load="wlk_conformance.protocols:no",
        languages=("en", "de"),
        capabilities=frozenset({"language-forcing"}),
        options=tuple(Option(name=name, scope="stream") for name in ("prompt", "keyterms")),
    ),
)


def speech(words: Iterable[int | None], rate: int = 16_000) -> bytes:
    """Return 16-bit audio at *rate*, a tenth of a second per word number, None for silence."""
    samples = [0 if word is None else _LOUD + word for word in words]
    return np.repeat(np.array(samples, "<i2"), rate // _BLOCKS).tobytes()


class PlayedStream:
    """A fake stream of a model that recognises `speech`; `take` returns its events."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.is_closed = False
        self._audio: list[float] = []
        self._blocks = 0
        self._silence = _PAUSE_BLOCKS
        self._pending: tuple[ASRToken, ...] = ()
        self.events: deque[Event] = deque()  #: not yet taken

    @property
    def _now(self) -> float:
        return self._blocks / _BLOCKS

    def receive(self, audio: NDArray[np.float32]) -> None:
        """Take audio; a word is committed when the next word or a pause has followed it."""
        self._audio += audio.tolist()
        size = self.options.rate // _BLOCKS
        while len(self._audio) >= size:
            word = round(self._audio[0] * _FULL_SCALE) - _LOUD
            del self._audio[:size]
            start = self._now
            self._blocks += 1
            if word < 0:
                self._silence += 1
                if self._silence == _PAUSE_BLOCKS:
                    self.commit("silence")
                continue
            if self._silence >= _PAUSE_BLOCKS:
                self.events.append(SpeechStarted(start, self._now))
            self._silence = 0
            self._flush()
            self._pending = (ASRToken(start, self._now, f" w{word}", 0.5),)
            self.events.append(HypothesisChange(Transcript(self._pending), self._now))

    def skip(self, seconds: float) -> None:
        """Move the clock on after the end of the utterance."""
        self.commit("silence")
        self._blocks += round(seconds * _BLOCKS)

    def commit(self, reason: Any = "commit") -> None:
        """End the utterance."""
        self._flush()
        self.events.append(Endpoint(self._now, reason, self._now))

    def mark(self, name: str) -> None:
        """Report the state at a mark."""
        self.events.append(
            Marked(
                name=name,
                transcript=Transcript(self._pending),
                processed_up_to=self._now,
                stable_up_to=self._now,
                stats=StreamStats(),
                audio_time=self._now,
            )
        )

    def end_audio(self) -> None:
        """End the stream."""
        self.commit("end")
        self.events.append(End(audio_time=self._now, stats=StreamStats(), latency=None))

    def fail(self) -> None:
        """Report an engine failure that ends the stream."""
        error = BackendError("GPU 0 is lost", retryable=False)
        self.events.append(Failure(error, True, self._now))
        self.events.append(End(audio_time=self._now, stats=StreamStats(), latency=None))

    def take(self) -> list[Event]:
        """Return and forget the pending events."""
        events = [*self.events]
        self.events.clear()
        return events

    def close(self) -> None:
        """Note that the stream is closed."""
        self.is_closed = True

    def _flush(self) -> None:
        if self._pending:
            self.events.append(Commit(self._pending, self._now))
            self._pending = ()
            self.events.append(HypothesisChange(Transcript(()), self._now))


@attrs.frozen(kw_only=True)
class Client:
    """What a client of a protocol sends and reads."""

    route: SocketRoute | TcpRoute
    audio: Callable[[bytes], Sequence[str | bytes]]  #: returns the messages for a part of the audio
    end: Sequence[str | bytes]  #: messages after the audio that end the session
    text: Callable[[Sequence[Message]], str]  #: returns the text in all messages of the server
    query: str = ""  #: of the address, such as "encoding=linear16"
    begin: Sequence[str | bytes] = ()  #: messages before the audio
    rate: int = 16_000  #: samples per second of the audio
    part_bytes: int = 2  #: a part of the audio is a multiple of this size
    has_pauses: bool = True  #: words may follow a pause, unless it ends the session


class SilentStream:
    """A fake stream of a model that emits nothing; `calls` has the calls made on it."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a method that notes its calls, with audio as a number of samples."""

        def call(*arguments: str | float | NDArray[np.float32]) -> None:
            noted = (each if isinstance(each, str | float) else len(each) for each in arguments)
            self.calls.append((name, *noted))

        return call

    def take(self) -> list[Event]:
        """Return no event."""
        return []


class PlayedSession:
    """
    A session of a protocol without sockets; `messages` are all of its answers.

    *stream* is the class of its fake streams: `PlayedStream` or `SilentStream`.
    """

    def __init__(
        self, client: Client, stream: Callable[[StreamOptions], Any] = PlayedStream
    ) -> None:
        if isinstance(client.route, SocketRoute):
            opening: Any = client.route.open(
                Handshake(
                    headers=Headers({}),
                    query=QueryParams(client.query),
                    subprotocols=[],
                    secret=None,
                    card=lambda _name: CARD,
                )
            )
        else:
            opening = client.route.open(lambda _name: CARD)
        self.audio = SessionAudio(opening.options)  #: of the first channel
        self.channels = [self.audio]  #: the audio of all channels
        self._handlers: list[Any] = []  # of the channels after the first
        self._played: list[tuple[SessionAudio, Any]] = []
        self._stream = stream
        self.sent: list[Message] = []  #: pushed with `SessionInfo.send`
        info = SessionInfo(
            id="sess_0", card=CARD, open_channel=self._open_channel, send=self.sent.extend
        )
        self.protocol = opening.make(self.audio, info)
        self.messages: list[Message] = [*self.protocol.begin()]

    @property
    def streams(self) -> list[Any]:
        """The fake streams of all channels, in the order in which they were opened."""
        return [stream for _, stream in self._played]

    def send(self, *messages: str | bytes) -> list[Message]:
        """Pass *messages* and the events they cause to the protocol; return its answers."""
        before = len(self.messages)
        for message in messages:
            try:
                self.messages += self.protocol.receive(message)
            except WLKError as error:
                self.messages += self.protocol.refuse(as_request_error(error))
                for audio in self.channels:
                    audio.drop_waiting()
            for audio in self.channels:
                self._proceed(audio)
            self.happen()
        return self.messages[before:]

    def happen(self, *events: Event) -> list[Message]:
        """Pass *events* and those pending in streams to the protocol; return its answers."""
        before = len(self.messages)
        pending = [(audio, stream, stream.take()) for audio, stream in self._played]
        if events:
            pending.append((self.audio, self.audio.segment.stream, [*events]))
        for audio, stream, taken in pending:
            handlers = [self.protocol.handle, *self._handlers]
            handle = handlers[self.channels.index(audio)]
            for event in audio.events(stream, taken):
                self.messages += handle(event)
        return self.messages[before:]

    def _open_channel(self, options: StreamOptions, handle: Any) -> SessionAudio:
        self.channels.append(SessionAudio(options))
        self._handlers.append(handle)
        return self.channels[-1]

    def _proceed(self, audio: SessionAudio) -> None:
        try:
            while audio.is_waiting:
                if audio.open_segment is None:
                    self._played.append((audio, self._stream(audio.options)))
                    audio.open(self._played[-1][1])
                audio.proceed()
        except WLKError as error:  # a refusal of the model's stream
            self.messages += self.protocol.refuse(as_request_error(error))
            audio.drop_waiting()

    def shut_down(self) -> list[Message]:
        """End the session as a server that shuts down does; return the answers."""
        before = len(self.messages)
        self.messages += self.protocol.end()
        self.happen()
        return self.messages[before:]


def _played(
    client: Client, data: bytes, seconds: float, *, noise: Sequence[str | bytes] = ()
) -> PlayedSession:
    """Play a session without its end, in parts, with a message of *noise* before each part."""
    size = max(1, round(seconds * client.rate * 2 / client.part_bytes)) * client.part_bytes
    session, waiting = PlayedSession(client), deque(noise)
    session.send(*client.begin)
    for start in range(0, len(data), size):
        if waiting:
            session.send(waiting.popleft())
        session.send(*client.audio(data[start : start + size]))
    return session


def _words_of(client: Client, seconds: float, **how: Any) -> list[str]:
    """Return the words received for speech of `_WORDS`, which has some long pauses."""
    numbers: list[int | None] = [None] * 3
    for word in range(_COUNT):
        is_pause = client.has_pauses and word in {4, 9}
        numbers += [word, *[None] * (_PAUSE_BLOCKS + 2 if is_pause else word % 3)]
    session = _played(client, speech(numbers, client.rate), seconds, **how)
    session.send(*client.end)
    return client.text(session.messages).split()


def _has_every_word(client: Client) -> str | None:
    for seconds in (0.001, 0.0301, 0.25, 60.0):
        words = _words_of(client, seconds)
        if words != _WORDS:
            return f"parts of {seconds} s: expected {_WORDS}, got {words}"
    return None


def _takes_anything(client: Client) -> str | None:
    noise: list[str | bytes] = ["", "{", "[]", "{}", '{"type": 1}', "\0", '{"type": "nothing"}']
    noise += ["[" * 100_000, '{"type": ' + "9" * 5000 + "}"]
    if isinstance(client.route, TcpRoute):
        noise = [text.encode() + b"\n" for text in noise if isinstance(text, str)]
    quiet = [text for text in noise if text]  # an empty message ends some sessions
    noise += [*client.begin, *client.end, *client.audio(bytes(3200))] * 3
    for seed in range(20):
        session = PlayedSession(client)
        for number in np.random.default_rng(seed).permutation(len(noise)):
            session.send(noise[number])
        json.dumps(session.messages)
    words = _words_of(client, 0.5, noise=quiet)
    return None if words == _WORDS else f"invalid messages: expected {_WORDS}, got {words}"


def _ends_with_every_word(client: Client) -> str | None:
    session = _played(client, speech([0, 1, 2], client.rate), 0.25)
    session.shut_down()
    session.send(*client.audio(speech([3], client.rate)))  # the client does not know yet
    if not session.audio.is_over:
        return "a shutdown does not end the session"
    words = client.text(session.messages).split()
    if words != _WORDS[:3]:
        return f"a shutdown: expected {_WORDS[:3]}, got {words}"
    return "a second shutdown sends messages" if session.shut_down() else None


def _reports_a_failure(client: Client) -> str | None:
    session = _played(client, speech([0, 1], client.rate), 60.0)
    session.streams[0].fail()
    sent = json.dumps(session.happen())
    if "error" not in sent.lower() and "fail" not in sent.lower():
        return f"a failure of the engine is not reported: {sent}"
    return "the cause of a failure is sent, and not only logged" if "GPU" in sent else None


def _answers_a_refusal(client: Client) -> str | None:
    error = RequestError("no place is left", status=503, code="server_overloaded")
    sent = json.dumps([*PlayedSession(client).protocol.refuse(error)])
    return None if str(error) in sent else f"a refusal is not reported: {sent}"


#: The sentence and the check of each rule; a check returns why the rule is broken, or None.
RULES: dict[str, tuple[str, Callable[[Client], str | None]]] = {
    "PRO-01": ("Every word comes once, in its order, however the audio is cut.", _has_every_word),
    "PRO-02": ("No message of a client raises an error or changes its words.", _takes_anything),
    "PRO-03": ("A shutdown ends the session with every word.", _ends_with_every_word),
    "PRO-04": ("A failure of the engine is reported without its cause.", _reports_a_failure),
    "PRO-05": ("A limit of the server is reported.", _answers_a_refusal),
}


def broken_rules(client: Client) -> dict[str, str]:
    """Return why each broken rule is broken, by its id; empty if all are kept."""
    broken = {}
    for name, (_, check) in RULES.items():
        try:
            problem = check(client)
        except Exception as error:  # noqa: BLE001 -- the suite's runner: a protocol may raise any
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            broken[name] = problem
    return broken


def main(arguments: Sequence[str]) -> int:
    """Print a line for each rule; return 1 if one is broken."""
    module, _, name = arguments[0].partition(":")
    broken = broken_rules(getattr(importlib.import_module(module), name))
    for rule, (about, _) in RULES.items():
        click.echo(f"{rule} {'BROKEN ' + broken[rule] if rule in broken else 'kept   ' + about}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
