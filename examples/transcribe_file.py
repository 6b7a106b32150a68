"""Print the timed words of a recording: python transcribe_file.py talk.flac faster-whisper base."""

from __future__ import annotations

import sys

from wlk_core import load_backend
from wlk_live import Commit, decode_file, stream

if len(sys.argv) != 4:  # noqa: PLR2004 -- this script and three arguments
    sys.exit("usage: python transcribe_file.py talk.flac faster-whisper base")
path, name, model = sys.argv[1:]
with load_backend(name, model) as backend:
    for event in stream(backend, decode_file(path)):
        if isinstance(event, Commit):
            for token in event.tokens:
                print(f"{token.start:8.2f} {token.end:8.2f} {token.text.strip()}", flush=True)
