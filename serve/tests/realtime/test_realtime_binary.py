"""Binary messages of a Realtime session, which are audio without base64."""

from __future__ import annotations

import json


def update(protocol, **audio_input):
    """Configure a session."""
    session = {"audio": {"input": audio_input}}
    protocol.receive(json.dumps({"type": "session.update", "session": session}))


def error_code(messages):
    """Return the code of the only message."""
    (message,) = messages
    return message["error"]["code"]


def test_binary_audio_is_an_append(protocol, streams):
    """It has no answer, and its samples count."""
    update(protocol, format={"type": "audio/pcmu"})

    assert [] == protocol.receive(bytes(80))
    assert (("receive", 80), 80, 8000) == (
        streams[0].calls[0],
        protocol.audio.samples,
        protocol.audio.settings.rate,
    )


def test_binary_audio_before_an_update_is_an_error(protocol, streams):
    """Its format is not known then."""
    assert "invalid_event" == error_code(protocol.receive(bytes(80)))
    assert [] == streams


def test_half_a_sample_is_an_error(protocol):
    """Nothing of the message is taken."""
    update(protocol)

    assert "invalid_value" == error_code(protocol.receive(bytes(3)))
    assert 0 == protocol.audio.samples


def test_binary_audio_after_the_end_is_an_error(protocol):
    """As any message then, unless the server ended it: its client cannot know yet."""
    update(protocol)
    protocol.receive('{"type": "wlk.end"}')

    assert "session_expired" == error_code(protocol.receive(bytes(2)))


def test_messages_after_the_server_ended_the_session_are_ignored(protocol):
    """An error before the last words would end some clients."""
    update(protocol)
    protocol.end()

    assert [] == protocol.receive(bytes(2)) + protocol.receive('{"type": "session.update"}')
