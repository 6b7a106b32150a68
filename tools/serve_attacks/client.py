"""
Clients in a process of their own, which the harness kills.

    python client.py URL FOLDER --backend scripted --sessions 5 --seconds 60 --seed 0 --resume ...

Every session has a file in FOLDER, to which each event is appended before the client counts it as
received.  A process that is started with these files goes on with their sessions.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
import json
from pathlib import Path
import random
import signal
from typing import Any

from journal import Journal
from scripts import Script
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Subprotocol

_CHUNKS = (0.01, 0.4)  # seconds of audio
_PATIENCE = 120.0  # seconds for an answer
_LOSSES = {1000, 1005, 1006}  # close codes of a client that goes on
_RESTART = 1012  # close code of a server that ends
_FRAME = b"\x82\xfe\xff\xff\0\0\0\0half of a message"


class Client:
    """One session over as many sockets as it takes."""

    def __init__(
        self, arguments: argparse.Namespace, journal: Journal, stop: asyncio.Event
    ) -> None:
        self._url = arguments.url
        self._journal, self._stop = journal, stop
        self._script = Script(journal.seed, journal.backend, arguments.steady)
        self._source = random.Random()  # noqa: S311 -- chunks, no secrets
        self._sent_messages = 0  # in all sockets, as the server counts them
        self._sample = 0  # the next one to send

    async def run(self) -> None:
        """Speak until the end, however often the socket is lost."""
        is_new = self._journal.token is None
        while not self._journal.is_over:
            query = "wlk_resume=1" if self._script.is_resumable else "intent=transcription"
            protocols = None
            if not is_new:
                query = f"wlk_last_seq={self._journal.last}"
                protocols = [Subprotocol(f"wlk-resume.{self._journal.token}")]
            async with connect(
                f"{self._url}?{query}",
                compression=None,
                max_size=None,
                open_timeout=_PATIENCE,
                subprotocols=protocols,
            ) as socket:
                if is_new:
                    await self._begin(socket)
                elif not await self._resume(socket):
                    return
                is_new = False
                await self._talk(socket)

    async def _begin(self, socket: ClientConnection) -> None:
        self._journal.write(json.loads(await socket.recv()))
        await socket.send(json.dumps(self._script.update))
        self._sent_messages = 1

    async def _resume(self, socket: ClientConnection) -> bool:
        first = json.loads(await asyncio.wait_for(socket.recv(), _PATIENCE))
        if first["type"] != "session.resumed":
            self._journal.write(first)
            return False
        self._sample, self._sent_messages = first["samples"], first["messages"]
        self._journal.forget_commits(after=self._sent_messages)
        if self._sent_messages == 0:  # the socket was lost before the update arrived
            await self._send(socket, json.dumps(self._script.update))
        return True

    async def _talk(self, socket: ClientConnection) -> None:
        reader = asyncio.create_task(self._read(socket))
        writer = asyncio.create_task(self._speak(socket))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if not reader.done() and not self._journal.is_over:  # the last words wait in the socket
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(reader), _PATIENCE)
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
        is_lost = socket.close_code in {None, *_LOSSES}
        if not (is_lost and self._script.is_resumable):
            self._journal.note(closed=socket.close_code)

    async def _read(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for text in socket:
                self._journal.write(json.loads(text))
                if self._note_finish():
                    return

    def _note_finish(self) -> bool:
        """Note and return whether every utterance was ended and completed."""
        is_finished = self._has_sent_all() and self._journal.completed == len(self._commits())
        if is_finished:
            self._journal.note(finished=True)
        return is_finished

    def _commits(self) -> list[int]:
        last = self._journal.last_sample
        return [sample for sample in self._script.commits if last is None or sample <= last] + (
            [last] if last is not None and last not in self._script.commits else []
        )

    def _has_sent_all(self) -> bool:
        return len(self._journal.commits) >= len(self._commits())

    async def _speak(self, socket: ClientConnection) -> None:
        script, journal = self._script, self._journal
        losses = [sample for sample in script.losses if sample >= max(self._sample, 1)]
        clock = asyncio.get_running_loop().time
        began, first = clock(), self._sample
        while not self._has_sent_all():
            if self._stop.is_set() and journal.last_sample is None:
                journal.note(last_sample=next(p for p in script.pauses if p >= self._sample))
            target = self._commits()[len(journal.commits)]
            if self._sample >= target:
                journal.note(commit=self._sent_messages + 1)
                await self._send(socket, '{"type": "input_audio_buffer.commit"}')
                continue
            count = min(target - self._sample, int(16_000 * self._source.uniform(*_CHUNKS)))
            stop = self._sample + max(1, count)
            size = script.sample_bytes
            await self._send(socket, script.data[self._sample * size : stop * size])
            self._sample = stop
            if script.end != "finish" and stop >= script.leaves_at:
                journal.note(left=script.end)
                await self._leave(socket, is_polite=script.end == "close")
                return
            if losses and stop >= losses[0]:
                losses.pop(0)
                await self._leave(socket, is_polite=False)
                return
            due = began + (stop - first) / 16_000 / script.speed
            with suppress(TimeoutError):  # a client that was stopped sends the rest at once
                async with asyncio.timeout(max(0.0, due - clock())):
                    await self._stop.wait()
        self._note_finish()

    async def _send(self, socket: ClientConnection, message: str | bytes) -> None:
        self._sent_messages += 1
        await socket.send(message)

    async def _leave(self, socket: ClientConnection, *, is_polite: bool) -> None:
        if is_polite:
            await socket.close(1000)
            return
        if self._source.choice([True, False]):
            socket.transport.write(_FRAME)
        socket.transport.abort()


async def _slot(arguments: argparse.Namespace, stop: asyncio.Event, seeds: Any, old: Any) -> None:
    """Run one session after another."""
    folder = Path(arguments.folder)
    while old or not stop.is_set():
        if old:
            journal = Journal.resume(old.pop())
        else:
            seed = next(seeds)
            journal = Journal(folder / f"{seed}.jsonl", seed, arguments.backend)
        try:
            await Client(arguments, journal, stop).run()
        except (OSError, WebSocketException) as error:
            journal.note(failed=f"{type(error).__name__}: {error}")
        if "failed" in journal.notes or journal.notes.get("closed") == _RESTART:
            return  # the server ends


async def _main(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    seeds = iter(range(arguments.seed, arguments.seed + 100_000))
    old = [Path(path) for path in arguments.resume]
    await asyncio.gather(*(_slot(arguments, stop, seeds, old) for _ in range(arguments.sessions)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steady", action="store_true", help="do nothing but speak")
    parser.add_argument("--resume", nargs="*", default=[])
    asyncio.run(_main(parser.parse_args()))
