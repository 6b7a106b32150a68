"""The OpenAI plugin of LiveKit Agents, unmodified: only its `base_url` is set."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

REASON = "install livekit-plugins-openai, or run nox -s clients"
openai = pytest.importorskip("livekit.plugins.openai", reason=REASON)

from livekit import rtc  # noqa: E402 -- after the skip
from livekit.agents import stt  # noqa: E402 -- as above
from livekit.agents.utils import http_context  # noqa: E402 -- as above

Kind = stt.SpeechEventType
RATE = 24_000  # the plugin's
FRAME_BYTES = RATE // 20 * 2  # 50 ms
SILENCE = bytes(2 * RATE * 2)
PAUSE = 6.5  # seconds: between the two turns of the clip
VAD = {"type": "server_vad", "silence_duration_ms": 800, "prefix_padding_ms": 300}


def push(stream, audio):
    """Push audio in frames of 50 ms."""
    for frame in frames(audio):
        stream.push_frame(frame)


def frames(audio):
    """Return audio in frames of 50 ms."""
    parts = (audio[first : first + FRAME_BYTES] for first in range(0, len(audio), FRAME_BYTES))
    return [rtc.AudioFrame(part, RATE, 1, len(part) // 2) for part in parts]


def recognizer(server, **options):
    """Return the plugin's recognizer."""
    return openai.STT(base_url=server.address, api_key="secret", model="digits", **options)


def run(function):
    """Run a coroutine function in the plugin's HTTP context."""

    async def in_context():
        async with http_context.open():
            return await function()

    return asyncio.run(in_context())


def text_of(event):
    """Return the text of an event; None if it has none."""
    return event.alternatives[0].text if event.alternatives else None


def finals(events):
    """Return the final transcripts."""
    return [text_of(event) for event in events if event.type == Kind.FINAL_TRANSCRIPT]


async def talk(recognizer, audio, words):
    """Push audio; return the events until they have so many *words*."""
    events = []
    async with recognizer.stream() as stream:
        push(stream, audio)
        async for event in stream:
            events.append(event)
            if len(" ".join(finals(events)).split()) >= words:
                return events
    return events


def through_a_restart(make, restartable, speech, words):
    """Return the events of a stream whose server restarts in mid-sentence, and status codes."""
    codes = []

    async def transcribe():
        events, is_terminated = [], False
        async with make() as plugin, plugin.stream() as stream:

            @plugin.on("error")
            def go_on(error):
                codes.append(error.error.status_code)
                if len(codes) == 1:
                    restartable.restart()
                    push(stream, speech(start=PAUSE) + SILENCE)

            push(stream, speech(stop=PAUSE - 0.5))
            async for event in stream:
                events.append(event)
                if event.type == Kind.INTERIM_TRANSCRIPT and not is_terminated:
                    is_terminated = True
                    restartable.terminate()
                if len(" ".join(finals(events)).split()) >= words:
                    break
        return events

    return run(transcribe), codes


def test_a_stream_has_the_turns_of_the_command_line(server, expected, speech):
    """Speech starts and ends before the final transcript of each turn."""

    async def transcribe():
        async with recognizer(server, use_realtime=True, turn_detection=VAD) as plugin:
            return await talk(plugin, speech() + SILENCE, len(expected.words))

    events = run(transcribe)

    assert finals(events) == list(expected.turns)
    edges = {Kind.START_OF_SPEECH, Kind.END_OF_SPEECH, Kind.FINAL_TRANSCRIPT}
    turn = [Kind.START_OF_SPEECH, Kind.END_OF_SPEECH, Kind.FINAL_TRANSCRIPT]
    assert [event.type for event in events if event.type in edges] == turn * len(expected.turns)
    turns = iter(expected.turns)
    current = next(turns)
    for event in events:
        if event.type == Kind.INTERIM_TRANSCRIPT:
            assert current.startswith(text_of(event))
        elif event.type == Kind.FINAL_TRANSCRIPT:
            current = next(turns, "")


def test_the_defaults_of_the_plugin_have_the_words_of_the_command_line(server, expected, speech):
    """They end turns after 0.35 s of silence, which is shorter than their padding of 0.6 s."""

    async def transcribe():
        async with recognizer(server, use_realtime=True) as plugin:
            return await talk(plugin, speech() + SILENCE, len(expected.words))

    assert " ".join(finals(run(transcribe))) == expected.text


def test_a_second_stream_on_the_same_socket_has_the_same_words(server, expected, speech):
    """The plugin pools its sockets, so one session serves several streams."""

    async def transcribe():
        options = {
            "use_realtime": True,
            "turn_detection": VAD,
            "noise_reduction_type": "near_field",
        }
        async with recognizer(server, **options) as plugin:
            audio = speech() + SILENCE
            return [finals(await talk(plugin, audio, len(expected.words))) for _ in range(2)]

    assert run(transcribe) == [list(expected.turns)] * 2


def test_an_option_that_changes_between_turns_loses_no_word(server, expected, speech):
    """`update_options` sends a new configuration to the running session."""

    async def transcribe():
        events = []
        async with (
            recognizer(server, use_realtime=True, turn_detection=VAD) as plugin,
            plugin.stream() as stream,
        ):
            push(stream, speech(stop=PAUSE) + SILENCE)
            async for event in stream:
                events.append(event)
                if event.type == Kind.FINAL_TRANSCRIPT and len(finals(events)) == 1:
                    plugin.update_options(prompt="digits", turn_detection={**VAD, "threshold": 0.4})
                    push(stream, speech(start=PAUSE) + SILENCE)
                if len(finals(events)) == len(expected.turns):
                    break
        return events

    assert finals(run(transcribe)) == list(expected.turns)


def test_a_restart_loses_no_word(restartable, expected, speech):
    """SIGTERM completes the open turn; the plugin reconnects and continues."""
    make = partial(recognizer, restartable, use_realtime=True, turn_detection=VAD)
    events, codes = through_a_restart(make, restartable, speech, len(expected.words))

    assert codes == [1012]
    assert finals(events) == list(expected.turns)
