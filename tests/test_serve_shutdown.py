"""SIGTERM to a server process in the middle of sentences."""

from __future__ import annotations

from contextlib import ExitStack
import json
import signal
import subprocess
import sys

import pytest

from wlk_conformance.testing import load_clip

pytest.importorskip("wlk_serve", reason="pip install wlk-serve")
pytest.importorskip("faster_whisper", reason="pip install wlk-whisper")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

COMMAND = [sys.executable, "-m", "wlk_serve", "--port", "0", "--drain-seconds", "0"]
COMMAND += ["--backend", "faster-whisper", "--model", "digits"]
DELTA = "conversation.item.input_audio_transcription.delta"
FORMAT = {"type": "audio/pcm", "rate": 16_000}
INPUT = {"format": FORMAT, "turn_detection": None}
UPDATE = {"type": "session.update", "session": {"type": "transcription", "audio": {"input": INPUT}}}
RESTART = 1012  # WebSocket close code: service restart
SESSIONS = 3


def received(socket, until=None):
    """Return the first delta, or the text of all deltas with the close code of the connection."""
    text = ""
    try:
        while True:
            event = json.loads(socket.recv(60))
            assert event["type"] != "error", event
            if event["type"] == DELTA:
                text += event["delta"]
                if until == DELTA:
                    return text, None
    except ConnectionClosed as closed:
        return text, closed.rcvd.code


@pytest.mark.slow
def test_sigterm_in_mid_sentence_loses_no_word():
    """Each session receives the words of all audio that had arrived, and then close code 1012."""
    clip = load_clip("demo")
    data = (clip.audio * 32_767).astype("<i2").tobytes()
    with ExitStack() as stack:
        server = stack.enter_context(subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        address = server.stderr.readline().split("http://")[1].split()[0]
        url = f"ws://{address}/v1/realtime?intent=transcription"
        sockets = [stack.enter_context(connect(url)) for _ in range(SESSIONS)]
        for socket in sockets:
            socket.send(json.dumps(UPDATE))
            socket.send(data)
        begun = [received(socket, until=DELTA)[0] for socket in sockets]
        server.send_signal(signal.SIGTERM)
        rest = [received(socket) for socket in sockets]
        status = server.wait(60)

    texts = [(first + text).split() for first, (text, _) in zip(begun, rest, strict=True)]
    assert texts == [clip.text.split()] * SESSIONS
    assert [code for _, code in rest] == [RESTART] * SESSIONS
    assert status == 0
