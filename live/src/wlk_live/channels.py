"""The channels of a recording, each a stream and a speaker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    class _Timed(Protocol):
        @property
        def start(self) -> float: ...


T = TypeVar("T", bound="_Timed")

MAX_CHANNELS = 16  # each is decoded and transcribed by itself


def channel_name(channel: int, names: Sequence[str] = ()) -> str:
    """Return the speaker of a channel, counted from 0: one of *names*, or "Channel 1"."""
    return names[channel] if channel < len(names) else f"Channel {channel + 1}"


def in_order(channels: Iterable[Iterable[T]]) -> list[tuple[int, T]]:
    """Return what each of several channels has, in the order of time, with the channel."""
    found = [(channel, each) for channel, has in enumerate(channels) for each in has]
    return sorted(found, key=lambda each: each[1].start)
