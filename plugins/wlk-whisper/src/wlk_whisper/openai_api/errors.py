"""Explain a failed request in one line: what happened, and which setting or command helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import openai

from wlk_core.plugins import BackendError
from wlk_core.untrusted import mask_secrets, one_line
from wlk_whisper.openai_api.endpoint import NO_KEY
from wlk_whisper.openai_api.response import ResponseError

if TYPE_CHECKING:
    from wlk_whisper.openai_api.endpoint import Endpoint

__all__ = ["EXPECTED_ERRORS", "backend_error"]

#: What a request can raise without a mistake in this package.
EXPECTED_ERRORS = (openai.OpenAIError, ResponseError, TimeoutError)

_NOT_FOUND = 404
_UNAUTHORIZED = frozenset({401, 403})
_BUSY = frozenset({408, 409, 429})  # the official client repeats these, and those from 500 on
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def backend_error(error: Exception, *, endpoint: Endpoint, model: str) -> BackendError:
    """
    Return the BackendError to raise for *error*, which the official client has already retried.

    Raise it outside of the `except` block that caught *error*: the client's exceptions reference
    the request, and with it the key.
    """
    url, key = endpoint.url, endpoint.key
    is_exhausted = can_pass = True
    if isinstance(error, openai.APIStatusError):
        is_exhausted = can_pass = _is_transient(error)
        message = _server_message(error, key)
        line = f"answered {error.status_code} ({message}): {_remedy(error, endpoint, model)}"
    elif isinstance(error, openai.APITimeoutError | TimeoutError):
        line = (
            "did not answer in time, or requires a longer pause between requests; allow more with "
            "--option timeout_seconds=SECONDS"
        )
    elif isinstance(error, openai.APIConnectionError):
        cause = one_line(mask_secrets(str(error.__cause__ or error), [key]))
        line = f"cannot be reached, or the connection was lost: {cause}; check that the server runs"
    else:
        is_exhausted, can_pass = False, isinstance(error, ResponseError) and error.is_damaged
        line = f"with model {model}: {mask_secrets(str(error), [key])}"
    return BackendError(f"openai-api: {url} {line}", retryable=can_pass, is_exhausted=is_exhausted)


def _is_transient(error: openai.APIStatusError) -> bool:
    is_busy = error.status_code in _BUSY or error.status_code >= 500  # noqa: PLR2004 -- server errors
    return is_busy and error.code not in _QUOTA_CODES


def _remedy(error: openai.APIStatusError, endpoint: Endpoint, model: str) -> str:
    variable = endpoint.key_variable
    if error.status_code in _UNAUTHORIZED:
        fault = f"it rejects the key in the environment variable {variable}"
        if endpoint.key == NO_KEY:
            fault = f"it requires a key, and the environment variable {variable} is not set"
        return f"{fault}; set the key for this URL with: export {variable}=..."
    if error.status_code == _NOT_FOUND:
        return (
            f"it has no model {model}, or base_url is not the part before /audio/transcriptions; "
            "choose with --model NAME or --option base_url=URL"
        )
    if error.response.is_redirect:
        location = error.response.headers.get("location", "")
        location = one_line(mask_secrets(location, [endpoint.key]))
        return (
            f"it redirects to {location}, and key and audio are sent "
            "to base_url only; if that URL is right: --option base_url=URL"
        )
    if error.code in _QUOTA_CODES:
        return "the quota of this key is used up; add credit to the account"
    if _is_transient(error):
        return "at every attempt; no audio is lost, try again later"
    return f"it rejects this request with model {model}; choose another with --model NAME"


def _server_message(error: openai.APIStatusError, key: str) -> str:
    """Return the endpoint's own message on one line; the text of a page of HTML."""
    body = error.response.text
    if body.lstrip()[:1] == "<":
        text = mask_secrets(re.sub("<[^>]*>", " ", body), [key])
        return f"a page of HTML: {one_line(text)}"
    table = error.body
    message = table.get("message") if isinstance(table, dict) else None
    return one_line(mask_secrets(str(message or body or "without a message"), [key]))
