"""Wyoming's own client, unmodified, used as Home Assistant uses it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import wave

import pytest

pytest.importorskip("wyoming", reason="install wyoming, or run nox -s clients")

from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioChunkConverter, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize
from wyoming.vad import VoiceStopped

from .conftest import running

WAIT = 60  # seconds after which a test has failed
RATE = 16_000
FORM = {"rate": RATE, "width": 2, "channels": 1}
CHUNK = 2048  # bytes, as Home Assistant sends
PAUSE = 6.5  # seconds: between the two turns of the clip


@pytest.fixture(scope="module")
def port():
    """Return the port of a server shared by all tests of the module."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running("--listen", f"wyoming={port}"):
        yield port


@pytest.fixture
def ask(port):
    """Return a function that sends events and returns the answers, up to the last of a kind."""

    def ask(events, kind, count=1):
        async def run():
            found = []
            async with AsyncTcpClient("127.0.0.1", port) as client:
                for each in events:
                    await client.write_event(each.event())
                while sum(kind.is_type(event.type) for event in found) < count:
                    found.append(await asyncio.wait_for(client.read_event(), WAIT))
            return found

        return asyncio.run(run())

    return ask


def chunks(audio):
    """Return audio as events."""
    parts = (audio[start : start + CHUNK] for start in range(0, len(audio), CHUNK))
    return [AudioChunk(audio=part, **FORM) for part in parts]


def command(audio, language="en"):
    """Return the events of a voice command."""
    return [Transcribe(language=language), AudioStart(**FORM), *chunks(audio), AudioStop()]


def transcripts(events):
    """Return the transcripts."""
    found = [Transcript.from_event(event) for event in events if Transcript.is_type(event.type)]
    return [(transcript.text, transcript.language) for transcript in found]


def test_a_service_is_described_with_the_languages_of_its_model(ask):
    """Home Assistant reads the languages of installed models, and detects the end of speech."""
    events = ask([Ping("a"), Describe()], Info)

    assert Pong.is_type(events[0].type)
    (program,) = Info.from_event(events[-1]).asr
    assert (
        program.name,
        program.requires_external_vad,
        program.supports_transcript_streaming,
    ) == ("wlk-serve", True, True)
    (model,) = program.models
    assert model.installed
    assert "en" in model.languages


def test_a_command_ends_with_its_pause_if_its_client_leaves_that_to_the_server(
    ask, expected, speech
):
    """The transcript comes while the client still sends."""
    wanted = Transcribe(language="en", vad_sensitivity="relaxed")
    events = [wanted, AudioStart(**FORM), *chunks(speech(RATE, stop=8.0))]
    answers = ask(events, Transcript)

    assert transcripts(answers) == [(expected.turns[0], "en")]
    parts = [TranscriptChunk.from_event(e).text for e in answers if TranscriptChunk.is_type(e.type)]
    assert "".join(parts) == expected.turns[0]


def test_commands_that_follow_each_other_at_once_have_their_own_words(ask, expected, speech):
    """No command waits for the transcript of the previous one."""
    first, second = speech(RATE, stop=PAUSE), speech(RATE, start=PAUSE)
    answers = ask([*command(first), *command(second), *command(first)], Transcript, 3)

    texts = [expected.turns[0], expected.turns[1], expected.turns[0]]
    assert transcripts(answers) == [(text, "en") for text in texts]


def test_a_recording_that_is_uploaded_slowly_has_all_of_its_words(port, expected, speech):
    """Its pause is decoded long before its last words arrive."""

    async def run():
        async with AsyncTcpClient("127.0.0.1", port) as client:
            first, second = speech(RATE, stop=8.0), speech(RATE, start=8.0)
            for event in [Transcribe(language="en"), AudioStart(**FORM), *chunks(first)]:
                await client.write_event(event.event())
            while not VoiceStopped.is_type((await client.read_event()).type):
                pass
            for event in [*chunks(second), AudioStop()]:
                await client.write_event(event.event())
            while not Transcript.is_type((event := await client.read_event()).type):
                pass
            return Transcript.from_event(event).text

    assert asyncio.run(asyncio.wait_for(run(), WAIT)) == " ".join(expected.turns)


def test_stereo_at_another_rate_needs_no_start(ask, expected, speech):
    """The reference server converts each chunk, and asks for nothing before it."""
    sound = AudioChunkConverter(rate=44_100, width=4, channels=2)
    audio = [sound.convert(chunk) for chunk in chunks(speech(RATE, stop=PAUSE))]
    answers = ask([Transcribe(language="en"), *audio, AudioStop()], Transcript)

    assert transcripts(answers) == [(expected.turns[0], "en")]


def test_an_unknown_event_is_an_error(ask, expected, speech):
    """The connection stays open."""
    answers = ask([Synthesize("zero"), *command(speech(RATE, stop=PAUSE))], Transcript)

    assert Error.from_event(answers[0]).code == "unknown_event"
    assert transcripts(answers) == [(expected.turns[0], "en")]


@pytest.mark.parametrize("mode", ["non_streaming", "streaming"])
def test_the_benchmark_of_such_servers_finds_no_wrong_word(port, expected, speech, tmp_path, mode):
    """`wyoming-bench` runs unmodified, in both of its modes of reading transcripts."""
    with wave.open(str(tmp_path / "command.wav"), "wb") as recording:
        recording.setparams((1, 2, RATE, 0, "NONE", ""))
        recording.writeframes(speech(RATE, stop=PAUSE))
    (tmp_path / "command.txt").write_text(expected.turns[0], encoding="utf-8")
    command = [sys.executable, "-m", "wyoming_bench.cli", "stt", f"127.0.0.1:{port}"]
    options = ["--corpus", str(tmp_path), "--mode", mode, "--rounds", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)

    assert f"[{mode}] ok=1 fail=0" in done.stdout
    assert "WER=0.0%" in done.stdout
