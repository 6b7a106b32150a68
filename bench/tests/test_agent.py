"""Latencies of a voice agent, against scripted servers on a clock that does not wait."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
import json
import selectors

import attrs
import numpy as np
import pytest
from websockets.asyncio.server import serve

from wlk_bench.agent.conversation import LEAD_SECONDS, compose
from wlk_bench.agent.latency import sentence_latencies, summarise_latencies
from wlk_bench.agent.protocols import PROTOCOLS, RefusedSession, SessionSettings
from wlk_bench.agent.session import speak, speak_together
from wlk_bench.data import Sample
from wlk_bench.errors import DataError
from wlk_bench.reference import Reference, ReferenceWord
from wlk_conformance.testing.digits import clip_path, load_clip

from .conftest import run_command

SPOKEN = (("one two", 1.0), ("three", 0.6))  # texts, and when each ends in its recording


class PatientSelector(selectors.DefaultSelector):
    """A selector that advances a clock instead of waiting."""

    now = 0.0

    def select(self, timeout=None):
        """Return what is ready at once; if nothing is, let *timeout* pass."""
        ready = super().select(0)
        self.now += 0 if ready else timeout or 0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while it would wait."""

    def __init__(self):
        self.selector = PatientSelector()
        super().__init__(self.selector)

    def time(self):
        """Return the seconds since the loop began."""
        return self.selector.now


def run(coroutine):
    """Run *coroutine* in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def sentence(text, end):
    """Return a second of zeros with evenly spaced words up to *end*."""
    words = text.split()
    edges = np.linspace(0.1, end, len(words) + 1)
    return Sample(
        id=text,
        audio=lambda: iter([np.zeros(16_000, dtype=np.float32)]),
        seconds=1.0,
        reference=Reference(
            text=text,
            words=tuple(map(ReferenceWord, words, edges[:-1].tolist(), edges[1:].tolist())),
        ),
    )


@pytest.fixture
def conversation():
    """Return two sentences, which end at 1.5 s and, after 2 s of quiet, at 4.1 s."""
    return compose([sentence(*spoken) for spoken in SPOKEN], gap_seconds=2.0)


class FakeSocket:
    """A connection to a server that says scripted messages at scripted times."""

    def __init__(self, script, *, closes_at=None):
        self.script, self.closes_at = script, closes_at
        self.sent = []

    async def send(self, message):
        """Take a message of the client."""
        self.sent.append(message)

    async def __aiter__(self):
        """Yield the messages of the server, each at its time since the connection."""
        clock = asyncio.get_running_loop().time
        began = clock()
        for time, message in self.script:
            await asyncio.sleep(began + time - clock())
            yield json.dumps(message)
        if self.closes_at is None:
            await asyncio.Event().wait()
        await asyncio.sleep(began + self.closes_at - clock())

    @asynccontextmanager
    async def opened(self, address):
        """Return the connection to *address*."""
        self.address = address
        yield self


def openai(item, kind, text):
    """Return an event of OpenAI Realtime."""
    field = "delta" if kind == "delta" else "transcript"
    name = f"conversation.item.input_audio_transcription.{kind}"
    return {"type": name, "item_id": item, field: text}


def deepgram(text, *, is_final):
    """Return a result of Deepgram v1."""
    channel = {"alternatives": [{"transcript": text}]}
    return {"type": "Results", "is_final": is_final, "channel": channel}


def flux(text, event):
    """Return an event of Deepgram Flux."""
    return {"type": "TurnInfo", "event": event, "transcript": text}


def vllm(kind, text):
    """Return an event of vLLM's realtime API."""
    return {"type": f"transcription.{kind}", "delta" if kind == "delta" else "text": text}


def state(*lines, buffer=""):
    """Return a state of whisperlivekit, with a silence after each line but the last."""
    records = [{"speaker": 1, "text": text} for text in lines]
    silence = {"speaker": -2, "text": ""}
    between = [each for record in records for each in (record, silence)][:-1]
    return {"status": "active_transcription", "lines": between, "buffer_transcription": buffer}


CONFIG = {"type": "config", "useAudioWorklet": True, "mode": "full"}
SCRIPTS = {
    "openai-realtime": [
        (1.2, openai("a", "delta", "one")),
        (1.6, openai("a", "delta", " two")),
        (1.8, openai("a", "completed", "one two")),
        (4.5, openai("b", "completed", "free")),
    ],
    "deepgram": [
        (0.2, deepgram("", is_final=True)),
        (1.2, deepgram("one", is_final=False)),
        (1.6, deepgram("one two", is_final=False)),
        (1.8, deepgram("one two", is_final=True)),
        (4.5, deepgram("free", is_final=True)),
    ],
    "deepgram-flux": [
        (1.2, flux("one", "Update")),
        (1.6, flux("one two", "EagerEndOfTurn")),
        (1.8, flux("one two", "EndOfTurn")),
        (4.5, flux("free", "EndOfTurn")),
    ],
    "vllm": [
        (0.1, {"type": "session.created"}),
        (1.2, vllm("delta", "one")),
        (1.6, vllm("delta", " two")),
        (1.8, vllm("done", "one two")),
        (4.5, vllm("done", "free")),
    ],
    "whisperlivekit": [
        (0.1, CONFIG),
        (0.2, state()),
        (1.2, state(buffer="one")),
        (1.6, state(buffer="one two")),
        (1.8, state("one two")),
        (4.5, state("one two", "free")),
        (4.6, {"type": "ready_to_stop"}),
    ],
}
SETTINGS = {"vllm": SessionSettings(model="m", commit_seconds=0.2)}


def latencies_of(conversation, socket, protocol, settings=None):
    """Speak to a scripted server; return the latencies of the sentences."""
    settings = settings or SETTINGS.get(protocol, SessionSettings())
    client, commit = PROTOCOLS[protocol](settings), settings.commit_seconds
    heard = run(speak(conversation, client, socket.opened, "ws://server", commit_seconds=commit))
    return sentence_latencies(conversation, heard, normaliser_name="basic"), heard


@pytest.mark.parametrize("protocol", SCRIPTS)
def test_latencies_count_from_the_end_of_a_sentence(conversation, protocol):
    """Final text from the end, first text from the start, words from their own ends."""
    (first, second), heard = latencies_of(conversation, FakeSocket(SCRIPTS[protocol]), protocol)

    assert first.final == first.first_final == pytest.approx(0.3)
    assert first.first_partial == pytest.approx(1.2 - 0.6)
    assert first.first_word == pytest.approx(1.2 - 1.05)
    assert first.words == pytest.approx((1.2 - 1.05, 1.6 - 1.5))
    assert first.errors.errors == 0
    assert second.final == pytest.approx(4.5 - 4.1)
    assert (second.errors.substitutions, second.words) == (1, ())
    assert max(heard.lateness) == pytest.approx(0.0)


def test_all_audio_is_sent_in_real_time(conversation):
    """Every server gets every sample as 16 bits, and OpenAI half as many again."""
    sizes = {}
    for protocol, script in SCRIPTS.items():
        socket = FakeSocket(script)
        latencies_of(conversation, socket, protocol)
        sizes[protocol] = sum(
            len(message)
            if isinstance(message, bytes)
            else len(base64.b64decode(json.loads(message).get("audio", "")))
            for message in socket.sent
        )

    expected = dict.fromkeys(SCRIPTS, 2 * len(conversation.audio))
    assert sizes.pop("openai-realtime") == pytest.approx(3 * len(conversation.audio), abs=4)
    assert sizes == {name: size for name, size in expected.items() if name in sizes}


def test_a_split_sentence_is_final_with_its_last_segment(conversation):
    """A final before the end of speech is not the first one after it."""
    script = [
        (1.2, deepgram("one", is_final=True)),
        (1.9, deepgram("two", is_final=True)),
        (2.4, deepgram("hm", is_final=True)),
    ]
    (first, second), _ = latencies_of(conversation, FakeSocket(script), "deepgram")

    assert first.final == pytest.approx(0.9)
    assert first.first_final == pytest.approx(0.4)
    assert (first.segments, first.errors.insertions) == (3, 1)
    assert (second.final, second.errors.deletions) == (None, 1)
    figures = summarise_latencies([first, second], lateness=[0.0])
    assert (figures["without_final"], figures["split"]) == (1, 1)
    assert (figures["errors"], figures["words"]) == (2, 3)


def test_a_segment_of_two_sentences_counts_for_both(conversation):
    """The server missed the end of the first: its text came with that of the second."""
    script = [(4.5, deepgram("one two three", is_final=True))]
    (first, second), _ = latencies_of(conversation, FakeSocket(script), "deepgram")

    assert first.final == pytest.approx(3.0)
    assert second.final == pytest.approx(0.4)
    assert first.errors.errors == second.errors.errors == 0


@pytest.mark.parametrize(
    ("socket", "message"),
    [
        (FakeSocket([(0.5, {"type": "Error", "description": "no quota"})]), "refused: no quota"),
        (FakeSocket([], closes_at=0.5), "closed the connection before the audio ended"),
    ],
    ids=["error", "close"],
)
def test_a_server_that_gives_up_ends_the_measurement(conversation, socket, message):
    """The error of the server is reported, not missing text."""
    with pytest.raises(RefusedSession, match=message):
        latencies_of(conversation, socket, "deepgram")


def test_settings_are_sent_as_each_protocol_has_them(conversation):
    """Those that were not given are left to the server."""
    settings = SessionSettings(model="m", language="en", silence_seconds=0.2)
    sockets = {}
    for name, given in (("deepgram", settings), ("openai-realtime", settings), ("plain", None)):
        protocol = "openai-realtime" if name == "plain" else name
        sockets[name] = FakeSocket(SCRIPTS[protocol])
        latencies_of(conversation, sockets[name], protocol, given)
    update, plain = (
        json.loads(sockets[name].sent[0])["session"]["audio"]["input"]
        for name in ("openai-realtime", "plain")
    )

    assert sockets["deepgram"].address.startswith("ws://server/v1/listen?encoding=linear16&")
    assert sockets["deepgram"].address.endswith("&model=m&language=en&endpointing=200")
    assert update["transcription"] == {"model": "m", "language": "en"}
    assert update["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 200}
    assert plain["turn_detection"] == {"type": "server_vad"}
    assert "transcription" not in plain


COMMITS = {
    "openai-realtime": {"type": "input_audio_buffer.commit"},
    "deepgram": {"type": "Finalize"},
    "deepgram-flux": {"type": "ForceEndTurn"},
    "vllm": {"type": "input_audio_buffer.commit", "final": True},
}


@pytest.mark.parametrize("protocol", COMMITS)
def test_a_client_ends_each_utterance_when_it_was_told_to(conversation, protocol):
    """The commit follows the chunk that ends 0.2 s after the sentence; a figure counts from it."""
    settings = SessionSettings(model="m", commit_seconds=0.2)
    socket = FakeSocket(SCRIPTS[protocol])
    (first, second), heard = latencies_of(conversation, socket, protocol, settings)
    texts = [json.loads(message) for message in socket.sent if isinstance(message, str)]

    assert heard.commits == pytest.approx([1.7, 4.3])
    assert first.after_commit == pytest.approx(0.1)
    assert second.after_commit == pytest.approx(0.2)
    # vLLM's client ends the last transcription too.
    assert texts.count(COMMITS[protocol]) == 2 + (protocol == "vllm")


def test_a_client_of_openai_that_commits_has_a_detector_only_if_a_silence_is_given(conversation):
    """Then a commit comes into a pause that the server has noticed."""
    detectors = []
    for silence in (None, 5.0):
        settings = SessionSettings(commit_seconds=0.2, silence_seconds=silence)
        socket = FakeSocket(SCRIPTS["openai-realtime"])
        latencies_of(conversation, socket, "openai-realtime", settings)
        update = json.loads(socket.sent[0])["session"]
        detectors.append(update["audio"]["input"]["turn_detection"])

    assert detectors == [None, {"type": "server_vad", "silence_duration_ms": 5000}]


def test_a_transcription_of_vllm_begins_after_the_one_before_is_done(conversation):
    """Its server ignores a start while it transcribes, and audio outside of a transcription."""
    socket = FakeSocket(SCRIPTS["vllm"])
    latencies_of(conversation, socket, "vllm")
    appends = {"input_audio_buffer.append": "audio"}
    sent = [json.loads(message) for message in socket.sent]
    kinds = [appends.get(m["type"], "end" if m.get("final") else m["type"]) for m in sent]
    start = "input_audio_buffer.commit"
    order = [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before]

    assert socket.address == "ws://server/v1/realtime"
    assert sent[0] == {"type": "session.update", "model": "m"}
    # The audio before the second start is that of the 0.1 s until the server answered.
    once = ["audio", "end", "audio", start]
    assert order == ["session.update", start, *once, *once, "audio", "end"]


def test_a_line_of_whisperlivekit_is_final_word_by_word(conversation):
    """Lines that the server no longer sends do not come again, and rewritten ones do not hide."""
    script = [
        (0.1, CONFIG),
        (0.2, state("old", "one")),
        (1.6, state("one two")),
        (1.7, state()),
        (1.8, state("one too", buffer="hm")),
        (4.5, state("one too", "three")),
    ]
    _, heard = latencies_of(conversation, FakeSocket(script), "whisperlivekit")
    finals = [timed.answer.text for timed in heard.answers if timed.answer.is_final]

    assert finals == ["old one", "two", "too", "three"]


@pytest.mark.parametrize(
    ("protocol", "message", "expected"),
    [
        ("vllm", {"type": "error", "error": "no model m"}, "refused: no model m"),
        ("whisperlivekit", {**state(), "error": "FFmpeg failed"}, "refused: FFmpeg failed"),
        ("whisperlivekit", {**CONFIG, "useAudioWorklet": False}, "start it with --pcm-input"),
    ],
    ids=["vllm", "whisperlivekit", "webm"],
)
def test_an_error_is_read_in_the_form_of_each_protocol(conversation, protocol, message, expected):
    """It ends the measurement with the server's own words, or with what helps."""
    with pytest.raises(RefusedSession, match=expected):
        latencies_of(conversation, FakeSocket([(0.5, message)]), protocol)


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        (
            "deepgram-flux",
            ["--silence", "0.2"],
            "no --language and no --silence with deepgram-flux",
        ),
        ("vllm", ["--language", "en"], "no --language and no --silence with vllm"),
        ("vllm", ["--model", "m"], "expected --model NAME and --commit SECONDS with vllm"),
        ("whisperlivekit", ["--commit", "0.2"], "no --silence and no --commit with whisperlivekit"),
    ],
    ids=["flux", "vllm", "vllm needs", "whisperlivekit"],
)
def test_a_setting_that_a_protocol_does_not_have_is_refused(protocol, options, message, capsys):
    """Nothing is measured with another setting than the one asked for."""
    assert run_command(["agent", "ws://server", "--protocol", protocol, *options]) == 1
    assert message in capsys.readouterr().err


def test_a_commit_after_the_next_sentence_began_is_refused(capsys):
    """It would cut that sentence."""
    arguments = ["agent", "ws://server", "--protocol", "deepgram", "--gap", "1", "--commit", "1"]

    assert run_command(arguments) == 2
    assert "expected less than the gap of 1 s" in capsys.readouterr().err


def test_sessions_speak_together_and_begin_one_after_another(conversation):
    """Each has its own answers."""
    sockets = [FakeSocket(SCRIPTS["deepgram"]) for _ in range(3)]
    free = iter(sockets)
    heard = run(
        speak_together(
            [conversation] * 3,
            lambda: PROTOCOLS["deepgram"](SessionSettings()),
            lambda address: next(free).opened(address),
            "ws://server",
        )
    )

    assert [len(each.answers) for each in heard] == [5, 5, 5]


def test_speech_without_word_times_ends_where_silero_detects_its_end():
    """Recorded digits without times: the end is that of the last word, within 0.15 s."""
    clip = load_clip("demo")
    sample = Sample(
        id="demo",
        audio=lambda: iter([clip.audio]),
        seconds=len(clip.audio) / 16_000,
        reference=Reference(text="digits"),
    )
    (found,) = compose([sample], gap_seconds=1.0).sentences
    (given,) = compose([attrs.evolve(sample, ends=(2.5,))], gap_seconds=1.0).sentences

    assert found.end - LEAD_SECONDS == pytest.approx(clip.words[-1].end, abs=0.15)
    assert found.start - LEAD_SECONDS == pytest.approx(clip.words[0].start, abs=0.15)
    assert given.end == LEAD_SECONDS + 2.5
    assert found.detected_end == given.detected_end == found.end


def test_a_final_is_also_measured_from_the_detected_end(conversation):
    """That is Pipecat's TTFS; speech that Silero does not detect has none."""
    first, second = conversation.sentences
    first = attrs.evolve(first, detected_end=1.6)
    conversation = attrs.evolve(conversation, sentences=(first, second))
    (first, second), _ = latencies_of(conversation, FakeSocket(SCRIPTS["deepgram"]), "deepgram")

    assert first.final == pytest.approx(0.3)
    assert first.ttfs == pytest.approx(0.2)
    assert second.ttfs is None
    figures = summarise_latencies([first, second], lateness=[0.0])
    assert figures["ttfs"]["p95"] == pytest.approx(0.2)


def test_a_given_end_is_more_exact_than_that_of_the_last_word():
    """A synthesiser knows when its speech ends; the times of words are often an alignment's."""
    sample = attrs.evolve(sentence("one two", 0.9), ends=(0.8,))
    (found,) = compose([sample], gap_seconds=1.0).sentences

    assert found.start == LEAD_SECONDS + 0.1
    assert found.end == LEAD_SECONDS + 0.8


@pytest.mark.parametrize(
    ("text", "message"), [("", 'expected "text" of x'), ("one", "expected speech in x")]
)
def test_a_recording_that_is_no_sentence_is_refused(text, message):
    """It has no text, or no speech whose end could be found."""
    quiet = np.zeros(16_000, dtype=np.float32)
    sample = Sample(
        id="x", audio=lambda: iter([quiet]), seconds=1.0, reference=Reference(text=text)
    )

    with pytest.raises(DataError, match=message):
        compose([sample], gap_seconds=1.0)


@pytest.mark.slow
def test_the_command_measures_a_server(tmp_path, capsys, monkeypatch):
    """A server on this machine answers each session with one segment; the key is sent."""
    keys = []

    async def answer(socket):
        keys.append(socket.request.headers.get("Authorization"))
        async for message in socket:
            if isinstance(message, str):
                await socket.send(json.dumps(deepgram("one two", is_final=True)))
                return

    async def measure(arguments):
        async with serve(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(
                run_command, ["agent", f"ws://127.0.0.1:{port}", *arguments]
            )

    monkeypatch.setenv("SERVER_KEY", "secret")
    manifest = tmp_path / "one.jsonl"
    line = {"audio": str(clip_path("demo")), "text": "one two", "words": [["one", 0, 0.5]]}
    manifest.write_text(json.dumps(line) + "\n")
    output = tmp_path / "report.json"
    arguments = ["--protocol", "deepgram", "--data", f"manifest:{manifest}", "--gap", "0.1"]
    arguments += ["--key-variable", "SERVER_KEY", "--output", str(output)]
    status = asyncio.run(measure(arguments))

    assert status == 0
    assert keys == ["Token secret"]
    assert json.loads(output.read_text())["summary"]["sentences"] == 1
    assert "end of speech to last final" in capsys.readouterr().out
    arguments = ["agent", "ws://127.0.0.1:9", "--protocol", "deepgram", "--limit", "1"]
    assert run_command(arguments) == 1
    assert "ws://127.0.0.1:9 could not be measured" in capsys.readouterr().err
