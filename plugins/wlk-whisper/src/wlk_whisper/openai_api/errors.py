"""Errors of a request, as one line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import openai

from wlk_core.plugins import BackendError
from wlk_core.untrusted import mask_secrets
from wlk_whisper.openai_api.call_limits import CallTimeout
from wlk_whisper.openai_api.clean_text import clean
from wlk_whisper.openai_api.endpoint import NO_KEY
from wlk_whisper.openai_api.response import ResponseError
from wlk_whisper.openai_api.retry_after import requested_pause

if TYPE_CHECKING:
    from wlk_whisper.openai_api.endpoint import Endpoint

__all__ = ["EXPECTED_ERRORS", "ClientError", "backend_error", "is_transient"]

MIN_KEY_LENGTH = 8  # "EMPTY" and other placeholders are not secret and occur in other words
MAX_QUOTED = 200  # characters of the endpoint's own message
TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)

#: What a request can raise without a mistake in this package.
EXPECTED_ERRORS = (openai.OpenAIError, ResponseError, CallTimeout)

_NOT_FOUND = 404
_UNAUTHORIZED = frozenset({401, 403})
_BUSY = frozenset({408, 409, 429})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class ClientError(Exception):
    """Type and message of an exception of the client, as text."""


def backend_error(error: Exception, *, endpoint: Endpoint, model: str) -> BackendError:
    """
    Return the BackendError to raise for *error*, which the client has already retried.

    The cause is a copy of the client's exceptions as text, because the originals reference the
    request and the response, and with them the key.  Raise the result outside of the `except` block
    that caught *error*, or Python attaches the original as context.
    """
    error = _own(error)
    line = clean(_redacted(_message(error, endpoint, model), endpoint.key)).strip()
    can_pass = is_transient(error)
    failure = BackendError(f"openai-api: {line}", retryable=can_pass, is_exhausted=can_pass)
    failure.__cause__ = _copy_as_text(error, endpoint.key)
    return failure


def _own(error: Exception) -> Exception:
    """Return the error of this package that the official client wrapped as a lost connection."""
    cause = error.__cause__
    if isinstance(error, openai.APIConnectionError) and isinstance(
        cause, ResponseError | CallTimeout
    ):
        return cause
    return error


def _copy_as_text(error: BaseException, key: str) -> ClientError:
    """Return *error* and its causes as text, without the key."""
    copy = ClientError(clean(_redacted(f"{type(error).__name__}: {error}", key)))
    if error.__cause__ is not None:
        copy.__cause__ = _copy_as_text(error.__cause__, key)
    return copy


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed later."""
    error = _own(error)
    if isinstance(error, openai.APIStatusError):
        is_busy = error.status_code in _BUSY or error.status_code >= 500  # noqa: PLR2004 -- server errors
        return is_busy and error.code not in _QUOTA_CODES
    if isinstance(error, ResponseError):
        return error.is_damaged
    return isinstance(error, openai.APIConnectionError | CallTimeout)


def _message(error: Exception, endpoint: Endpoint, model: str) -> str:
    url = endpoint.url
    if isinstance(error, openai.APIStatusError):
        answer = f"{url} answered {error.status_code} ({_server_message(error, endpoint.key)})"
        return f"{answer}: {_remedy(error, endpoint, model)}"
    if isinstance(error, openai.APITimeoutError | CallTimeout):
        return f"{url} did not answer in time; allow more with --option timeout_seconds=SECONDS"
    if isinstance(error, openai.APIConnectionError):
        cause = _shortened(str(error.__cause__ or error))
        return f"no connection to {url}, or it was lost: {cause}; check that the server runs"
    return f"{url} with model {model}: {error}"


def _remedy(error: openai.APIStatusError, endpoint: Endpoint, model: str) -> str:
    status = error.status_code
    if status in _UNAUTHORIZED:
        return _key_remedy(endpoint)
    if status == _NOT_FOUND:
        return (
            f"it has no model {model}, or base_url is not the part before /audio/transcriptions; "
            "choose with --model NAME or --option base_url=URL"
        )
    if error.response.is_redirect:
        location = _shortened(_without_credentials(error.response.headers.get("location", "")))
        return (
            f"it redirects to {location}, and key and audio are sent "
            "to base_url only; if that URL is right: --option base_url=URL"
        )
    if error.code in _QUOTA_CODES:
        return "the quota of this key is used up; add credit to the account"
    if is_transient(error):
        return _transient_remedy(requested_pause(error) or 0.0)
    return f"it rejects this request with model {model}; choose another with --model NAME"


def _transient_remedy(pause: float) -> str:
    if pause < 1.0:
        return "at every attempt; no audio is lost, try again later"
    return (
        f"it requests a pause of {pause:.0f} s; no audio is lost, try again then, or allow more "
        "time with --option timeout_seconds=SECONDS"
    )


def _key_remedy(endpoint: Endpoint) -> str:
    variable = endpoint.key_variable
    if endpoint.key == NO_KEY:
        fault = f"it requires a key, and the environment variable {variable} is not set"
    else:
        fault = f"it rejects the key in the environment variable {variable}"
    return f"{fault}; set the key for this URL with: export {variable}=..."


def _server_message(error: openai.APIStatusError, key: str) -> str:
    """Return the endpoint's own message on one line; for a page of HTML its title."""
    body = error.response.text
    if body.lstrip()[:1] == "<":
        title = TITLE.search(body)
        message = f"a page of HTML: {title.group(2).strip() if title else 'without a title'}"
    else:
        table = error.body
        value = table.get("message") if isinstance(table, dict) else None
        message = str(value or body or "without a message")
    return _shortened(" ".join(_redacted(message, key).split()))


def _redacted(text: str, key: str) -> str:
    return mask_secrets(text, [key], shortest=MIN_KEY_LENGTH)


def _without_credentials(url: str) -> str:
    """Return *url* without a user name and a password."""
    scheme, separator, rest = url.partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
