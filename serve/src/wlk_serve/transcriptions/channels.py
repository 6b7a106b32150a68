"""Answer with the transcripts of a recording's channels, as one in the order of time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_live.captions.segments import (
    VTT_HEADER,
    segments_with_tokens,
    srt_cue,
    text_cue,
    vtt_cue,
)
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
        [attrs.evolve(token, speaker=_name(channel)) for token in tokens]
        for channel, tokens in enumerate(channels)
    ]
    segments = sorted(
        (
            (segment, channel, words)
            for channel, tokens in enumerate(spoken)
            for segment, words in segments_with_tokens(tokens)
        ),
        key=lambda each: each[0].start,
    )
    cues = {"text": text_cue, "srt": srt_cue, "vtt": vtt_cue}
    if cue := cues.get(request.response_format):
        head = VTT_HEADER if request.response_format == "vtt" else ""
        kind = "text/vtt" if head else "text/plain"
        body = "".join(cue(number, each[0]) for number, each in enumerate(segments, 1))
        return f"{kind}; charset=utf-8", head + body
    record: dict[str, Any] = {
        "text": " ".join(segment.text for segment, _, _ in segments if segment.text),
        "channels": [
            {"channel": channel, "text": "".join(token.text for token in tokens).strip()}
            for channel, tokens in enumerate(channels)
        ],
        "usage": {"type": "duration", "seconds": round_seconds(seconds)},
    }
    words = sorted((token for tokens in spoken for token in tokens), key=lambda token: token.start)
    if request.response_format == "verbose_json":
        record |= _verbose_fields(request, segments, words, seconds)
    else:
        record |= plain_fields(request, words)
    return "application/json", json.dumps(record)


def _verbose_fields(
    request: TranscriptionRequest,
    segments: Sequence[tuple[Segment, int, Sequence[ASRToken]]],
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
            {**segment_entry(number, segment, tokens), "channel": channel}
            for number, (segment, channel, tokens) in enumerate(segments)
        ]
    if "word" in request.granularities:
        fields["words"] = word_records(words)
    return fields


def _name(channel: int) -> str:
    return f"Channel {channel + 1}"
