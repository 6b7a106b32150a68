"""Print the timed words of a recording: python transcribe_file.py talk.flac faster-whisper base."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wlk_core import load_backend
from wlk_core.audio import decode_file

if TYPE_CHECKING:
    from wlk_core import Emission


def show(emission: Emission) -> None:
    """Print what became final."""
    for token in emission.committed:
        print(f"{token.start:8.2f} {token.end:8.2f} {token.text.strip()}", flush=True)


path, name, model = sys.argv[1:4]
with load_backend(name, model) as backend:
    stream = backend.create_processor()
    for chunk in decode_file(path):
        stream.insert_audio_chunk(chunk)
        show(stream.process_iter())
    show(stream.finish())
