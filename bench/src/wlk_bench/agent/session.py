"""Speak a conversation to a server in real time, and record when each of its answers arrives."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.agent.protocols import Answer, RefusedSession
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import Resampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from numpy.typing import NDArray

    from wlk_bench.agent.conversation import Conversation
    from wlk_bench.agent.protocols import Client

STAGGER_SECONDS = 3.0  # in which sessions begin, because people do not speak in unison
CHUNK_SECONDS = 0.02  # the frame of WebRTC, which voice agents pass on
_REST_SECONDS = 30.0  # how long to wait for answers after the audio
# Without an answer after the audio, after which none is expected: long, because the final of a
# server that is too slow should count as late, not as missing.
_QUIET_SECONDS = 10.0


@attrs.frozen
class TimedAnswer:
    """An answer, and when it arrived, in seconds since the first sample was spoken."""

    time: float
    answer: Answer


@attrs.define
class Heard:
    """What a session received, and when it sent what, in seconds."""

    answers: list[TimedAnswer] = attrs.field(factory=list)
    lateness: list[float] = attrs.field(factory=list)  #: of each chunk of audio
    commits: list[float] = attrs.field(factory=list)  #: for each sentence, if the client commits


async def speak(
    conversation: Conversation,
    client: Client,
    open_socket: Callable[[str], AbstractAsyncContextManager[Any]],
    url: str,
    *,
    delay: float = 0.0,
    commit_seconds: float | None = None,
) -> Heard:
    """
    Speak *conversation* after *delay* seconds, and return what the server answered.

    A chunk is sent when its last sample has been spoken.  With *commit_seconds* the client ends
    each utterance after the first chunk that ends so long after the sentence.  After the audio,
    answers are awaited until the server closes, until none has arrived for 10 s, or for 30 s.

    Raises:
        RefusedSession: the server answered with an error, or closed before the audio ended.

    """
    clock = asyncio.get_running_loop().time
    resampler = Resampler(SAMPLE_RATE, to_rate=client.rate)
    audio = np.concatenate([resampler.push(conversation.audio), resampler.flush()])
    heard = Heard()
    await asyncio.sleep(delay)
    async with open_socket(client.address(url)) as socket:
        for message in client.opening():
            await socket.send(message)
        began = clock()

        async def receive() -> None:
            async for message in socket:
                for answer in client.read(json.loads(message)):
                    heard.answers.append(TimedAnswer(clock() - began, answer))

        receiving = asyncio.create_task(receive())
        ends = [sentence.end for sentence in conversation.sentences]
        commits = [] if commit_seconds is None else [end + commit_seconds for end in ends]
        for due, chunk, is_commit in _schedule(audio, client.rate, commits):
            await asyncio.sleep(max(0.0, began + due - clock()))
            if receiving.done():
                await receiving  # raises what it met
                raise RefusedSession("the server closed the connection before the audio ended")
            for part in (*client.audio(chunk), *(client.commit() if is_commit else ())):
                await socket.send(part)
            heard.lateness.append(clock() - began - due)
            if is_commit:
                heard.commits.append(clock() - began)
        for last in client.closing():
            await socket.send(last)
        await _rest(receiving, heard, began)
    return heard


def _schedule(
    audio: NDArray[np.float32], rate: int, commits: Sequence[float]
) -> Iterator[tuple[float, NDArray[np.float32], bool]]:
    """Yield when each chunk has been spoken, its samples, and whether a commit follows it."""
    waiting = deque(commits)
    size = round(CHUNK_SECONDS * rate)
    for first in range(0, len(audio), size):
        chunk = audio[first : first + size]
        end = (first + len(chunk)) / rate
        is_commit = bool(waiting) and end >= waiting[0]
        if is_commit:
            waiting.popleft()
        yield end, chunk, is_commit


async def speak_together(
    conversations: Sequence[Conversation],
    make_client: Callable[[], Client],
    open_socket: Callable[[str], AbstractAsyncContextManager[Any]],
    url: str,
    *,
    commit_seconds: float | None = None,
) -> list[Heard]:
    """Speak each conversation in a session of its own, all at once; see `speak`."""
    spread = STAGGER_SECONDS / len(conversations)
    return await asyncio.gather(
        *(
            speak(
                conversation,
                make_client(),
                open_socket,
                url,
                delay=number * spread,
                commit_seconds=commit_seconds,
            )
            for number, conversation in enumerate(conversations)
        )
    )


async def _rest(receiving: asyncio.Task[None], heard: Heard, began: float) -> None:
    """Wait for the answers after the audio."""
    clock = asyncio.get_running_loop().time
    last = clock() + _REST_SECONDS
    quiet = clock() + _QUIET_SECONDS
    while not receiving.done() and clock() < min(quiet, last):
        await asyncio.wait([receiving], timeout=min(quiet, last) - clock())
        if heard.answers:
            quiet = max(quiet, began + heard.answers[-1].time + _QUIET_SECONDS)
    if receiving.done():
        await receiving  # raises what it met
        return
    receiving.cancel()
    with suppress(asyncio.CancelledError):
        await receiving
