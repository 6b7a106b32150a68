"""Send audio to a transcription server: check its URL and key, and explain its failures."""

from __future__ import annotations

from io import BytesIO
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
import wave
import weakref

import attrs
import numpy as np
import openai

from wlk_core.models import offline_mode
from wlk_core.plugins import (
    SAMPLE_RATE,
    BackendError,
    BackendUnavailable,
    Hypothesis,
    ModelNotFoundError,
    OptionError,
)
from wlk_core.untrusted import one_line
from wlk_frameworks.servers import is_loopback, mask_secret
from wlk_whisper.engine.words import drop_loop, tighten_to_speech
from wlk_whisper.openai_api.response import ResponseError, TranscriptionResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DEFAULT_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"  # as the official client reads it
NO_KEY = "none"  # a placeholder: local servers need no key, and the client requires one
REQUEST_PATHS = ("/transcriptions", "/translations")  # the ends of request URLs

# OpenAI rejects audio under 0.1 s and bills whole seconds, so shorter audio is padded to a second.
MIN_SAMPLES = SAMPLE_RATE
REJECTED = (openai.BadRequestError, openai.UnprocessableEntityError)
CONNECT_SECONDS = 5.0  # the official client's limit for opening a connection

_NOT_FOUND = 404
_UNAUTHORIZED = frozenset({401, 403})
_BUSY = frozenset({408, 409, 429})  # the official client retries these, and those from 500 on
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


@attrs.frozen(kw_only=True)
class ApiAddress:
    """
    The URL of an OpenAI-compatible server, and the key for it.

    The key is sent to `url` and nowhere else, and no message contains it.
    """

    url: str
    key_variable: str
    key: str = attrs.field(repr=False)

    @classmethod
    def resolve(cls, base_url: str | None, *, key_variable: str, model: str) -> ApiAddress:
        """
        Return the address with *base_url*, after the checks that need no request.

        Raises:
            OptionError: the URL, the name of the variable or the model is invalid.
            ModelNotFoundError: the model is a directory or, offline, a repository.
            BackendUnavailable: the key is missing, or the network is switched off.

        """
        url = (base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        _check_url(url)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key_variable):
            raise OptionError(  # the value is not shown, because it may be the key itself
                "openai-api: option api_key_env takes the name of an environment variable, such as "
                "OPENAI_API_KEY, never the key itself"
            )
        if model.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in model):
            raise ModelNotFoundError(
                f"model {model} is a directory, and openai-api runs no model itself; name one that "
                f"{url} serves, with --model NAME"
            )
        # They have no verbose_json: https://developers.openai.com/api/docs/guides/speech-to-text
        if model.startswith("gpt-"):
            raise OptionError(
                f"the model {model} returns no word times, which streaming needs; expected one "
                "that does, such as whisper-1 or whisper-large-v3"
            )
        key = os.environ.get(key_variable, "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise BackendUnavailable(
                f"openai-api: expected a key in the environment variable {key_variable}, but its "
                "value contains spaces or characters that a key cannot have; set it again with: "
                f"export {key_variable}=..."
            )
        address = cls(url=url, key_variable=key_variable, key=key or NO_KEY)
        if offline_mode():
            address._check_offline(model)
        if not key and address.is_openai:
            raise BackendUnavailable(
                f"openai-api: expected the key for {url} in the environment variable "
                f"{key_variable}, which is not set; set it with: export {key_variable}=..."
            )
        return address

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own, in one of its regions."""
        return f".{urlsplit(self.url).hostname}".endswith(".api.openai.com")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, so that audio sent to it does not leave it."""
        return is_loopback(urlsplit(self.url).hostname or "")

    def _check_offline(self, model: str) -> None:
        if not self.is_local:
            raise BackendUnavailable(
                f"openai-api sends audio to {self.url}, but the network is switched off "
                "(--offline, HF_HUB_OFFLINE); use a local backend (wlk-core backends) or "
                "a server on this machine: --option base_url=http://127.0.0.1:PORT/v1"
            )
        if "/" in model:
            raise ModelNotFoundError(
                f"model {model} is named like a repository, which the server at {self.url} would "
                "fetch if it lacks it, but the network is switched off (--offline, "
                "HF_HUB_OFFLINE); use the server's own name for a model, with --model NAME"
            )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    is_url = is_url and url.isprintable() and not {" ", "?", "#", "@"} & set(url)
    if not is_url or url.endswith(REQUEST_PATHS):
        raise OptionError(
            "openai-api: option base_url is the URL of a server without the part "
            f"/audio/transcriptions, a query or a password, such as {DEFAULT_URL}; got "
            f"{url.rpartition('@')[2]!r}; keys come from the environment, see api_key_env"
        )


class ApiClient:
    """
    A model at a server; calls may come from any thread.

    The official client retries requests, waits between attempts, and limits the time of each.
    """

    def __init__(
        self, address: ApiAddress, model: str, *, timeout_seconds: float, max_retries: int
    ) -> None:
        self.address = address
        self.model = model
        self._client = openai.OpenAI(
            api_key=address.key,
            base_url=address.url,
            timeout=openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            max_retries=max_retries,
            # Redirects are not followed, because key and audio go to the chosen URL only.  Requests
            # to this machine ignore the proxies of the environment.
            http_client=openai.DefaultHttpxClient(
                follow_redirects=False, trust_env=not address.is_local
            ),
        )
        # The client reads these from the environment, too.  No request here is administrative.
        self._client.admin_api_key = None
        if not address.is_openai:  # these were set for OpenAI and are sent to OpenAI only
            self._client.organization = self._client.project = None
            # The headers of OPENAI_CUSTOM_HEADERS have no public switch.
            self._client._custom_headers = {}  # noqa: SLF001
        weakref.finalize(self, self._client.close)

    def transcribe(
        self,
        audio: NDArray[np.float32],
        *,
        prompt: str,
        language: str | None,
        task: str = "transcribe",
        is_forced: bool = False,
        keyterms: str = "",
    ) -> Hypothesis:
        """
        Return the server's transcript of float32[n] at 16 kHz, n > 0.

        Transcribed words have times of their own.  A translation has times for segments only, so
        each segment is returned as one `Word`.

        A language that was detected rather than forced (*is_forced*) is left out if the server
        rejects it, because a wrong detection must not end a stream.

        Raises:
            BackendError: the request failed, or the response is not as requested; `retryable` if
                another attempt may succeed, `is_exhausted` if the official client has retried.

        """
        fields: dict[str, Any] = {"model": self.model, "response_format": "verbose_json"}
        if text := f"{keyterms} {prompt}".strip():  # an empty prompt changes the transcript
            fields["prompt"] = text
        bodies = [fields]
        if task == "transcribe":  # translations accept neither granularities nor a language
            fields["timestamp_granularities"] = ["word", "segment"]
            bodies = [
                fields if code is None else {**fields, "language": code}
                for code in _codes_to_try(language, is_forced=is_forced)
            ]
        padded = np.pad(audio, (0, max(0, MIN_SAMPLES - len(audio))))
        seconds = len(padded) / SAMPLE_RATE
        path = "/audio/transcriptions" if task == "transcribe" else "/audio/translations"
        try:
            answer = self._post(path, bodies, _pcm_wav(padded))
            response = TranscriptionResponse.parse(answer, audio_seconds=seconds)
            if task == "translate":
                return Hypothesis(words=drop_loop(response.timed_segments()))
            words = tighten_to_speech(drop_loop(response.timed_words()), audio)
            return Hypothesis(words=words, language=language or response.language)
        except (openai.OpenAIError, ResponseError) as error:
            failure = _backend_error(error, address=self.address, model=self.model)
        raise failure  # outside the except block, whose error references the key

    def _post(self, path: str, bodies: Sequence[dict[str, Any]], wav: bytes) -> str:
        """
        Return the response to the first of *bodies* that the server accepts.

        The client's own methods are not used: they parse any response into models that accept
        everything, and warn that OpenAI retires translations.
        """
        for body in bodies:
            try:
                return self._client.post(
                    path,
                    cast_to=str,
                    body=body,
                    files=[("file", ("audio.wav", wav, "audio/wav"))],
                    options={"headers": {"Content-Type": "multipart/form-data"}},
                )
            except REJECTED:  # for any field, because servers name it in different ways
                if body is bodies[-1]:
                    raise
        raise AssertionError("unreachable: the last body is accepted or raises")


def _codes_to_try(language: str | None, *, is_forced: bool) -> list[str | None]:
    """Return the codes to send for a language, in this order, where None sends none."""
    # The API documents ISO 639-1, whose code for Javanese is not Whisper's.
    documented = "jv" if language == "jw" else language
    alternative = language if is_forced else None
    return [documented] if documented == alternative else [documented, alternative]


def _pcm_wav(audio: NDArray[np.float32]) -> bytes:
    """Return float32[n] at 16 kHz as a WAV file, mono, 16 bit."""
    samples = np.clip(np.rint(audio * 32768.0), -32768, 32767).astype("<i2")
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, SAMPLE_RATE, len(samples), "NONE", ""))
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def _backend_error(error: Exception, *, address: ApiAddress, model: str) -> BackendError:
    """
    Return the BackendError to raise for *error*, which the official client has already retried.

    Raise it outside of the `except` block that caught *error*: the client's exceptions reference
    the request, and with it the key.
    """
    url, key = address.url, address.key
    is_exhausted = is_retryable = True
    if isinstance(error, openai.APIStatusError):
        is_exhausted = is_retryable = _is_transient(error)
        message = _server_message(error, key)
        line = f"answered {error.status_code} ({message}): {_remedy(error, address, model)}"
    elif isinstance(error, openai.APITimeoutError):
        line = "did not answer in time; allow more with --option timeout_seconds=SECONDS"
    elif isinstance(error, openai.APIConnectionError):
        cause = one_line(mask_secret(str(error.__cause__ or error), key))
        line = f"cannot be reached, or the connection was lost: {cause}; check that it is running"
    else:
        is_exhausted = False
        is_retryable = isinstance(error, ResponseError) and error.is_damaged
        line = f"with model {model}: {mask_secret(str(error), key)}"
    return BackendError(
        f"openai-api: {url} {line}", retryable=is_retryable, is_exhausted=is_exhausted
    )


def _is_transient(error: openai.APIStatusError) -> bool:
    is_busy = error.status_code in _BUSY or error.status_code >= 500  # noqa: PLR2004 -- server errors
    return is_busy and error.code not in _QUOTA_CODES


def _remedy(error: openai.APIStatusError, address: ApiAddress, model: str) -> str:
    variable = address.key_variable
    if error.status_code in _UNAUTHORIZED:
        fault = f"it rejects the key in the environment variable {variable}"
        if address.key == NO_KEY:
            fault = f"it requires a key, and the environment variable {variable} is not set"
        return f"{fault}; set the key for this URL with: export {variable}=..."
    if error.status_code == _NOT_FOUND:
        return (
            f"it has no model {model}, or base_url is not the part before /audio/transcriptions; "
            "choose with --model NAME or --option base_url=URL"
        )
    if error.response.is_redirect:
        return (
            "it redirects, but the key and the audio are sent to base_url only; name the URL that "
            "serves the model with --option base_url=URL"
        )
    if error.code in _QUOTA_CODES:
        return "the quota of this key is used up; add credit to the account"
    if _is_transient(error):
        return "all attempts failed; no audio is lost, try again later"
    return f"it rejects this request with model {model}; choose another with --model NAME"


def _server_message(error: openai.APIStatusError, key: str) -> str:
    """Return the server's own message on one line."""
    message = error.body.get("message") if isinstance(error.body, dict) else None
    text = str(message or error.response.text or "without a message")
    return one_line(mask_secret(text, key))
