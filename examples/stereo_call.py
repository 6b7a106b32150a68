"""Transcribe one speaker per channel: python stereo_call.py http://127.0.0.1:8000/v1 call.wav."""

from __future__ import annotations

import os
from pathlib import Path
import sys

from openai import OpenAI


def transcribe(address: str, path: Path) -> None:
    """Print the lines of all channels, in the order of time."""
    with OpenAI(base_url=address, api_key=os.environ.get("OPENAI_API_KEY", "none")) as client:
        (model, *_) = client.models.list()
        found = client.audio.transcriptions.create(
            file=path,
            model=model.id,
            response_format="verbose_json",
            timestamp_granularities=["segment"],
            extra_body={"multichannel": "true"},
        )
    for segment in found.segments or []:
        print(f"{segment.start:7.2f} {segment.speaker}: {segment.text}")


if len(sys.argv) != 3:  # noqa: PLR2004 -- this script, an address and a recording
    sys.exit("usage: python stereo_call.py http://127.0.0.1:8000/v1 call.wav")
transcribe(sys.argv[1], Path(sys.argv[2]))
