"""Both Deepgram services of Pipecat, unmodified: only their addresses are set."""

from __future__ import annotations

import asyncio

import pytest

REASON = "install pipecat-ai[deepgram], or run nox -s clients"
pytest.importorskip("pipecat.services.deepgram.flux.stt", reason=REASON)

from pipecat.frames.frames import (  # noqa: E402 -- after the skip
    ErrorFrame,
    InterimTranscriptionFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    STTUpdateSettingsFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.services.deepgram.flux.stt import DeepgramFluxSTTService  # noqa: E402 -- as above
from pipecat.services.deepgram.stt import DeepgramSTTService  # noqa: E402 -- as above

from .test_pipecat import PAUSE, RATE, SILENCE, Talk, frames  # noqa: E402 -- as above

READY = "Websocket connection initialized"
CONNECTED = "Connected to Flux"


def listener(server, **settings):
    """Return the service for `/v1/listen`, which takes a host address."""
    address = server.address.removesuffix("/v1").replace("http:", "ws:")
    chosen = DeepgramSTTService.Settings(**settings)
    return DeepgramSTTService(api_key="secret", base_url=address, settings=chosen)


def flux(server, *, eager=False, **settings):
    """Return the service for `/v2/listen`, which takes the whole address."""
    address = server.address.replace("http:", "ws:").replace("/v1", "/v2/listen")
    chosen = DeepgramFluxSTTService.Settings(**settings)
    return DeepgramFluxSTTService(
        api_key="secret", url=address, settings=chosen, enable_eager_end_of_turn=eager
    )


def talk(service, words, *queued, ready):
    """Run a pipeline with a service until it has so many words."""

    async def run():
        return await Talk(service(), words, *queued, ready=ready).run()

    return asyncio.run(run())


def test_a_turn_that_the_pipeline_ends_is_finalized(server, expected, speech):
    """The last frame of a turn answers Finalize; the audio needs no silence."""
    queued = [*frames(speech(RATE, stop=PAUSE)), VADUserStoppedSpeakingFrame()]
    words = len(expected.turns[0].split())
    done = talk(lambda: listener(server), words, queued, ready=READY)

    assert " ".join(done.finals) == expected.turns[0]
    last = done.kept(TranscriptionFrame)[-1]
    assert (last.finalized, last.result.from_finalize) == (True, True)
    assert done.kept(InterimTranscriptionFrame)
    assert done.kept(ErrorFrame) == []


def test_endpointing_has_the_words_of_the_command_line(server, expected, speech):
    """Interim frames have the text that is not final, as with Deepgram."""
    queued = frames(speech(RATE) + SILENCE)
    done = talk(
        lambda: listener(server, endpointing=300, utterance_end_ms=1000),
        len(expected.words),
        queued,
        ready=READY,
    )

    assert " ".join(done.finals) == expected.text
    assert done.kept(ErrorFrame) == []


@pytest.mark.parametrize("eager", [False, True])
def test_flux_has_the_turns_of_the_command_line(server, expected, speech, eager):
    """It announces when the user starts and stops speaking, upstream and downstream."""
    queued = frames(speech(RATE) + SILENCE)
    done = talk(lambda: flux(server, eager=eager), len(expected.words), queued, ready=CONNECTED)

    assert done.finals == list(expected.turns)
    twice = 2 * len(expected.turns)
    assert len(done.kept(ProposedUserStartedSpeakingFrame)) == twice
    assert len(done.kept(ProposedUserStoppedSpeakingFrame)) == twice
    assert done.kept(ErrorFrame) == []


def test_flux_takes_other_settings_in_the_middle_of_a_turn(server, expected, speech):
    """They apply from the next turn on, so that no word is cut."""
    change = DeepgramFluxSTTService.Settings(eot_threshold=0.8, keyterm=["digits"])
    first = [*frames(speech(RATE, stop=3.0)), STTUpdateSettingsFrame(delta=change)]
    first += frames(speech(RATE, start=3.0, stop=PAUSE) + SILENCE)
    second = frames(speech(RATE, start=PAUSE) + SILENCE)
    ready = f"{CONNECTED}|User stopped speaking"
    done = talk(lambda: flux(server), len(expected.words), first, second, ready=ready)

    assert done.finals == list(expected.turns)
    assert done.kept(ErrorFrame) == []
