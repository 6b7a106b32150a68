from __future__ import annotations

import asyncio
import json

import pytest

from wlk_serve.sessions import messages
from wlk_serve.sessions.messages import SendQueue, encoded


def message(kind, number):
    """Return a message with a number."""
    return encoded({"type": kind, "number": number})


def drained(queue):
    """Return the numbers of the messages that wait, with the end."""

    async def take():
        texts = []
        while (text := await queue.get()) is not None:
            texts.append(json.loads(text)["number"])
        return texts

    return asyncio.run(take())


def test_a_newer_hypothesis_replaces_the_one_that_waits():
    """Text that may change is sent in its newest form only; deltas are never replaced."""
    queue = SendQueue({"wlk.hypothesis"})
    kinds = ["wlk.hypothesis", "wlk.hypothesis", "delta", "delta", "wlk.hypothesis"]
    queue.put([message(kind, number) for number, kind in enumerate(kinds)])
    queue.close()

    assert [1, 2, 3, 4] == drained(queue)


def test_a_message_of_any_length_is_sent(monkeypatch):
    """The transcript of an hour is longer than the bound, and still one message."""
    monkeypatch.setattr(messages, "_MAX_CHARACTERS", 10)
    queue = SendQueue()
    queue.put([message("completed", 1)])
    queue.close()

    assert [1] == drained(queue)


@pytest.mark.parametrize(("name", "limit"), [("_MAX_MESSAGES", 2), ("_MAX_CHARACTERS", 40)])
def test_a_queue_that_is_full_ends(monkeypatch, name, limit):
    """A client that reads too slowly is closed instead of losing a message in the middle."""
    monkeypatch.setattr(messages, name, limit)
    queue = SendQueue()
    queue.put([message("delta", number) for number in range(3)])

    assert queue.is_full
    assert [] == drained(queue)


def test_a_queue_is_crowded_from_half_of_its_messages_on(monkeypatch):
    """The client that causes them is not read until some are taken, or none will be any more."""
    monkeypatch.setattr(messages, "_MAX_MESSAGES", 4)
    queue = SendQueue()
    queue.put([message("delta", 0)])
    before = queue.is_crowded
    queue.put([message("delta", 1)])
    crowded = queue.is_crowded
    asyncio.run(queue.get())
    taken = queue.is_crowded
    queue.put([message("delta", number) for number in range(2)])
    queue.close()

    assert (False, True, False, False) == (before, crowded, taken, queue.is_crowded)
