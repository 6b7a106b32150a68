"""Show live captions in OBS Studio: obs_captions.py http://127.0.0.1:8000/v1 captions.txt."""

from __future__ import annotations

import base64
from contextlib import suppress
from operator import itemgetter
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
LINES, WIDTH = 2, 42  # usual for subtitles; in each language
EMPTY_AFTER = 10.0  # seconds without a new word
FORM = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": {"type": "server_vad"}}
INCLUDE = ["wlk.hypothesis", "wlk.translation"]  # the second for servers with --translate-to
SESSION = {"type": "transcription", "audio": {"input": FORM}, "include": INCLUDE}


class Captions:
    """What is said, each part with its start, its utterance and its speaker, if known."""

    def __init__(self) -> None:
        self.parts: list[tuple[float, str, str | None, str]] = []
        self.labelled: set[str] = set()  # utterances whose parts are those of one speaker each
        self.hypothesis = self.translation = ""

    def follow(self, connection: Any) -> None:
        """Apply the messages of a server until it closes."""
        for event in connection:
            kind = event.type.rpartition(".")[2]
            if kind == "delta":
                self.add(event, (event.words or [{}])[0].get("speaker"), event.delta)
                self.hypothesis = ""  # it began with these words
            elif kind == "segment":  # after the words: a diarizer needs the audio after them
                if event.item_id not in self.labelled:
                    self.labelled.add(event.item_id)
                    self.parts = [part for part in self.parts if part[1] != event.item_id]
                self.add(event, event.speaker, f" {event.text}")
            elif kind == "hypothesis":
                self.hypothesis = event.text
            elif kind == "translation":
                self.translation = event.text

    def add(self, event: Any, speaker: str | None, text: str) -> None:
        """Add a part, and forget old ones."""
        parts = [*self.parts[-50:], (event.start, event.item_id, speaker, text)]
        self.parts = sorted(parts, key=itemgetter(0))

    def lines(self) -> list[str]:
        """Return the newest lines: the words, a name where the speaker changes, a translation."""
        rows, item, speaker = [""], "", None
        for _, of_item, said_by, text in self.parts:
            if said_by not in {None, "unknown", speaker}:
                rows.append(f"{said_by}:")
                speaker = said_by
            rows[-1] += text if of_item == item and rows[-1] else f" {text}"
            item = of_item
        rows[-1] += self.hypothesis
        spoken = [line for row in rows for line in wrap(" ".join(row.split()), WIDTH)]
        return spoken[-LINES:] + wrap(self.translation, WIDTH)[-LINES:]


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


def write(captions: Captions, path: Path, is_over: threading.Event) -> None:
    """Keep a file up to date, which OBS reads after every change."""
    temporary = path.with_name(f"{path.name}.new")
    written, newest, since = None, [""], time.monotonic()
    while True:
        is_last = is_over.wait(0.1)
        if (lines := captions.lines()) != newest:
            newest, since = lines, time.monotonic()
        text = "\n".join(newest) if time.monotonic() < since + EMPTY_AFTER else ""
        if text != written:
            temporary.write_text(text, encoding="utf-8")
            with suppress(PermissionError):  # on Windows, while OBS reads: then a little later
                temporary.replace(path)  # so that OBS never reads an incomplete file
                written = text
        if is_last and text == written:
            return


def caption(address: str, path: Path, recording: str | None = None) -> None:
    """Show captions until the server closes."""
    key, captions, is_over = os.environ.get("OPENAI_API_KEY", "none"), Captions(), threading.Event()
    with OpenAI(base_url=address, api_key=key) as client, client.realtime.connect() as connection:
        threading.Thread(target=speak, args=(connection, recording), daemon=True).start()
        writer = threading.Thread(target=write, args=(captions, path, is_over), daemon=True)
        writer.start()
        captions.follow(connection)
        is_over.set()
        writer.join()


if len(sys.argv) not in {3, 4}:
    sys.exit("usage: python obs_captions.py http://127.0.0.1:8000/v1 captions.txt [demo.flac]")
caption(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
