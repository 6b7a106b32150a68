"""What can go wrong on the way to an endpoint and back, as one line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import openai

from wlk_core import BackendError
from wlk_whisper.api_answer import AnswerError
from wlk_whisper.api_endpoint import NO_KEY
from wlk_whisper.api_secret import without

if TYPE_CHECKING:
    from wlk_whisper.api_endpoint import Endpoint

__all__ = ["EXPECTED_ERRORS", "ClientError", "told"]

SHOWN = 200  # characters of the endpoint's own words
TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)

#: What a request can raise that is not a mistake of ours.
EXPECTED_ERRORS = (openai.OpenAIError, AnswerError)

_UNKNOWN = 404
_REFUSED = frozenset({401, 403})
_BUSY = frozenset({408, 409, 429})
_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class ClientError(Exception):
    """What an exception of the client said, after its type."""


def told(error: Exception, *, endpoint: Endpoint, model: str) -> BackendError:
    """
    Return what to raise for *error*, which the client has already retried where it can.

    Its cause says what the client's exceptions say and is none of them: those hold the request and
    the answer, and with them the key.  Raise it outside of the `except` that caught *error*, or
    Python attaches that one too.
    """
    line = " ".join(without(endpoint.key, _message(error, endpoint, model)).split())
    failure = BackendError(f"openai-api: {line}", retryable=_is_passing(error))
    failure.__cause__ = _retold(error, endpoint.key)
    return failure


def _retold(error: BaseException, key: str) -> ClientError:
    """Return *error* and what caused it as text, without the key."""
    copy = ClientError(without(key, f"{type(error).__name__}: {error}"))
    if error.__cause__ is not None:
        copy.__cause__ = _retold(error.__cause__, key)
    return copy


def _is_passing(error: Exception) -> bool:
    """Tell whether the same request may succeed later."""
    if isinstance(error, openai.APIStatusError):
        is_busy = error.status_code in _BUSY or error.status_code >= 500  # noqa: PLR2004 -- servers' own
        return is_busy and error.code not in _QUOTA
    if isinstance(error, AnswerError):
        return error.is_damaged
    return isinstance(error, openai.APIConnectionError)


def _message(error: Exception, endpoint: Endpoint, model: str) -> str:
    url = endpoint.url
    if isinstance(error, openai.APIStatusError):
        said = f"{url} answered {error.status_code} ({_own_words(error, endpoint.key)})"
        return f"{said}: {_reason(error, endpoint, model)}"
    if isinstance(error, openai.APITimeoutError):
        return f"{url} did not answer in time; allow more with --option timeout_seconds=SECONDS"
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        return f"no connection to {url}, or it was lost: {cause}; see that the server runs"
    return f"{url} with model {model}: {error}"


def _reason(error: openai.APIStatusError, endpoint: Endpoint, model: str) -> str:
    status = error.status_code
    if status in _REFUSED:
        return _about_key(endpoint)
    if status == _UNKNOWN:
        return (
            f"it has no model {model}, or base_url is not the part before /audio/transcriptions; "
            "choose with --model NAME or --option base_url=URL"
        )
    if error.response.is_redirect:
        return (
            f"it sends on to {error.response.headers.get('location')}, and key and audio go to "
            "base_url only; if that is the right place: --option base_url=URL"
        )
    if error.code in _QUOTA:
        return "nothing more is done for this key before it is paid for"
    if _is_passing(error):
        return "at every attempt; nothing is lost, try again later"
    return f"it does not take this request with model {model}; choose another with --model NAME"


def _about_key(endpoint: Endpoint) -> str:
    variable = endpoint.key_variable
    if endpoint.key == NO_KEY:
        wrong = f"it wants a key, and the environment variable {variable} holds none"
    else:
        wrong = f"it does not take the key in the environment variable {variable}"
    return f"{wrong}; set the one for this URL with: export {variable}=..."


def _own_words(error: openai.APIStatusError, key: str) -> str:
    """Return what the endpoint itself says, on one line; of a page of HTML its title."""
    body = error.response.text
    if body.lstrip()[:1] == "<":
        title = TITLE.search(body)
        said = f"a page of HTML: {title.group(2).strip() if title else 'without a title'}"
    else:
        given = error.body
        own = given.get("message") if isinstance(given, dict) else None
        said = str(own or body or "without a word")
    text = " ".join(without(key, said).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
