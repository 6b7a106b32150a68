"""What the hub's library, the network and the disk raise, as one clear line each."""

from __future__ import annotations

from contextlib import contextmanager
import errno
from http import HTTPStatus
import os
import re
from typing import TYPE_CHECKING
import warnings

from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["explained"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST})
_KEPT = "files that are complete are kept and not fetched again"
_LONGEST_REASON = 300  # characters


@contextmanager
def explained(repo: CachedRepo, command: str) -> Iterator[None]:
    """Turn a failure of a download into a ModelNotFoundError of one line."""
    from huggingface_hub import errors  # noqa: PLC0415 -- half a second

    # The transport under the library changed from requests to httpx to httpx2; the bases of its
    # own error lead to the error class of whichever it is.  hf-xet raises RuntimeError, and
    # HFValidationError is a ValueError.
    foreign: tuple[type[BaseException], ...] = (
        OSError,
        RuntimeError,
        errors.EntryNotFoundError,
        errors.HFValidationError,
        *errors.HfHubHTTPError.__bases__,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about disk space, checked here, and old options
            yield
    except ModelNotFoundError:
        raise
    except foreign as error:
        reason, remedy = _explanation(error, repo, command)
        raise ModelNotFoundError(f"{repo.repo} was not pulled: {reason}; {remedy}") from error


def _explanation(error: BaseException, repo: CachedRepo, command: str) -> tuple[str, str]:
    """Return the reason for a failure and what helps."""
    chain = _chain(error)
    for link in chain:
        if explanation := _refusal(link, command):
            return explanation
    if explanation := _disk(chain, repo, command):
        return explanation
    is_timeout = any("timeout" in type(link).__name__.lower() for link in chain)
    reason = "the hub did not answer in time" if is_timeout else _reason(chain)
    return reason, f"check the connection, then: {command} ({_KEPT})"


def _refusal(error: BaseException, command: str) -> tuple[str, str] | None:
    """Explain an answer of the hub that is a refusal."""
    from huggingface_hub import errors  # noqa: PLC0415 -- half a second

    login = f"hf auth login && {command}"
    if isinstance(error, errors.HFValidationError):
        return "its name is no repository id", "expected owner/name"
    if isinstance(error, errors.GatedRepoError):
        return "it is gated", f"accept its conditions on its page, then: {login}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            "the hub has no public model of that name",
            f"check the name, or for a private one: {login}",
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _status(error.response.status_code, error.response.headers, command, login)
    return None


def _status(
    status: int, headers: Mapping[str, str], command: str, login: str
) -> tuple[str, str] | None:
    """Explain an HTTP status by itself."""
    if status == HTTPStatus.UNAUTHORIZED:
        return "the hub does not accept the token (401)", f"get another one with: {login}"
    if status == HTTPStatus.FORBIDDEN:
        return "the hub refuses access (403)", f"use a token that may read it, with: {login}"
    if status == HTTPStatus.NOT_FOUND:
        return "the hub does not find it (404)", f"check its name and HF_ENDPOINT, then: {command}"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        seconds = headers.get("Retry-After", "")
        wait = f" for {seconds} s" if re.fullmatch(r"[0-9]{1,5}", seconds) else ""
        return (
            f"the hub limits requests (429): wait{wait}",
            f"then: {command} (the limit is higher after hf auth login; {_KEPT})",
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"the hub fails ({status})", f"try again later with: {command} ({_KEPT})"
    return None


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
    """Return the innermost words there are, without a password."""
    texts = [" ".join(str(link).split()) for link in chain]
    text = next(filter(None, [texts[-1], *texts]), type(chain[0]).__name__)
    return _without_password(text)[:_LONGEST_REASON].rstrip(". ")


def _without_password(text: str) -> str:
    """Remove the ``user:password@`` that HF_ENDPOINT, or any other address, may hold."""
    address = os.environ.get("HF_ENDPOINT") or ""
    if "@" in address:
        credentials = address.partition("//")[2].rpartition("@")[0]
        text = text.replace(f"{credentials}@", "") if credentials else text
    return re.sub(r"(?<=//)[^\s/@]*@", "", text)
