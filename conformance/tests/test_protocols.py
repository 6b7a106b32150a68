"""The rules of protocols: a correct one keeps all of them, and each faulty one breaks its own."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

pytest.importorskip("wlk_serve")

from wlk_conformance.protocols import RULES, Client, PlayedSession, PlayedStream, broken_rules, main
from wlk_live.errors import SessionOverloaded
from wlk_live.session import Commit, Endpoint, Failure
from wlk_serve.protocols import Opening, SocketRoute, StreamOptions


class Honest:
    """Audio in, words out; an empty message ends."""

    replaceable = ()

    def __init__(self, audio, _info):
        self.audio = audio

    def begin(self):
        """Return nothing."""
        return []

    def receive(self, data):
        """Take audio or the end."""
        if isinstance(data, bytes) and data and len(data) % 2 == 0:
            self.audio.append(data)
        elif data == "end":
            self.audio.end()
        return []

    def handle(self, event):
        """Return the words and a failure."""
        if isinstance(event, Commit):
            return [{"text": token.text} for token in event.tokens]
        return [{"error": "failed"}] if isinstance(event, Failure) else []

    def refuse(self, error):
        """Return the error."""
        return [{"error": str(error)}]

    def end(self):
        """End the audio."""
        self.audio.end()
        return []


class Losing(Honest):
    """Forgets the words of the last part of an utterance."""

    def handle(self, event):
        """Return the words one commit late."""
        held = getattr(self, "held", [])
        if isinstance(event, Commit):
            self.held = super().handle(event)
            return held
        if isinstance(event, Endpoint):
            self.held = []
        return super().handle(event)


class Raising(Honest):
    """Raises for an unknown message."""

    def receive(self, data):
        """Take audio or the end, and raise for anything else."""
        if isinstance(data, str) and data != "end":
            raise ValueError(data)
        return super().receive(data)


class Cutting(Honest):
    """Does not end at a shutdown."""

    def end(self):
        """Do nothing."""
        return []


class Silent(Honest):
    """Does not report failures."""

    def handle(self, event):
        """Return only the words."""
        return [] if isinstance(event, Failure) else super().handle(event)


class Leaking(Honest):
    """Sends clients the cause of a failure."""

    def handle(self, event):
        """Return the words, and the cause of a failure."""
        return (
            [{"error": str(event.error)}] if isinstance(event, Failure) else super().handle(event)
        )


class Unanswering(Honest):
    """Does not report a refusal."""

    def refuse(self, _error):
        """Return nothing."""
        return []


def client(kind):
    """Return the client of a protocol."""
    route = SocketRoute(
        protocol="test",
        path="/test",
        open=lambda handshake: Opening(
            make=kind, card=handshake.card(None), options=StreamOptions()
        ),
    )
    return Client(
        route=route,
        audio=lambda part: [part],
        end=["end"],
        text=lambda messages: "".join(message.get("text", "") for message in messages),
    )


CLIENT = client(Honest)


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (Honest, set()),
        (Losing, {"PRO-01", "PRO-02", "PRO-03"}),
        (Raising, {"PRO-02"}),
        (Cutting, {"PRO-03"}),
        (Silent, {"PRO-04"}),
        (Leaking, {"PRO-04"}),
        (Unanswering, {"PRO-05"}),
    ],
)
def test_a_faulty_protocol_breaks_its_own_rules(kind, rules):
    """It breaks those rules and no others, and a correct protocol breaks none."""
    assert set(broken_rules(client(kind))) == rules


def test_a_protocol_reports_what_the_stream_of_the_model_raises(monkeypatch):
    """A played session drops the pending audio and goes on, as the server does."""
    error = SessionOverloaded("60 s of audio wait")
    monkeypatch.setattr(PlayedStream, "receive", Mock(side_effect=error))
    session = PlayedSession(CLIENT)

    assert session.send(b"\1\0") == [{"error": "60 s of audio wait"}]
    assert not session.audio.is_waiting
    assert session.audio.seconds == 0


def test_the_command_prints_a_line_for_each_rule(capsys):
    """The status is 0 if all rules are kept."""
    assert main([f"{__name__}:CLIENT"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*RULES]
