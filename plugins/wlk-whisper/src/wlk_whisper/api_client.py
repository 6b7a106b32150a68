"""The client of a transcription endpoint: one stretch of audio there, timed words back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
import weakref

import numpy as np
import openai

from wlk_core import SAMPLE_RATE, Hypothesis
from wlk_whisper.alignment import settle_times, without_loops
from wlk_whisper.api_answer import Answer
from wlk_whisper.api_cost import Meter
from wlk_whisper.api_errors import EXPECTED_ERRORS, told
from wlk_whisper.language_names import iso_639_1
from wlk_whisper.pcm_wav import pcm_wav

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_whisper.api_endpoint import Endpoint

__all__ = ["ApiClient"]

_File = tuple[str, bytes, str]  # name, content, type

# OpenAI refuses audio under 0.1 s and bills whole seconds: what is shorter is padded with silence.
LEAST_SECONDS = 1.0
NOT_TAKEN = (openai.BadRequestError, openai.UnprocessableEntityError)
CONNECT_SECONDS = 5.0  # what the official client allows for opening a connection


class ApiClient:
    """
    A model at an endpoint; calls may come from any thread.

    Connections are closed when neither the backend nor a stream holds the client any more.
    """

    def __init__(
        self, endpoint: Endpoint, model: str, *, timeout_seconds: float, max_retries: int
    ) -> None:
        self.endpoint = endpoint
        self.model = model
        self.meter = Meter()
        # Redirects are not followed: key and audio go to the chosen URL and nowhere else.  What
        # goes to this machine takes no detour through a proxy that the environment names.
        http = openai.DefaultHttpxClient(
            follow_redirects=False,
            trust_env=not endpoint.is_here,
            event_hooks={"request": [self.meter.watch]},
        )
        self._client = openai.OpenAI(
            api_key=endpoint.key,
            base_url=endpoint.url,
            timeout=openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            max_retries=max_retries,
            http_client=http,
        )
        # All of these the client reads from the environment.  Nothing here is an administrator's.
        self._client.admin_api_key = None
        if not endpoint.is_openai:  # for OpenAI they were put there, and are its business only
            self._client.organization = self._client.project = None
            # The headers of OPENAI_CUSTOM_HEADERS: there is no public way to be without them.
            self._client._custom_headers = {}  # noqa: SLF001
        weakref.finalize(self, http.close)

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
        Return what the endpoint hears in float32[n] at 16 kHz, n > 0.

        Transcribed words have times of their own.  A translation has those of its segments only,
        and each is one piece of text.  Work is not counted: it is done elsewhere.

        Unless it `is_forced`, the language was detected, and is told to the endpoint no longer
        than it takes it: what was misheard must not be the end of a stream.

        Raises:
            BackendError: the endpoint gave no such answer; `retryable` if another attempt may.

        """
        padded = _long_enough(audio)
        asked = {"model": self.model, "response_format": "verbose_json"}
        if prompt:  # no prompt is not an empty one (defect B57)
            asked["prompt"] = prompt
        file = ("audio.wav", pcm_wav(padded), "audio/wav")
        try:
            with self.meter.sending(len(padded) / SAMPLE_RATE):
                if task == "translate":
                    translated = self._translation(asked, file)
                    return Hypothesis(words=without_loops(translated.timed_segments()))
                answer = self._in_a_language(asked, file, _spellings(language, is_forced=is_forced))
            words = settle_times(without_loops(answer.timed_words()), audio)
            return Hypothesis(words=words, language=language or answer.language)
        except EXPECTED_ERRORS as error:
            failure = told(error, endpoint=self.endpoint, model=self.model)
        raise failure

    def _in_a_language(
        self, asked: dict[str, Any], file: _File, languages: Sequence[str | None]
    ) -> Answer:
        """Return the answer for the first of *languages* that the endpoint takes."""
        *others, last = languages
        for language in others:
            try:
                return self._transcription(asked, file, language)
            except NOT_TAKEN:  # the request, by which of its fields no two endpoints say alike
                continue
        return self._transcription(asked, file, last)

    def _transcription(self, asked: dict[str, Any], file: _File, language: str | None) -> Answer:
        if language is not None:
            asked = {**asked, "language": language}
        # The body is read by ourselves: the client's own models take anything for an answer.
        response: Any = self._client.audio.transcriptions.with_raw_response.create(
            file=file, timestamp_granularities=["word", "segment"], **asked
        )
        http = response.http_response
        return Answer.read(http.text, content_type=http.headers.get("content-type", ""))

    def _translation(self, asked: dict[str, Any], file: _File) -> Answer:
        # Takes neither a language nor timestamp_granularities (defect B18).  The client's own
        # method warns that OpenAI gives this endpoint up; other servers do not.
        body = self._client.post(
            "/audio/translations",
            cast_to=str,
            body=asked,
            files=[("file", file)],
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )
        return Answer.read(body)


def _spellings(language: str | None, *, is_forced: bool) -> tuple[str | None, ...]:
    """Return what to tell the endpoint about the language, each where it does not take the last."""
    if language is None:
        return (None,)
    documented = iso_639_1(language)  # what the API asks for; servers may know Whisper's codes only
    other = language if is_forced else None
    return (other,) if documented in (None, other) else (documented, other)


def _long_enough(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    missing = round(LEAST_SECONDS * SAMPLE_RATE) - len(audio)
    return np.pad(audio, (0, missing)) if missing > 0 else audio
