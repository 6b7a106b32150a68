"""
Count what an append of a Realtime client passes through, from its message to the processor.

A client in this process sends seconds of silence, s16le at 16 kHz, over a socket in memory, and a
thread of the scheduler decodes them with a processor that only counts them.  The first table has
the number of different functions, and how often control goes from one file to another, in the
event loop and in the thread together; `trips.py` counts the same for a session.

Frames are this project's functions on the stack: in the event loop when the session takes the
audio, plus in the thread when it calls the processor.  Copies are allocations of as much memory as
the audio, after the message was decoded from JSON and base64.

The second table has the processor time of this process for each second of audio of many sessions,
without the client's own work; the processor's is next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections import Counter
from contextlib import closing
from itertools import pairwise
import json
from pathlib import Path
import sys
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import attrs
from trips import _folder

from wlk_core.backend import BackendSpec
from wlk_core.processor import SAMPLE_RATE, StreamStats
from wlk_core.tokens import Emission, Transcript
from wlk_serve.admission import Admission, Limits
from wlk_serve.models.service import Service
from wlk_serve.ops.running import RunningSessions
from wlk_serve.protocols import ModelCard
from wlk_serve.realtime.route import routes
from wlk_serve.sessions.sockets import SessionSockets

if TYPE_CHECKING:
    from types import CodeType, FrameType

    import numpy as np
    from numpy.typing import NDArray

PACKAGES = ("wlk_core", "wlk_live", "wlk_serve")
WARM_UP = 2  # seconds of audio before the append that is recorded
CHUNK_SECONDS = 0.05  # of the second table; LiveKit's chunk size
TAKES = "Inbox.put"  # where a session takes audio, in the event loop
DECODES = {"RealtimeProtocol._read", "converted"}  # a message from JSON and base64
WAIT_SECONDS = 0.2  # until the thread is idle again
NOTHING, NO_HYPOTHESIS = (
    Emission((), 0.0, 0.0),
    Transcript(),
)  # of the processor, which finds no word


class Counting:
    """A processor that counts its audio; `on_insert` is called for each chunk."""

    def __init__(self, on_insert: Any) -> None:
        self._on_insert = on_insert
        self._samples = 0
        self._taken = 0
        self.stats = StreamStats()

    @property
    def has_backlog(self) -> bool:
        """Whether audio came since the last call of `process_iter`."""
        return self._taken < self._samples

    def insert_audio_chunk(self, audio: NDArray[np.float32], _end: float | None = None) -> None:
        """Count audio."""
        self._on_insert()
        self._samples += len(audio)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: ARG002, FBT001, FBT002
        """Return no word."""
        self._taken = self._samples
        return NOTHING

    def start_silence(self) -> Emission:
        """Return no word."""
        return self.process_iter()

    def end_silence(self, seconds: float, _offset: float | None = None) -> None:
        """Count a silence as audio."""
        self._samples += round(seconds * SAMPLE_RATE)

    def finish(self) -> Emission:
        """Return no word."""
        return self.process_iter()

    def get_buffer(self) -> Transcript:
        """Return no hypothesis."""
        return NO_HYPOTHESIS

    def close(self) -> None:
        """Do nothing."""


@attrs.frozen
class Backend:
    """A backend whose streams count their audio."""

    on_insert: Any = int

    def create_processor(self, **_options: Any) -> Counting:
        """Open a stream."""
        return Counting(self.on_insert)


class Recorder:
    """Notes the calls of all threads, or the memory that their lines allocate, while `is_on`."""

    def __init__(self) -> None:
        self.folders = {name: f"{_folder(name)}/" for name in PACKAGES}
        self.is_on = False
        self.functions: set[CodeType] = set()
        self.files: dict[int, list[str]] = {}  # in which control was, by thread
        self.stacks: dict[str, list[str]] = {}  # by place, from the innermost call
        self.copies: Counter[str] = Counter()  # by line
        self._open_calls: dict[int, list[str]] = {}
        self._held = 0  # bytes at the last event
        self._line = ""  # since then

    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(tuple(self.folders.values()))

    def note_stack(self, place: str = "processor") -> None:
        """Note the functions on the stack, once for each place."""
        if self.is_on and place not in self.stacks:
            frame: FrameType | None = sys._getframe()  # noqa: SLF001 -- there is no other way
            stack = []
            while frame is not None:
                if self._is_ours(frame):
                    stack.append(frame.f_code.co_qualname)
                frame = frame.f_back
            self.stacks[place] = stack

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call or a return."""
        if not self.is_on or not self._is_ours(frame):
            return
        code, thread = frame.f_code, threading.get_ident()
        files = self.files.setdefault(thread, [])
        open_calls = self._open_calls.setdefault(thread, [])
        if event == "call":
            self.functions.add(code)
            open_calls.append(code.co_filename)
            files.append(code.co_filename)
            if code.co_qualname == TAKES:
                self.note_stack("session")
        elif event == "return" and open_calls:  # empty if the call was before the recording
            open_calls.pop()
            files += open_calls[-1:]

    def trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Note how often the line before this event has allocated as much memory as the audio."""
        if self.is_on:
            held, peak = tracemalloc.get_traced_memory()
            # A sample has two bytes, or four as float32.
            allocated = max(0, peak - self._held) / (2 * SAMPLE_RATE)
            if self._line and allocated >= 1:
                self.copies[self._line] += round(allocated / 2 + 0.01)
            tracemalloc.reset_peak()
            self._held = held
            code = frame.f_code
            is_counted = code.co_qualname not in DECODES and not self._decodes(frame)
            self._line = f"{Path(code.co_filename).name}:{frame.f_lineno}" if is_counted else ""
        return self.trace

    @staticmethod
    def _decodes(frame: FrameType) -> bool:
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_qualname in DECODES or at.f_code.co_filename == __file__:
                return True
            at = at.f_back if at.f_code.co_name != "_run" else None
        return False

    def count(self, package: str = "") -> tuple[int, int]:
        """Return the functions of *package*, or of all, and how often control went to its files."""
        folder = self.folders.get(package, "")
        changes = [
            after
            for files in self.files.values()
            for before, after in pairwise(files)
            if before != after and after.startswith(folder)
        ]
        names = [code.co_filename for code in self.functions]
        return sum(name.startswith(folder) for name in names), len(changes)


@attrs.define
class Socket:
    """A WebSocket in memory, with the methods that the server's sessions use."""

    scope: dict[str, Any] = attrs.field(factory=dict)
    headers: dict[str, str] = attrs.field(factory=dict)
    query_params: dict[str, str] = attrs.field(factory=dict)
    incoming: asyncio.Queue[dict[str, Any]] = attrs.field(factory=asyncio.Queue)
    sent: list[str] = attrs.field(factory=list)
    _is_busy: bool = False

    async def accept(self, _subprotocol: str | None = None) -> None:
        """Accept the client."""

    async def receive(self) -> dict[str, Any]:
        """Return the next message of the client; the last one is done."""
        if self._is_busy:
            self.incoming.task_done()
        self._is_busy = True
        return await self.incoming.get()

    async def send_text(self, text: str) -> None:
        """Keep what the server sends."""
        if '"type": "error"' in text:
            raise SystemExit(f"the server refused a message: {text}")
        self.sent.append(text)

    async def close(self, _code: int = 1000) -> None:
        """Close the socket."""

    def send(self, text: str) -> None:
        """Send a message of the client."""
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})


def append_of(samples: int) -> str:
    """Return an append of silence."""
    audio = base64.b64encode(bytes(2 * samples)).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio})


def update(*, has_gate: bool) -> str:
    """Return the message that asks for 16 kHz, and for voice activity detection or none at all."""
    audio: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": SAMPLE_RATE}}
    session: dict[str, Any] = {"audio": {"input": audio}}
    if not has_gate:
        audio["turn_detection"] = None
        session["include"] = ["wlk.marks"]  # the client may have its own gate
    return json.dumps({"type": "session.update", "session": session})


class Door:
    """The server's side of *count* Realtime clients, whose sockets are in memory."""

    def __init__(self, service: Service, count: int, *, has_gate: bool) -> None:
        limits = Limits()
        admission = Admission.of([], [], is_local=True)
        door = SessionSockets(service, admission, RunningSessions(limits), limits)
        self.sockets: list[Any] = [Socket({"subprotocols": []}) for _ in range(count)]
        (route,) = routes()
        self._serving = [asyncio.create_task(door.serve(route, socket)) for socket in self.sockets]
        self._update = update(has_gate=has_gate)

    async def send(self, text: str) -> None:
        """Send a message from each client, and wait until the server has taken all."""
        for socket in self.sockets:
            socket.send(text)
        await asyncio.gather(*(socket.incoming.join() for socket in self.sockets))

    async def begin(self) -> None:
        """Configure each session, and open its stream."""
        await self.send(self._update)
        await self.send(append_of(SAMPLE_RATE))

    async def end(self) -> None:
        """Let each client leave."""
        for socket in self.sockets:
            socket.incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.gather(*self._serving)


def service_of(on_insert: Any = int) -> Service:
    """Return a service with one thread that steps sessions."""
    spec = BackendSpec(
        name="counting", api=1, summary="counts", load="serve_trips:Backend", max_concurrent_calls=1
    )
    backend: Any = Backend(on_insert)
    return Service(backend, ModelCard(name="counting", spec=spec))


def recorded(*, has_gate: bool, traces: bool) -> Recorder:
    """Record an append of a second: its functions, or with *traces* its copies."""
    recorder = Recorder()

    async def record() -> None:
        with closing(service_of(recorder.note_stack)) as service:
            door = Door(service, 1, has_gate=has_gate)
            await door.begin()
            second = append_of(SAMPLE_RATE)
            for number in range(WARM_UP):
                recorder.is_on = number == WARM_UP - 1
                await door.send(second)
                await asyncio.sleep(WAIT_SECONDS)
            recorder.is_on = False
            await door.end()

    function: Any = recorder.trace if traces else recorder.profile
    here, in_threads = (
        (sys.settrace, threading.settrace) if traces else (sys.setprofile, threading.setprofile)
    )
    if traces:
        tracemalloc.start()
    in_threads(function)
    here(function)
    try:
        asyncio.run(record())
    finally:
        here(None)
        in_threads(None)  # type: ignore[arg-type]  # it takes None, as sys.settrace does
        tracemalloc.stop()
    return recorder


def cpu_seconds(sessions: int, seconds: float, *, has_gate: bool) -> float:
    """Return the processor time of a second of audio of one session, among *sessions*."""

    async def measure() -> float:
        with closing(service_of()) as service:
            door = Door(service, sessions, has_gate=has_gate)
            await door.begin()
            chunk = append_of(round(CHUNK_SECONDS * SAMPLE_RATE))
            await asyncio.sleep(WAIT_SECONDS)
            began = time.process_time()
            for _ in range(round(seconds / CHUNK_SECONDS)):
                await door.send(chunk)
            await asyncio.sleep(WAIT_SECONDS)
            cpu = time.process_time() - began
            await door.end()
        return cpu

    return asyncio.run(measure()) / (sessions * seconds)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=24, help="of the second table")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of them")
    parser.add_argument("--names", action="store_true", help="print all that was counted")
    arguments = parser.parse_args()
    gates = {"no gate": False, "server_vad": True}
    for name, has_gate in gates.items():
        calls = recorded(has_gate=has_gate, traces=False)
        copies = recorded(has_gate=has_gate, traces=True).copies
        print(f"{name:12} functions  changes of file")
        for package in (*PACKAGES, "all"):
            functions, changes = calls.count(package)
            print(f"  {package:10} {functions:9} {changes:16}")
        frames = {place: len(stack) for place, stack in calls.stacks.items()}
        print(f"  frames {sum(frames.values())} {frames}, copies {copies.total()}", flush=True)
        if arguments.names:
            for place, stack in calls.stacks.items():
                print(f"    {place}: {' < '.join(stack)}")
            print(f"    copies: {dict(copies)}")
            for code in sorted(calls.functions, key=lambda code: code.co_filename):
                print(f"    {Path(code.co_filename).name} {code.co_qualname}")
    for name, has_gate in gates.items():
        cpu = cpu_seconds(arguments.sessions, arguments.seconds, has_gate=has_gate)
        print(
            f"{arguments.sessions} sessions, {name}, chunks of {1000 * CHUNK_SECONDS:.0f} ms: "
            f"{1000 * cpu:.2f} ms of processor time a second of audio",
            flush=True,
        )


if __name__ == "__main__":
    main()
