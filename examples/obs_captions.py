"""Show live captions in OBS Studio: obs_captions.py http://127.0.0.1:8000/v1 captions.txt."""

from __future__ import annotations

import base64
import os
from pathlib import Path
import sys
from textwrap import wrap
import threading
import time
from typing import Any

from openai import OpenAI

from wlk_live import Microphone, decode_file
from wlk_live.audio import rechunk

RATE = 16_000
LINES, WIDTH = 2, 42  # usual for subtitles
FORM = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": {"type": "server_vad"}}
SESSION = {"type": "transcription", "audio": {"input": FORM}, "include": ["wlk.hypothesis"]}


def speak(connection: Any, recording: str | None) -> None:
    """Send audio from the microphone, or a recording in real time."""
    connection.send({"type": "session.update", "session": SESSION})
    chunks = Microphone() if recording is None else rechunk(decode_file(recording), RATE // 10)
    for chunk in chunks:
        data = base64.b64encode((chunk * 32_767).astype("<i2").tobytes()).decode()
        connection.send({"type": "input_audio_buffer.append", "audio": data})
        if recording is not None:
            time.sleep(len(chunk) / RATE)
    connection.send({"type": "wlk.end"})


def caption(address: str, path: Path, recording: str | None = None) -> None:
    """Update a file until the audio ends; OBS reads it after every change."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    with OpenAI(base_url=address, api_key=key) as client, client.realtime.connect() as connection:
        threading.Thread(target=speak, args=(connection, recording), daemon=True).start()
        committed, hypothesis = "", ""
        for event in connection:
            if event.type.endswith(".delta"):
                committed = f"{committed}{event.delta}"[-4 * LINES * WIDTH :]
            elif event.type.endswith(".completed"):
                committed += " "
            elif event.type == "wlk.hypothesis":
                hypothesis = event.text
            lines = wrap(committed + hypothesis, WIDTH)[-LINES:]
            temporary = path.with_suffix(".new")
            temporary.write_text("\n".join(lines), encoding="utf-8")
            temporary.replace(path)  # so that OBS never reads an incomplete file


if len(sys.argv) not in {3, 4}:
    sys.exit("usage: python obs_captions.py http://127.0.0.1:8000/v1 captions.txt [demo.flac]")
caption(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
