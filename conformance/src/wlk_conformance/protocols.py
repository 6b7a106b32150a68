"""
Prove a protocol of any distribution: its sessions without sockets, and the rules that all keep.

    python -m wlk_conformance.protocols my_protocol.tests.client:CLIENT

CLIENT is a `Client`: what a client of the protocol sends and how it reads text.  The rules are
listed in docs/protocols.md.  The speech is a signal, see `speech`, so that no model is needed.
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
from starlette.datastructures import Headers, QueryParams

from wlk_core.errors import BackendError, WLKError
from wlk_core.plugins import BackendSpec, Option
from wlk_core.processor import StreamStats
from wlk_core.session import Commit, End, Endpoint, Failure, HypothesisChange, Marked, SpeechStarted
from wlk_core.tokens import ASRToken, Transcript
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wlk_core.session import Event
    from wlk_serve.protocols import Message, StreamSettings

_BLOCKS = 10  # of a second; each is a word or silence
_PAUSE_BLOCKS = 8  # after which an utterance is over
_LOUD = 1000  # the sample of word n is n more
_COUNT = 12
_WORDS = [f"w{word}" for word in range(_COUNT)]
#: The model of played sessions, which takes a prompt and speaks English and German.
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
    """Return 16-bit audio at *rate*, a tenth of a second for each number of a word or None."""
    samples = [0 if word is None else _LOUD + word for word in words]
    return np.repeat(np.array(samples, "<i2"), rate // _BLOCKS).tobytes()


class PlayedStream:
    """Stand for the stream of a model that hears `speech`; `take` returns its events."""

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings
        self.is_closed = False
        self._data = bytearray()
        self._blocks = 0
        self._silence = _PAUSE_BLOCKS
        self._pending: tuple[ASRToken, ...] = ()
        self.events: deque[Event] = deque()  #: that were not taken yet

    @property
    def _now(self) -> float:
        return self._blocks / _BLOCKS

    def receive(self, data: bytes) -> None:
        """Hear audio: a word is committed when the next one, or a pause, has come."""
        self._data += data
        size = 2 * (self.settings.rate // _BLOCKS)
        while len(self._data) >= size:
            word = int(np.frombuffer(bytes(self._data[:2]), "<i2")[0]) - _LOUD
            del self._data[:size]
            start, self._blocks = self._now, self._blocks + 1
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

    def commit(self, reason: Any = "commit") -> None:
        """End the utterance."""
        self._flush()
        self.events.append(Endpoint(self._now, reason, self._now))

    def mark(self, name: str) -> None:
        """Answer a mark."""
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
        """Let the engine fail for good."""
        error = BackendError("GPU 0 is lost", retryable=False)
        self.events.append(Failure(error, True, self._now))
        self.events.append(End(audio_time=self._now, stats=StreamStats(), latency=None))

    def take(self) -> list[Event]:
        """Return and forget the events so far."""
        events = [*self.events]
        self.events.clear()
        return events

    def close(self) -> None:
        """Do nothing more."""
        self.is_closed = True

    def _flush(self) -> None:
        if self._pending:
            self.events.append(Commit(self._pending, self._now))
            self._pending = ()
            self.events.append(HypothesisChange(Transcript(()), self._now))


@attrs.frozen(kw_only=True)
class Client:
    """What a client of a protocol does."""

    route: SocketRoute | TcpRoute
    audio: Callable[[bytes], Sequence[str | bytes]]  #: returns the messages of a part of the audio
    end: Sequence[str | bytes]  #: messages after the audio, so that the session ends with its words
    text: Callable[[Sequence[Message]], str]  #: returns the text in all messages of the server
    query: str = ""  #: of its address, as "encoding=linear16"
    begin: Sequence[str | bytes] = ()  #: messages before the audio
    rate: int = 16_000  #: samples a second of the audio
    part_bytes: int = 2  #: a part of the audio has a multiple of these
    has_pauses: bool = True  #: words may follow a pause, where a client of commands has its end


class SilentStream:
    """Stand for the stream of a model of which nothing comes; `calls` are what it was told."""

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a method that notes its call, audio by the number of its bytes."""

        def call(*arguments: str | bytes) -> None:
            noted = (len(each) if isinstance(each, bytes) else each for each in arguments)
            self.calls.append((name, *noted))

        return call

    def take(self) -> list[Event]:
        """Return no event."""
        return []


class PlayedSession:
    """
    A session of a protocol without sockets; `messages` are all of its answers.

    *stream* stands for the streams of the model: `PlayedStream` or `SilentStream`.
    """

    def __init__(
        self, client: Client, stream: Callable[[StreamSettings], Any] = PlayedStream
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
        self.audio = SessionAudio(opening.settings)
        self.protocol = opening.make(self.audio, SessionInfo(id="sess_0", card=CARD))
        self.streams: list[Any] = []
        self._stream = stream
        self.messages: list[Message] = [*self.protocol.begin()]

    def send(self, *messages: str | bytes) -> list[Message]:
        """Let the protocol receive *messages*, and what they make happen; return the answers."""
        before = len(self.messages)
        for message in messages:
            self.messages += self.protocol.receive(message)
            try:
                while self.audio.is_waiting:
                    if self.audio.open_segment is None:
                        self.streams.append(self._stream(self.audio.settings))
                        self.audio.open(self.streams[-1])
                    self.audio.proceed()
            except WLKError as error:  # of the model's stream, as the server hands it on
                self.messages += self.protocol.refuse(as_request_error(error))
                self.audio.drop_waiting()
            self.happen()
        return self.messages[before:]

    def happen(self, *events: Event) -> list[Message]:
        """Let *events*, and those that streams have, happen; return the answers."""
        before = len(self.messages)
        pending = [(stream, stream.take()) for stream in self.streams]
        if events:
            pending.append((self.audio.segment.stream, [*events]))
        for stream, found in pending:
            for event in self.audio.events(stream, found):
                self.messages += self.protocol.handle(event)
        return self.messages[before:]

    def shut_down(self) -> list[Message]:
        """Let the server end the session; return the answers."""
        before = len(self.messages)
        self.messages += self.protocol.end()
        self.happen()
        return self.messages[before:]


def _played(
    client: Client, data: bytes, seconds: float, *, noise: Sequence[str | bytes] = ()
) -> PlayedSession:
    """Play a session up to its end, in parts, with a message of *noise* before each of them."""
    size = max(1, round(seconds * client.rate * 2 / client.part_bytes)) * client.part_bytes
    session, waiting = PlayedSession(client), deque(noise)
    session.send(*client.begin)
    for start in range(0, len(data), size):
        if waiting:
            session.send(waiting.popleft())
        session.send(*client.audio(data[start : start + size]))
    return session


def _words_of(client: Client, seconds: float, **how: Any) -> list[str]:
    """Return the words that come for the speech of `_WORDS`, which has some long pauses."""
    numbers: list[int | None] = [None] * 3
    for word in range(_COUNT):
        is_pause = client.has_pauses and word in {4, 9}
        numbers += [word, *[None] * (_PAUSE_BLOCKS + 2 if is_pause else word % 3)]
    session = _played(client, speech(numbers, client.rate), seconds, **how)
    session.send(*client.end)
    return client.text(session.messages).split()


def _has_every_word(client: Client) -> str | None:
    for seconds in (0.001, 0.0301, 0.25, 60.0):
        found = _words_of(client, seconds)
        if found != _WORDS:
            return f"parts of {seconds} s: expected {_WORDS}, got {found}"
    return None


def _takes_anything(client: Client) -> str | None:
    noise: list[str | bytes] = ["", "{", "[]", "{}", '{"type": 1}', "\0", '{"type": "nothing"}']
    noise += ["[" * 100_000, '{"type": ' + "9" * 5000 + "}"]
    if isinstance(client.route, TcpRoute):
        noise = [text.encode() + b"\n" for text in noise if isinstance(text, str)]
    quiet = [text for text in noise if text]  # an empty message is an end at some
    noise += [*client.begin, *client.end, *client.audio(bytes(3200))] * 3
    for seed in range(20):
        session = PlayedSession(client)
        for number in np.random.default_rng(seed).permutation(len(noise)):
            session.send(noise[number])
        json.dumps(session.messages)
    found = _words_of(client, 0.5, noise=quiet)
    return None if found == _WORDS else f"wrong messages between the audio made {found} of it"


def _ends_with_every_word(client: Client) -> str | None:
    session = _played(client, speech([0, 1, 2], client.rate), 0.25)
    session.shut_down()
    session.send(*client.audio(speech([3], client.rate)))  # its client does not know yet
    if not session.audio.is_over:
        return "a shutdown does not end the session"
    found = client.text(session.messages).split()
    if found != _WORDS[:3]:
        return f"a shutdown makes {found} of {_WORDS[:3]}"
    return "a second shutdown sends messages" if session.shut_down() else None


def _reports_a_failure(client: Client) -> str | None:
    session = _played(client, speech([0, 1], client.rate), 60.0)
    session.streams[0].fail()
    told = json.dumps(session.happen())
    if "error" not in told.lower() and "fail" not in told.lower():
        return f"a failure of the engine is not reported: {told}"
    return "the cause of a failure is for the log" if "GPU" in told else None


def _answers_a_refusal(client: Client) -> str | None:
    error = RequestError("no place is left", status=503, code="server_overloaded")
    told = json.dumps([*PlayedSession(client).protocol.refuse(error)])
    return None if str(error) in told else f"a refusal is not told: {told}"


#: Each rule with what it says and its check, which returns why it is broken, None where it is kept.
RULES: dict[str, tuple[str, Callable[[Client], str | None]]] = {
    "PRO-01": ("Every word comes once, in its order, however the audio is cut.", _has_every_word),
    "PRO-02": ("Nothing that a client sends raises or changes its words.", _takes_anything),
    "PRO-03": ("A shutdown ends the session with every word.", _ends_with_every_word),
    "PRO-04": ("A failure of the engine is reported without its cause.", _reports_a_failure),
    "PRO-05": ("A limit of the server is reported.", _answers_a_refusal),
}


def broken_rules(client: Client) -> dict[str, str]:
    """Return why each broken rule is broken; empty for a protocol that keeps them all."""
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
    """Print a line for each rule; return 1 where one is broken."""
    module, _, name = arguments[0].partition(":")
    broken = broken_rules(getattr(importlib.import_module(module), name))
    for rule, (about, _) in RULES.items():
        click.echo(f"{rule} {'BROKEN ' + broken[rule] if rule in broken else 'kept   ' + about}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
