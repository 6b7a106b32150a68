"""Whatever a client sends between its appends, each word is in exactly one completed item."""

from __future__ import annotations

import base64
from collections import Counter, deque
from itertools import chain
import json

from hypothesis import given, strategies
import pytest

from wlk_conformance.protocols import PlayedStream, speech
from wlk_core.backend import BackendSpec
from wlk_core.registry import Registry
from wlk_live.session import Session
from wlk_serve.protocols import ModelCard

from .conftest import OpenedProtocol

ITEM = "conversation.item.input_audio_transcription"
MANUAL = {"audio": {"input": {"turn_detection": None}}, "include": ["wlk.marks"]}
DETECTION = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
LANGUAGES = [{"audio": {"input": {"transcription": {"language": name}}}} for name in ("en", "fr")]
STEPS = [("step", number) for number in range(4)]
ACTIONS = [("append",), ("commit",), ("change",), *STEPS]
SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="toy:load",
    languages=("en", "fr"),
    capabilities=["language-forcing"],
)


class Client:
    """A client that records what it sends, and the words that it expects in each item."""

    def __init__(self):
        self.streams, self.messages, self._counts = [], [], Counter()
        card = ModelCard(name="small", spec=SPEC)
        self.protocol = OpenedProtocol(card, self._open)
        self.protocol.make_room = lambda: self.step(0)
        self.items, self.words, self.marks, self.committed_marks = [], [], [], 0
        self.uses_detection = False
        self._languages = deque(LANGUAGES)  # the next one first; a refused one is tried again
        self.send("session.update", session=MANUAL)

    def _open(self, config):
        self.streams.append(PlayedStream(config))
        return self.streams[-1]

    def send(self, kind, **fields):
        """Send a message; return whether it was accepted."""
        answers = self.protocol.receive(json.dumps({"type": kind, **fields}))
        self.messages += answers
        return "error" not in [answer["type"] for answer in answers]

    def append(self):
        """Append a word."""
        number = self._counts["word"] = self._counts["word"] + 1
        audio = base64.b64encode(speech([number], 24_000)).decode()
        if self.send("input_audio_buffer.append", audio=audio):
            self.words.append(f"w{number}")

    def commit(self):
        """Commit the words; without voice activity detection there must be some."""
        is_accepted = self.send("input_audio_buffer.commit")
        assert self.uses_detection or is_accepted is (self.words != [])
        if is_accepted:
            self._end_item()

    def change(self):
        """Change the language."""
        if self.send("session.update", session=self._languages[0]):
            self._languages.rotate()
            if self.uses_detection:
                self._end_item()

    def switch(self):
        """Switch voice activity detection on or off."""
        if self.send("session.update", session=MANUAL if self.uses_detection else DETECTION):
            self.uses_detection = not self.uses_detection
            self._end_item()

    def clear(self):
        """Clear the uncommitted words and the marks among them."""
        self.send("input_audio_buffer.clear")
        answered = [message["id"] for message in self.of_type("wlk.marked")]
        kept = self.marks[: self.committed_marks]
        self.marks = kept + [name for name in self.marks[len(kept) :] if name in answered]
        self.words = []

    def mark(self):
        """Send a mark."""
        self._counts["mark"] += 1
        name = str(self._counts["mark"])
        if self.send("wlk.mark", id=name):
            self.marks.append(name)

    def step(self, number):
        """Step one of the streams."""
        waiting = [stream for stream in self.streams if stream.events]
        if waiting:
            stream = waiting[number % len(waiting)]
            self.messages += self.protocol.handle(stream, [stream.events.popleft()])

    def end(self):
        """End the session and step the streams until they are over."""
        self.send("wlk.end")
        self._end_item()
        while any(stream.events for stream in self.streams):
            self.step(0)

    def _end_item(self):
        self.committed_marks = len(self.marks)
        self.items += [self.words] * (self.words != [])
        self.words = []

    def of_type(self, kind):
        """Return the messages of a type."""
        return [message for message in self.messages if message["type"] == kind]


def play(actions):
    """Perform *actions*, end the session and check its end; return the client."""
    client = Client()
    for name, *arguments in actions:
        getattr(client, name)(*arguments)
        assert sum(not stream.is_closed for stream in client.streams) <= 4
    client.end()

    assert client.protocol.audio.is_over
    completed = client.of_type(f"{ITEM}.completed")
    committed = client.of_type("input_audio_buffer.committed")
    assert [item["item_id"] for item in committed] == [item["item_id"] for item in completed]
    texts = [item["transcript"].split() for item in completed]
    assert client.items == [words for words in texts if words]
    for item in completed:
        deltas = [
            d["delta"] for d in client.of_type(f"{ITEM}.delta") if d["item_id"] == item["item_id"]
        ]
        assert item["transcript"] == "".join(deltas)
    return client


@given(actions=strategies.lists(strategies.sampled_from(ACTIONS), max_size=40))
def test_a_change_of_the_configuration_loses_no_word(actions):
    """Each commit has one item, with the words since the last commit, in order."""
    client = play(actions)

    assert len(client.items) == len(client.of_type(f"{ITEM}.completed"))


@given(actions=strategies.lists(strategies.sampled_from([*ACTIONS, ("switch",)]), min_size=20))
def test_switching_the_detection_loses_no_word(actions):
    """An utterance ends where voice activity detection is switched on or off."""
    client = play(actions)

    started, stopped = (
        [message["item_id"] for message in client.of_type(f"input_audio_buffer.speech_{kind}")]
        for kind in ("started", "stopped")
    )
    assert started == stopped


@given(actions=strategies.lists(strategies.sampled_from([*ACTIONS, ("clear",), ("mark",)])))
def test_a_clear_drops_only_what_was_not_committed(actions):
    """Other marks are answered once each, in order of time, and together have each word once."""
    client = play(actions)

    marked = client.of_type("wlk.marked")
    assert client.marks == [message["id"] for message in marked]
    tokens = list(chain.from_iterable(message["tokens"] for message in marked))
    numbers = [int(token["text"].removeprefix(" w")) for token in tokens]
    assert sorted(set(numbers)) == numbers
    times = [message["processed_up_to"] for message in marked]
    assert sorted(times) == times


@pytest.mark.parametrize(
    ("include", "size", "refused", "items"),
    [([], 4_798, ["input_audio_buffer_commit_empty"], 2), (["wlk.marks"], 2, [], 3)],
)
def test_only_a_client_with_marks_commits_less_than_100_ms(include, size, refused, items):
    """Each commit costs a flush of the model, so OpenAI refuses them too; no audio is lost."""
    second, short = (base64.b64encode(bytes(each)).decode() for each in (48_000, size))
    manual = MANUAL | {"include": include}
    sessions = []

    def open_stream(config):
        processor = backend.create_processor()
        sessions.append(Session(processor, encoding=config.encoding, rate=config.rate))
        return sessions[-1]

    with Registry().load_backend("scripted") as backend:
        protocol = OpenedProtocol(ModelCard(name="small", spec=SPEC), open_stream)
        messages = [{"type": "session.update", "session": manual}]
        for audio in (second, short, second):
            messages.append({"type": "input_audio_buffer.append", "audio": audio})
            messages.append({"type": "input_audio_buffer.commit"})
        answers = [each for message in messages for each in protocol.receive(json.dumps(message))]
        (session,) = sessions
        completed = protocol.handle(session, session.feed(b""))

    errors = [each["error"]["code"] for each in answers if each["type"] == "error"]
    done = [each["item_id"] for each in completed if each["type"] == f"{ITEM}.completed"]
    assert errors == refused
    assert done == [f"item_0_{number + 1}" for number in range(items)]
    assert session.audio_time == pytest.approx(2 + size / 48_000, abs=0.01)
