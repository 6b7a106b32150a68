"""OpenAI's protocol keeps the rules that every protocol keeps."""

from __future__ import annotations

import base64
import json

import pytest

from wlk_conformance.protocols import RULES, Client
from wlk_serve.realtime.route import wlk_protocols


def append(part):
    """Return the message of a part of the audio."""
    audio = base64.b64encode(part).decode()
    return [json.dumps({"type": "input_audio_buffer.append", "audio": audio})]


def text(messages):
    """Return the joined transcripts of the items."""
    items = [message for message in messages if message["type"].endswith(".completed")]
    return " ".join(message["transcript"] for message in items)


CLIENT = Client(
    route=wlk_protocols()[0], rate=24_000, audio=append, end=['{"type": "wlk.end"}'], text=text
)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert None is RULES[rule][1](CLIENT)
