"""Caption into a text source of OBS: obs_captions.py http://127.0.0.1:8000/v1 captions.txt."""

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

from wlk_core.audio import decode_file, rechunk
from wlk_core.microphone import Microphone

RATE = 16_000
LINES, WIDTH = 2, 42  # of subtitles
FORM = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": {"type": "server_vad"}}
SESSION = {"type": "transcription", "audio": {"input": FORM}, "include": ["wlk.hypothesis"]}


def speak(connection: Any, recording: str | None) -> None:
    """Send the microphone, or a recording at the speed of speech."""
    connection.send({"type": "session.update", "session": SESSION})
    for chunk in Microphone() if recording is None else rechunk(decode_file(recording), RATE // 10):
        data = base64.b64encode((chunk * 32_767).astype("<i2").tobytes()).decode()
        connection.send({"type": "input_audio_buffer.append", "audio": data})
        time.sleep(0.0 if recording is None else len(chunk) / RATE)
    connection.send({"type": "wlk.end"})


def caption(address: str, path: Path, recording: str | None = None) -> None:
    """Rewrite the file, which OBS reads again whenever it changes, until the audio is over."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    with OpenAI(base_url=address, api_key=key) as client, client.realtime.connect() as connection:
        threading.Thread(target=speak, args=(connection, recording), daemon=True).start()
        said, maybe = "", ""  # text that stays, text that may change
        for event in connection:
            if event.type.endswith(".delta"):
                said = f"{said}{event.delta}"[-4 * LINES * WIDTH :]
            elif event.type.endswith(".completed"):
                said += " "
            elif event.type == "wlk.hypothesis":
                maybe = event.text
            written = path.with_suffix(".new")
            written.write_text("\n".join(wrap(said + maybe, WIDTH)[-LINES:]), encoding="utf-8")
            written.replace(path)  # OBS never reads half of it


if len(sys.argv) not in {3, 4}:
    sys.exit("usage: python obs_captions.py http://127.0.0.1:8000/v1 captions.txt [demo.flac]")
caption(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
