"""Requests to a model hub: the only module that touches the network."""

from __future__ import annotations

import base64
import glob
import importlib
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.hub_answers import RemoteFile, confirmed, read_listing
from wlk_core.models.watch import watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["Hub", "import_library"]

_TIMEOUT_SECONDS = 10.0  # the hub library's own default, for an answer and for a piece of a file
_LONGEST_TIMEOUT_SECONDS = 3600.0
_ANSWER_PATIENCE = 3  # of these time limits: for a name server, a connection and an answer
_FILE_PATIENCE = 6  # of these: the library asks six times for the rest of a file
_LARGEST_LISTING = 2**24  # bytes; 16 MiB describe 50,000 files
_VARIABLES = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT")


@attrs.frozen
class Hub:
    """
    A model hub, named by $HF_ENDPOINT.

    Attributes:
        endpoint: its address without user and password, None for the library's default.
        headers: sent with each request.  They carry user and password, so that no address does,
            and so that no message about an address can print them.

    """

    endpoint: str | None
    headers: Mapping[str, str] = attrs.field(repr=False)

    @classmethod
    def chosen(cls) -> Hub:
        """
        Return the hub that $HF_ENDPOINT names.

        Raises:
            ModelNotFoundError: it is no address.

        """
        headers = {"Accept-Encoding": "identity"}  # the sizes of answers are those of their files
        address = (os.environ.get("HF_ENDPOINT") or "").rstrip("/")
        if not address:
            return cls(None, headers)
        try:
            parts = urlsplit(address)
            is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
            _ = parts.port  # raises for a port that is no number
        except ValueError:
            is_address = False
        if not is_address:
            raise ModelNotFoundError(
                "HF_ENDPOINT is no address of a model hub; expected https://HOST, or leave it unset"
            )
        account, at, host = parts.netloc.rpartition("@")
        if at:
            encoded = base64.b64encode(unquote(account).encode()).decode()
            headers["authorization"] = f"Basic {encoded}"  # in lower case, as the library writes it
        return cls(urlunsplit(parts._replace(netloc=host)), headers)

    @property
    def host(self) -> str:
        """The name of the hub's machine."""
        return urlsplit(self.endpoint or "https://huggingface.co").hostname or ""

    def listing(self, repo: str) -> tuple[str, dict[str, RemoteFile]]:
        """Return the newest commit of a repository and its files, validated."""
        utils: Any = importlib.import_module("huggingface_hub.utils")  # half a second

        def request() -> bytes:
            answer = utils.get_session().get(
                f"{self.endpoint or 'https://huggingface.co'}/api/models/{repo}",
                params={"blobs": "true"},
                headers=utils.build_hf_headers(headers=dict(self.headers)),
                timeout=_answer_seconds(),
            )
            content: bytes = answer.content
            return content

        seconds = _ANSWER_PATIENCE * _answer_seconds()
        return read_listing(watched(request, seconds=seconds, most_bytes=_LARGEST_LISTING), repo)

    def described(self, repo: str, revision: str, file: RemoteFile) -> RemoteFile:
        """Return *file* completed and confirmed by the hub's answer about it."""
        import huggingface_hub as library  # noqa: PLC0415 -- half a second

        describe = library.get_hf_file_metadata  # imports more of the library
        url = library.hf_hub_url(repo, file.name, revision=revision, endpoint=self.endpoint)
        answer = watched(
            lambda: describe(url, timeout=_answer_seconds(), headers=dict(self.headers)),
            seconds=_ANSWER_PATIENCE * _answer_seconds(),
            most_bytes=_LARGEST_LISTING,
        )
        return confirmed(
            file,
            revision=revision,
            etag=answer.etag,
            commit=answer.commit_hash,
            size=answer.size,
        )

    def fetch(self, repo: CachedRepo, revision: str, file: RemoteFile, *, force: bool) -> None:
        """Let the hub's library bring one file into its cache; it resumes, locks and links."""
        import huggingface_hub as library  # noqa: PLC0415 -- half a second

        download = library.hf_hub_download  # imports more of the library
        constants: Any = importlib.import_module("huggingface_hub.constants")

        def partial_bytes() -> int:
            changed = _sizes(blobs, file).items() - old.items()
            return max((size for _, size in changed), default=0)

        blobs = repo.folder / "blobs"
        old = _sizes(blobs, file)  # of unfinished files that perhaps no process continues
        watched(
            lambda: download(
                repo.repo,
                file.name,
                revision=revision,
                cache_dir=repo.cache,
                endpoint=self.endpoint,
                etag_timeout=_answer_seconds(),
                force_download=force,
                headers=dict(self.headers),
            ),
            seconds=_FILE_PATIENCE * _seconds(constants.HF_HUB_DOWNLOAD_TIMEOUT),
            most_bytes=file.size or 0,
            partial_bytes=partial_bytes,
        )


def import_library() -> None:
    """
    Import the hub's library, which reads its variables then, and send no telemetry with it.

    Raises:
        ModelNotFoundError: a variable has a value that the library does not take.

    """
    try:
        import huggingface_hub.constants as library  # noqa: PLC0415 -- half a second
    except ValueError as error:
        wrong = (
            " and ".join(name for name in _VARIABLES if not _is_whole(name)) or "an HF_* variable"
        )
        raise ModelNotFoundError(
            f"{wrong or 'an HF_ variable'} has a wrong value; expected a whole number of seconds, "
            "or leave it unset"
        ) from error
    # It would ask the hub for a list of programs that may run it, and keep any answer for a day.
    library.HF_HUB_DISABLE_TELEMETRY = True


def _is_whole(name: str) -> bool:
    value = os.environ.get(name)
    try:
        return value is None or int(value) is not None
    except ValueError:
        return False


def _answer_seconds() -> float:
    """Return the seconds a request may wait for its answer: $HF_HUB_ETAG_TIMEOUT, else 10."""
    return _seconds(os.environ.get("HF_HUB_ETAG_TIMEOUT"))


def _seconds(value: object) -> float:
    try:
        seconds = float(str(value or _TIMEOUT_SECONDS))
    except ValueError:
        return _TIMEOUT_SECONDS
    return seconds if 0 < seconds <= _LONGEST_TIMEOUT_SECONDS else _TIMEOUT_SECONDS


def _sizes(blobs: Path, file: RemoteFile) -> dict[Path, int]:
    """Return the unfinished files of a blob, with their sizes."""
    return {part: _size(part) for part in blobs.glob(f"{glob.escape(file.etag or '')}*.incomplete")}


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0  # its download has just ended
