"""What a hub, its library, the network and the disk raise, as one clear line each."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
import errno
from http import HTTPStatus
import re
from typing import TYPE_CHECKING
import warnings

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.hub_answers import UnexpectedAnswer
from wlk_core.models.hub_secrets import known_secrets, known_tokens
from wlk_core.models.watch import LibraryError, Refusal
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["explained"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})
_KEPT = "files that are complete are kept and not fetched again"
_PORTAL = "a proxy or the login page of a network may stand in between, or HF_ENDPOINT be wrong"

_CODES = {  # the hub's own header X-Error-Code
    "GatedRepo": ("it is gated", "accept its conditions on its page, then: {login}"),
    "RepoNotFound": (
        "the hub has no public model of that name",
        "check the name, or for a private one: {login}",
    ),
}
_STATUSES: dict[int, tuple[str, str]] = {
    HTTPStatus.UNAUTHORIZED: (
        "the hub does not accept the token ({status})",
        "get another one with: {login}",
    ),
    HTTPStatus.FORBIDDEN: (
        "the hub refuses access ({status})",
        "use a token that may read it, with: {login}",
    ),
    HTTPStatus.NOT_FOUND: (
        "the hub does not find it ({status})",
        "check its name and HF_ENDPOINT, then: {command}",
    ),
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: (
        "a proxy refuses the request without its password ({status})",
        "set HTTPS_PROXY, then: {command}",
    ),
    HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED: (
        "the network wants a login ({status})",
        "log in with a browser, then: {command}",
    ),
}
_FAILURE = ("the hub fails ({status})", "try again later with: {command} (" + _KEPT + ")")
_ANY_REFUSAL = ("the hub refuses the request ({status})", "check HF_ENDPOINT, then: {command}")


@contextmanager
def explained(repo: CachedRepo, command: str, host: str) -> Iterator[None]:
    """Turn a failure of a download from *host* into a ModelNotFoundError of one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about disk space, checked here, and old options
            yield
    except UnexpectedAnswer as error:
        raise _no_hub(host, str(error)) from error
    except (OSError, Refusal, LibraryError) as error:
        cause = error.__cause__
        if isinstance(error, LibraryError) and type(cause).__module__ == "builtins":
            # Headers that the library cannot read: a ValueError, an AttributeError ...
            raise _no_hub(host, f"its answer cannot be read ({cause})") from error
        reason, remedy = _explanation(error, repo, command)
        raise ModelNotFoundError(f"{repo.repo} was not pulled: {reason}; {remedy}") from error


def _no_hub(host: str, reason: str) -> ModelNotFoundError:
    text = one_line(reason, known_secrets())
    return ModelNotFoundError(f"{host} does not answer like a model hub: {text}; {_PORTAL}")


def _explanation(error: BaseException, repo: CachedRepo, command: str) -> tuple[str, str]:
    """Return the reason for a failure and what helps."""
    chain = _chain(error)
    for link in chain:
        if isinstance(link, Refusal):
            return _refusal(link, command)
    if explanation := _disk(chain, repo, command):
        return explanation
    is_timeout = any("timeout" in type(link).__name__.lower() for link in chain)
    reason = "the hub did not answer in time" if is_timeout else _reason(chain)
    return reason, f"check the connection, then: {command} ({_KEPT})"


def _refusal(refusal: Refusal, command: str) -> tuple[str, str]:
    """Explain an answer of the hub that is a refusal."""
    status, code = refusal.status, refusal.headers.get("x-error-code", "")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return (
            f"the hub limits requests (429): wait{_wait(refusal)}",
            f"then: {command} (the limit is higher after hf auth login; {_KEPT})",
        )
    if status == HTTPStatus.UNAUTHORIZED and not code and not known_tokens():
        return "the hub wants a token (401)", f"check the name, or: hf auth login && {command}"
    reason, remedy = (
        _CODES.get(code)
        or _STATUSES.get(status)
        or (_FAILURE if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _ANY_REFUSAL)
    )
    login = f"hf auth login && {command}"
    return reason.format(status=status), remedy.format(command=command, login=login)


def _wait(refusal: Refusal) -> str:
    """Return how long a hub wants its client to wait: in seconds, until a time, or nothing."""
    value = refusal.headers.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,5}", value):
        return f" for {value} s"
    try:
        until: datetime | None = parsedate_to_datetime(value).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        until = None
    if until is not None:
        return f" until {until:%Y-%m-%d %H:%M} UTC"
    # Its own header, "api";r=0;t=55: draft-ietf-httpapi-ratelimit-headers.
    reset = re.search(
        r";\s*t=([0-9]{1,5})(?![0-9])", refusal.headers.get("ratelimit", ""), re.ASCII
    )
    return f" for {reset[1]} s" if reset else ""


def _disk(chain: list[BaseException], repo: CachedRepo, command: str) -> tuple[str, str] | None:
    """Explain a disk that is full or cannot be written."""
    codes = {link.errno for link in chain if isinstance(link, OSError)}
    if codes & _FULL:
        return (
            f"the disk of {repo.cache} is full",
            f"make room or set HF_HUB_CACHE to a directory on another disk, then: {command}",
        )
    if codes & _UNWRITABLE:
        return (
            f"{repo.cache} cannot be written",
            f"set HF_HUB_CACHE to a directory of yours, then: {command}",
        )
    return None


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    return chain


def _reason(chain: list[BaseException]) -> str:
    """Return the system's words for a failure, else the outermost ones, as one line."""
    system = [link for link in reversed(chain) if isinstance(link, OSError)]
    texts = [str(link).strip() for link in (*system, *chain)]
    text = next(filter(None, texts), type(chain[-1]).__name__)
    return one_line(text, known_secrets()).rstrip(". ")
