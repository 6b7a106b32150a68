"""
Deepgram's transcription of recordings, ``POST /v1/listen``.

It follows the reference of Deepgram's API, and deepgram-sdk 7.17, listen/v1/media.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from wlk_live.captions.segments import segments_with_tokens
from wlk_protocols.deepgram.formatting import formatting_filters
from wlk_protocols.deepgram.messages import channel_record, metadata_fields, rounded
from wlk_protocols.deepgram.query import (
    header_of,
    ignored_fields,
    is_true,
    requested_language,
    terms_of,
)
from wlk_serve.protocols import RequestError, TranscriptionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols import Handshake, Message, ModelCard, RecordingRequest


_WITHOUT_MAGIC = {"audio/mpeg", "audio/mp3", "audio/aac", "audio/aacp", "audio/x-aac"}


def recording_request(handshake: Handshake, card: ModelCard) -> RecordingRequest:
    """
    Return the request of a recording, and the function that formats its answer.

    Raises:
        RequestError: a field is invalid, or requests something that this server does not support.

    """
    query = handshake.query
    media_type = handshake.headers.get("content-type", "").partition(";")[0].strip().lower()
    if "json" in media_type:
        raise RequestError(
            "expected a recording as the body, got JSON; this server does not fetch URLs",
            code="unsupported_url",
        )
    if media_type.startswith("multipart/"):
        raise RequestError(
            "expected a recording as the body, got a form; with curl, send it by --data-binary",
            code="unsupported_form",
        )
    if "callback" in query:
        raise RequestError(
            "expected no callback; the transcript is the response to this request",
            code="unsupported_callback",
        )
    is_multichannel = is_true(query, "multichannel")
    has_speakers = is_true(query, "diarize") and card.speaker_delay is not None
    # Deepgram's field is true, or repeated with the languages among which to detect.
    among = [code for code in query.getlist("detect_language") if code not in {"true", "false"}]
    detects_language = bool(among) or is_true(query, "detect_language")
    answer = partial(
        _answer,
        card=card,
        is_multichannel=is_multichannel,
        has_speakers=has_speakers,
        has_utterances=is_true(query, "utterances"),
        detects_language=detects_language,
        ignored=ignored_fields(query, card, "recordings"),
    )
    request = TranscriptionRequest(
        task="transcribe",
        model=card.name,
        language=(card.check_language(",".join(among)) if among else None)
        if detects_language
        else requested_language(query, card),
        keyterms=terms_of(query, card),
        filters=formatting_filters(query, card)[0],
        response_format="diarized_json" if has_speakers else "json",
        is_multichannel=is_multichannel,
        # Its media type alone tells MP3 and AAC without a header of their own from samples.
        header=b"" if media_type in _WITHOUT_MAGIC else header_of(query),
    )
    return request, answer


def _answer(
    request_id: str,
    words: Any,
    seconds: float,
    *,
    card: ModelCard,
    is_multichannel: bool,
    has_speakers: bool,
    has_utterances: bool,
    detects_language: bool,
    ignored: Sequence[str],
) -> Message:
    """Return the answer for the words of a recording, or, of several channels, of each."""
    spoken: Sequence[Sequence[ASRToken]] = words if is_multichannel else [words]
    results: Message = {"channels": []}
    utterances: list[Message] = []
    for number, tokens in enumerate(spoken):
        speakers: dict[int | str, int] | None = {} if has_speakers else None
        channel = channel_record(tokens, speakers)
        languages = channel["alternatives"][0].get("languages")
        if detects_language and languages:
            channel["detected_language"] = languages[0]
        results["channels"].append(channel)
        utterances += _utterances(tokens, number, speakers)
    if has_utterances:
        utterances.sort(key=itemgetter("start"))
        results["utterances"] = [
            {"id": f"{request_id}-{number}", **utterance}
            for number, utterance in enumerate(utterances)
        ]
    metadata = metadata_fields(card, request_id, seconds, ignored, channels=len(spoken))
    return {"metadata": metadata, "results": results}


def _utterances(
    tokens: Sequence[ASRToken], channel: int, speakers: dict[int | str, int] | None
) -> Iterator[Message]:
    for segment, words in segments_with_tokens(tokens):
        if not segment.text:
            continue
        (alternative,) = channel_record(words, speakers)["alternatives"]
        utterance = {
            "channel": channel,
            "start": rounded(segment.start),
            "end": rounded(segment.end),
            **{name: alternative[name] for name in ("transcript", "confidence", "words")},
        }
        if speakers is not None and segment.speaker is not None:
            utterance["speaker"] = speakers[segment.speaker]
        yield utterance
