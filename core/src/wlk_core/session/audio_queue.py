"""What a session has received and not yet worked on: audio, commits and the end."""

from __future__ import annotations

from collections import deque
from enum import Enum
import threading
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from wlk_core.errors import ClockError, SessionOverloaded, StreamClosed
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_core.audio.pcm import Audio, PcmConverter

__all__ = ["AudioQueue", "Command", "Gap", "Mark"]

_LONGEST_GAP_SECONDS = 366 * 86_400.0

_PIECE_SAMPLES = 60 * SAMPLE_RATE  # the longest piece of audio that is given to a model at once


class Command(Enum):
    """Something other than audio that waits in line."""

    COMMIT = "commit"
    END = "end"


@attrs.frozen
class Gap:
    """Samples that were not captured."""

    samples: int


@attrs.frozen
class Mark:
    """A place in the audio whose passing is reported."""

    name: str


Item: TypeAlias = "NDArray[np.float32] | Command | Gap | Mark"


class AudioQueue:
    """
    The entrance of a session: converts audio, counts it, bounds it; never waits for the model.

    Any thread may put; one thread at a time takes.
    """

    def __init__(self, converter: PcmConverter, max_backlog_seconds: float) -> None:
        self._converter = converter
        self._max_backlog = round(max_backlog_seconds * SAMPLE_RATE)
        self._lock = threading.Lock()  # held while a chunk is converted, not while a model works
        self._items: deque[Item] = deque()
        self._received = 0  # samples at 16 kHz, pauses included
        self._waiting = 0  # of them, samples not taken yet
        self._commands = 0  # that were not taken yet
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def received_seconds(self) -> float:
        """Stream time of the end of the audio received."""
        return self._received / SAMPLE_RATE

    @property
    def waiting_seconds(self) -> float:
        """Seconds of audio that were not taken yet."""
        return self._waiting / SAMPLE_RATE

    @property
    def has_command(self) -> bool:
        """Whether a commit or the end waits."""
        return self._commands > 0

    def put(self, audio: Audio) -> None:
        """Append audio; see `Session.receive`."""
        with self._lock:
            self._check_open()
            samples = self._converter.samples_of(audio)
            if self._waiting and self._waiting + samples > self._max_backlog:
                raise SessionOverloaded(
                    f"{self.waiting_seconds:.1f} s of audio wait to be decoded and "
                    f"{samples / SAMPLE_RATE:.1f} s more came, the bound is "
                    f"{self._max_backlog / SAMPLE_RATE:.1f} s; step the session, then send again"
                )
            converted = self._converter.push(audio)
            for start in range(0, len(converted), _PIECE_SAMPLES):
                self._append(converted[start : start + _PIECE_SAMPLES])

    def put_in_pieces(self, audio: Audio) -> Iterator[None]:
        """Append audio of any length, a minute at a time; the caller takes each piece at once."""
        with self._lock:
            self._check_open()
            samples = self._converter.push(audio)
        yield  # what waited before
        for start in range(0, len(samples), _PIECE_SAMPLES):
            with self._lock:
                if self._has_ended:
                    return  # the session failed in an earlier piece
                self._append(samples[start : start + _PIECE_SAMPLES])
            yield

    def commit(self) -> None:
        """Append a commit; see `Session.commit`."""
        with self._lock:
            self._check_open()
            self._append_command(Command.COMMIT)  # also after another one: each has an endpoint

    def mark(self, name: str) -> None:
        """Append a mark; see `Session.mark`."""
        with self._lock:
            self._check_open()
            self._items.append(Mark(name))

    def skip(self, seconds: float) -> None:
        """Append a gap; see `Session.skip`."""
        length = real_number(seconds)
        if length is None or not 0 <= length <= _LONGEST_GAP_SECONDS:
            raise ClockError(
                f"expected a gap of 0 to {_LONGEST_GAP_SECONDS:.0f} seconds, got {shown(seconds)}"
            )
        with self._lock:
            self._check_open()
            samples = round(length * SAMPLE_RATE)
            if (self._received + samples) / SAMPLE_RATE > MAX_STREAM_SECONDS:
                raise ClockError(
                    f"the gap would end at {(self._received + samples) / SAMPLE_RATE:.0f} s, a "
                    f"stream lasts at most {MAX_STREAM_SECONDS:.0f} s; open a new session"
                )
            if samples:
                self._received += samples
                self._items.append(Gap(samples))

    def end(self) -> None:
        """Append the end and refuse everything after it; may be called again."""
        with self._lock:
            if not self._has_ended:
                self._has_ended = True
                self._append(self._converter.flush())
                self._append_command(Command.END)

    def close(self) -> None:
        """Refuse everything from now on and release what waits."""
        with self._lock:
            self._has_ended = True
            self._items.clear()
            self._waiting = self._commands = 0

    def take(self, *, joins_audio: bool = False) -> Item | None:
        """
        Return the next item, None where nothing waits.

        With `joins_audio` the chunks that follow a chunk directly are joined to it, up to a minute.
        """
        with self._lock:
            item = self._items.popleft() if self._items else None
            self._commands -= isinstance(item, Command)
            if item is None or isinstance(item, Command | Gap | Mark):
                return item
            self._waiting -= len(item)
            return self._joined(item) if joins_audio else item

    def _joined(self, first: NDArray[np.float32]) -> NDArray[np.float32]:
        chunks, samples = [first], len(first)
        while self._items and not isinstance(self._items[0], Command | Gap | Mark):
            samples += len(self._items[0])
            if samples > _PIECE_SAMPLES:
                break
            chunks.append(self._items[0])
            self._waiting -= len(self._items[0])
            self._items.popleft()
        return np.concatenate(chunks)

    def _check_open(self) -> None:
        if self._has_ended:
            raise StreamClosed("the session has ended; open a new one for more audio")

    def _append_command(self, command: Command) -> None:
        self._commands += 1
        self._items.append(command)

    def _append(self, samples: NDArray[np.float32]) -> None:
        if len(samples):
            self._received += len(samples)
            self._waiting += len(samples)
            self._items.append(samples)
