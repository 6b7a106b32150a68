"""The client of a transcription endpoint: audio out, words with times back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
import weakref

import numpy as np
import openai

from wlk_core.plugins import SAMPLE_RATE, Hypothesis
from wlk_whisper.engine.word_times import drop_loop, tighten_to_speech
from wlk_whisper.openai_api.bounded_http import BoundedHttpClient
from wlk_whisper.openai_api.call_limits import CallLimits
from wlk_whisper.openai_api.errors import EXPECTED_ERRORS, backend_error
from wlk_whisper.openai_api.language_names import iso_639_1
from wlk_whisper.openai_api.response import TranscriptionResponse
from wlk_whisper.openai_api.retries import repeat
from wlk_whisper.openai_api.usage import UsageMeter
from wlk_whisper.openai_api.wav import pcm_wav

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_whisper.openai_api.endpoint import Endpoint
    from wlk_whisper.openai_api.usage import Usage

__all__ = ["ApiClient"]

_File = tuple[str, bytes, str]  # name, content, type

# OpenAI rejects audio under 0.1 s and bills whole seconds, so shorter audio is padded to a second.
MIN_SECONDS = 1.0
REJECTED = (openai.BadRequestError, openai.UnprocessableEntityError)
CONNECT_SECONDS = 5.0  # the official client's limit for opening a connection


class ApiClient:
    """
    A model at an endpoint; calls may come from any thread.

    Connections are closed when neither the backend nor a stream references the client any more.
    """

    def __init__(
        self, endpoint: Endpoint, model: str, *, timeout_seconds: float, max_retries: int
    ) -> None:
        self.endpoint = endpoint
        self.model = model
        self.meter = UsageMeter()
        self._timeout_seconds = timeout_seconds
        self._max_retries = max_retries
        # Redirects are not followed, because key and audio go to the chosen URL only.  Requests to
        # this machine ignore the proxies of the environment.
        http = BoundedHttpClient(
            trust_env=not endpoint.is_local, event_hooks={"request": [self.meter.watch]}
        )
        self._client = openai.OpenAI(
            api_key=endpoint.key,
            base_url=endpoint.url,
            timeout=openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            max_retries=0,  # `repeat` counts and times them for the whole call
            http_client=http,
        )
        # The client reads all of these from the environment.  No request here is administrative.
        self._client.admin_api_key = None
        if not endpoint.is_openai:  # they were set for OpenAI and are sent to OpenAI only
            self._client.organization = self._client.project = None
            # The headers of OPENAI_CUSTOM_HEADERS have no public switch.
            self._client._custom_headers = {}  # noqa: SLF001
        weakref.finalize(self, http.close)

    @property
    def usage(self) -> Usage:
        """
        Requests and seconds of audio sent, including repeated attempts and warmup.

        Attempts that did not reach an endpoint are not counted.  Streams that outlive the backend
        continue to count.
        """
        return self.meter.usage

    def transcribe(
        self,
        audio: NDArray[np.float32],
        *,
        prompt: str,
        language: str | None,
        task: str = "transcribe",
        is_forced: bool = False,
    ) -> Hypothesis:
        """
        Return the endpoint's transcript of float32[n] at 16 kHz, n > 0.

        Transcribed words have times of their own.  A translation has times of its segments only,
        and each segment is one piece of text.  Work counters are empty, because the model runs
        elsewhere.

        A language that was not forced (*is_forced*) was detected, and is sent only as long as the
        endpoint accepts it, because a wrong detection must not end a stream.

        The call ends after `timeout_seconds`, with all its attempts and the pauses between them.

        Raises:
            BackendError: the endpoint returned no such response; `retryable` if another attempt
                may succeed, after all attempts of this call (`is_exhausted`).

        """
        padded = _pad(audio)
        fields = {"model": self.model, "response_format": "verbose_json"}
        if prompt:  # an empty prompt changes the transcript
            fields["prompt"] = prompt
        file = ("audio.wav", pcm_wav(padded), "audio/wav")
        if task == "translate":
            request = partial(self._request_translation, fields, file)
        else:
            codes = _language_codes(language, is_forced=is_forced)
            request = partial(self._request_in_language, fields, file, codes)
        seconds = len(padded) / SAMPLE_RATE
        limits = CallLimits.of_seconds(self._timeout_seconds)
        try:
            with self.meter.sending(seconds), limits.applied():
                response = repeat(
                    partial(request, seconds), max_retries=self._max_retries, limits=limits
                )
            if task == "translate":
                return Hypothesis(words=drop_loop(response.timed_segments()))
            words = tighten_to_speech(drop_loop(response.timed_words()), audio)
            return Hypothesis(words=words, language=language or response.language)
        except EXPECTED_ERRORS as error:
            failure = backend_error(error, endpoint=self.endpoint, model=self.model)
        raise failure

    def _request_in_language(
        self, fields: dict[str, Any], file: _File, codes: Sequence[str | None], seconds: float
    ) -> TranscriptionResponse:
        """Return the response for the first of *codes* that the endpoint accepts."""
        *others, last = codes
        for code in others:
            try:
                return self._request_transcription(fields, file, code, seconds)
            except REJECTED:  # endpoints name the rejected field in different ways
                continue
        return self._request_transcription(fields, file, last, seconds)

    def _request_transcription(
        self, fields: dict[str, Any], file: _File, language: str | None, seconds: float
    ) -> TranscriptionResponse:
        if language is not None:
            fields = {**fields, "language": language}
        # The body is parsed here, because the client's own models accept any response.
        response: Any = self._client.audio.transcriptions.with_raw_response.create(
            file=file, timestamp_granularities=["word", "segment"], **fields
        )
        http = response.http_response
        content_type = http.headers.get("content-type", "")
        return TranscriptionResponse.parse(
            http.text, content_type=content_type, audio_seconds=seconds
        )

    def _request_translation(
        self, fields: dict[str, Any], file: _File, seconds: float
    ) -> TranscriptionResponse:
        # This endpoint takes neither a language nor timestamp_granularities.  The client's own
        # method warns that OpenAI retires it; other servers do not.
        body = self._client.post(
            "/audio/translations",
            cast_to=str,
            body=fields,
            files=[("file", file)],
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )
        return TranscriptionResponse.parse(body, audio_seconds=seconds)


def _language_codes(language: str | None, *, is_forced: bool) -> tuple[str | None, ...]:
    """Return the codes to send, each where the endpoint rejects the previous one."""
    if language is None:
        return (None,)
    documented = iso_639_1(language)  # the API documents ISO 639-1; servers may use Whisper's codes
    other = language if is_forced else None
    return (other,) if documented in (None, other) else (documented, other)


def _pad(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    missing = round(MIN_SECONDS * SAMPLE_RATE) - len(audio)
    return np.pad(audio, (0, missing)) if missing > 0 else audio
