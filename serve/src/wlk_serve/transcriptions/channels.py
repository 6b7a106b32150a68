"""Answer with the transcripts of a recording's channels, as one in the order of time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_live.captions.segments import (
    VTT_HEADER,
    segments_from_tokens,
    srt_cue,
    text_cue,
    vtt_cue,
)
from wlk_live.channels import channel_name, in_order
from wlk_live.records import round_seconds
from wlk_serve.transcriptions.protocol import language_name, plain_fields, segment_entry
from wlk_serve.words import word_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.tokens import ASRToken
    from wlk_live.captions.segments import Segment
    from wlk_serve.protocols.options import TranscriptionRequest


def render_channels(
    request: TranscriptionRequest, channels: Sequence[Sequence[ASRToken]], seconds: float
) -> tuple[str, str]:
    """
    Return the media type and the body of the answer to *request*.

    *channels* has the words of each channel.  A channel is the speaker of its words; segments of
    several channels follow each other by their start.
    """
    spoken = [
        [attrs.evolve(token, speaker=channel_name(channel)) for token in tokens]
        for channel, tokens in enumerate(channels)
    ]
    segments = in_order(map(segments_from_tokens, spoken))
    cues = {"text": text_cue, "srt": srt_cue, "vtt": vtt_cue}
    if cue := cues.get(request.response_format):
        head = VTT_HEADER if request.response_format == "vtt" else ""
        kind = "text/vtt" if head else "text/plain"
        body = "".join(cue(number, segment) for number, (_, segment) in enumerate(segments, 1))
        return f"{kind}; charset=utf-8", head + body
    record: dict[str, Any] = {
        "text": " ".join(segment.text for _, segment in segments if segment.text),
        "channels": [
            {"channel": channel, "text": "".join(token.text for token in tokens).strip()}
            for channel, tokens in enumerate(channels)
        ],
        "usage": {"type": "duration", "seconds": round_seconds(seconds)},
    }
    words = [token for _, token in in_order(spoken)]
    if request.response_format == "verbose_json":
        record |= _verbose_fields(request, segments, words, seconds)
    else:
        record |= plain_fields(request, words)
    return "application/json", json.dumps(record)


def _verbose_fields(
    request: TranscriptionRequest,
    segments: Sequence[tuple[int, Segment]],
    words: Sequence[ASRToken],
    seconds: float,
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "task": request.task,
        "language": language_name(words, request),
        "duration": round_seconds(seconds),
    }
    if "segment" in request.granularities:
        fields["segments"] = [
            {**segment_entry(number, segment, segment.tokens), "channel": channel}
            for number, (channel, segment) in enumerate(segments)
        ]
    if "word" in request.granularities:
        fields["words"] = word_records(words)
    return fields
