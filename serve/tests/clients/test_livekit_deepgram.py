"""The Deepgram plugin of LiveKit Agents, unmodified: only its `base_url` is set."""

from __future__ import annotations

from functools import partial

import pytest

REASON = "install livekit-plugins-deepgram, or run nox -s clients"
deepgram = pytest.importorskip("livekit.plugins.deepgram", reason=REASON)

from .test_livekit import (  # noqa: E402 -- after the skip
    PAUSE,
    SILENCE,
    Kind,
    finals,
    push,
    run,
    talk,
    text_of,
    through_a_restart,
)

EDGES = {Kind.START_OF_SPEECH, Kind.FINAL_TRANSCRIPT, Kind.END_OF_SPEECH}


def listener(server, **options):
    """Return the recognizer of `/v1/listen`."""
    return deepgram.STT(base_url=f"{server.address}/listen", api_key="secret", **options)


def flux(server, **options):
    """Return the recognizer of `/v2/listen`."""
    address = server.address.replace("/v1", "/v2/listen")
    return deepgram.STTv2(base_url=address, api_key="secret", **options)


def kinds(events):
    """Return the kinds of the events at the edges of turns."""
    return [event.type for event in events if event.type in EDGES]


def preflights(events):
    """Return the preflight transcripts that precede each final one."""
    found = [[]]
    for event in events:
        if event.type == Kind.PREFLIGHT_TRANSCRIPT:
            found[-1].append(text_of(event))
        elif event.type == Kind.FINAL_TRANSCRIPT:
            found.append([])
    return found[:-1]


def test_the_defaults_of_the_plugin_have_the_words_of_the_command_line(server, expected, speech):
    """Interim transcripts precede the final ones, and the start of speech precedes both."""

    async def transcribe():
        async with listener(server) as plugin:
            return await talk(plugin, speech() + SILENCE, len(expected.words))

    events = run(transcribe)

    assert " ".join(finals(events)) == expected.text
    assert kinds(events)[0] == Kind.START_OF_SPEECH
    assert Kind.INTERIM_TRANSCRIPT in {event.type for event in events}


def test_a_flush_brings_the_words_at_once(server, expected, speech):
    """No silence is needed, because the plugin sends Finalize."""

    async def transcribe():
        events = []
        async with listener(server, endpointing_ms=0) as plugin, plugin.stream() as stream:
            push(stream, speech(stop=PAUSE))
            stream.flush()
            async for event in stream:
                events.append(event)
                if event.type == Kind.END_OF_SPEECH:
                    break
        return events

    events = run(transcribe)

    assert " ".join(finals(events)) == expected.turns[0]


def test_flux_has_the_turns_of_the_command_line(server, expected, speech):
    """With a threshold, the agent can begin its answer before the turn ends."""

    async def transcribe():
        async with flux(server, eager_eot_threshold=0.6, keyterm=["digits"]) as plugin:
            return await talk(plugin, speech() + SILENCE, len(expected.words))

    events = run(transcribe)

    assert finals(events) == list(expected.turns)
    turn = [Kind.START_OF_SPEECH, Kind.FINAL_TRANSCRIPT, Kind.END_OF_SPEECH]
    assert kinds(events) == (turn * len(expected.turns))[:-1]
    assert preflights(events)[0] == [expected.turns[0]]


def test_flux_takes_other_settings_between_turns(server, expected, speech):
    """`update_options` sends Configure to the running session."""

    async def transcribe():
        events = []
        async with flux(server) as plugin, plugin.stream() as stream:
            push(stream, speech(stop=PAUSE) + SILENCE)
            async for event in stream:
                events.append(event)
                if event.type == Kind.END_OF_SPEECH and len(finals(events)) == 1:
                    plugin.update_options(eager_eot_threshold=0.4, keyterm=["digits"])
                    push(stream, speech(start=PAUSE) + SILENCE)
                if len(finals(events)) == len(expected.turns):
                    break
        return events

    events = run(transcribe)

    assert finals(events) == list(expected.turns)
    first, second = preflights(events)
    assert first == []
    assert second != []


@pytest.mark.parametrize("recognizer", [listener, flux])
def test_a_restart_loses_no_word(restartable, expected, speech, recognizer):
    """SIGTERM ends the turn with its words; the plugin reconnects and continues."""
    make = partial(recognizer, restartable)
    events, codes = through_a_restart(make, restartable, speech, len(expected.words))

    assert codes == [1012]
    assert " ".join(finals(events)) == expected.text
