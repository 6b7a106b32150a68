"""
Find a model by reference: a directory, bundled, in the Hugging Face cache, or on the hub.

Downloads, the cache, its locks and checksums are left to huggingface_hub.  It is imported only for
models of the hub, because its import takes half a second.
"""

from __future__ import annotations

from contextlib import contextmanager
from fnmatch import fnmatchcase
import glob
import os
from pathlib import Path
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.untrusted import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wlk_core.options import ModelSpec

CACHED = "models--"  #: begins the name of a repository's folder in the cache
CARD = "README.md"  #: the model card, which names the licence
WEIGHTS = (".bin", ".npz", ".safetensors")
# The hub's own rules (huggingface_hub.utils.validate_repo_id), for ids with an owner.
_REPOSITORY = re.compile(r"(?!.*(--|\.\.))\w([\w.-]*\w)?/\w([\w.-]{0,94}\w)?(?<!\.git)", re.ASCII)


def cache_directory(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return *cache_dir*, else the directory that huggingface_hub uses."""
    if cache_dir:
        return _expanded(os.fspath(cache_dir))
    # The rules of huggingface_hub, repeated because a listing should not wait for its import.
    variables = os.environ
    caches = variables.get("XDG_CACHE_HOME") or "~/.cache"
    home = variables.get("HF_HOME") or Path(caches, "huggingface")
    chosen = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE")
    return _expanded(os.path.expandvars(chosen or Path(home, "hub")))


def offline_mode() -> bool:
    """Return whether HF_HUB_OFFLINE forbids the network, or TRANSFORMERS_OFFLINE, its old name."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.lower() in ("1", "on", "yes", "true")


@attrs.frozen(kw_only=True)
class Model:
    """
    A model as ``wlk-core models`` shows it.

    The state is "cached", "incomplete" or "absent"; for a model that is not from the hub, "local"
    (a directory) or the spec's own word, such as "bundled".
    """

    backend: str
    name: str  #: what a user types: the size alias, else the repository id or directory
    repo: str | None  #: None for a bundled or local model
    state: str
    revision: str | None = None  #: the commit in the cache
    size: int | None = None  #: bytes of its files, before they are cached as the spec declares
    licence: str = ""  #: as named by its model card, else as the spec declares
    path: Path | None = None
    is_default: bool = False  #: the backend loads it if no model is named


@attrs.frozen
class CachedRepo:
    """A model repository in a cache, which any tool may have downloaded."""

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        """The folder of the repository, which need not exist."""
        return self.cache / f"{CACHED}{self.repo.replace('/', '--')}"

    @property
    def size(self) -> int:
        """Bytes of all its files in the cache."""
        return sum(_sizes(self.folder / "blobs").values())

    def is_complete(self, snapshot: Path, patterns: Sequence[str]) -> bool:
        """Return whether the directory of a revision holds all files that a backend loads."""
        from huggingface_hub import errors, get_cached_repo_tree  # noqa: PLC0415 -- half a second

        cached = _sizes(snapshot)
        try:
            tree = get_cached_repo_tree(self.repo, revision=snapshot.name, cache_dir=self.cache)
        except errors.CachedRepoTreeNotFoundError:
            # Only `snapshot_download` stores a list of files; other tools may fetch single files.
            weights = [part for part in "|".join(patterns).split("|") if part.endswith(WEIGHTS)]
            has_weights = any(fnmatchcase(name, part) for name in cached for part in weights)
            is_unfinished = any((self.folder / "blobs").glob("*.incomplete"))
            return bool(cached) and (has_weights or not weights) and not is_unfinished
        listed = {file.path: file.size for file in tree}
        return all(cached.get(name) == listed[name] for name in _matching(listed, patterns))

    def snapshot(self, patterns: Sequence[str]) -> Path | None:
        """Return the directory of the revision to load, None if no revision is complete."""
        # Preferably the revision that main was when any tool last resolved it.  Until that one is
        # downloaded completely, an older complete revision stays in use.
        path = self.folder / "refs" / "main"
        main = path.read_text(encoding="utf-8").strip() if path.is_file() else None
        paths = sorted(self.folder.glob("snapshots/*"), key=lambda each: (each.name != main, each))
        return next((each for each in paths if self.is_complete(each, patterns)), None)


def list_models(specs: Iterable[ModelSpec]) -> tuple[Model, ...]:
    """Return the models that *specs* name; never uses the network."""
    return tuple(describe_model(name, spec) for spec in specs for name in spec.models)


def describe_model(name: str, spec: ModelSpec) -> Model:
    """Return the state of one model, named by its alias, its repository or its directory."""
    name, origin = _resolved(name, spec)
    model = Model(
        backend=spec.name,
        name=name,
        repo=None if origin else spec.models.get(name, name),
        state=origin or "absent",
        path=_expanded(name) if origin == "local" else None,
        is_default=name == spec.default_model,
        size=spec.model_sizes.get(name),
        licence=spec.model_licences.get(name, ""),
    )
    if model.repo is None:
        return model
    repo = CachedRepo(cache_directory(), model.repo)
    path = repo.snapshot(spec.model_files)
    if path is None:
        return attrs.evolve(model, state="incomplete" if repo.folder.is_dir() else "absent")
    sizes = _sizes(path)
    size = sum(sizes[name] for name in _matching(sizes, spec.model_files))
    card = path / CARD
    text = card.read_bytes()[:4096].decode(errors="replace") if card.is_file() else ""
    licence = re.search(r"^license: *([\w.+-]+)", text, re.MULTILINE)
    return attrs.evolve(
        model,
        state="cached",
        revision=path.name,
        size=size,
        licence=licence[1] if licence else model.licence,
        path=path,
    )


def locate(
    ref: str,
    *,
    spec: ModelSpec,
    bundled: Mapping[str, Path] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    needs: Sequence[str] = ("config.json",),
) -> Path:
    """
    Return the directory of the model *ref*: a size alias, a repository id or a local directory.

    An alias takes precedence over a directory of that name; write ``./name`` for the directory.
    A model that is not in the cache is pulled, unless HF_HUB_OFFLINE forbids it; nothing else uses
    the network.  `bundled` maps aliases to directories in the plugin's wheel; each glob pattern of
    `needs` has to match a file.  Raises ModelNotFoundError with the command that gets the model.
    """
    hint = f"get one with: wlk-core pull MODEL --backend {spec.name}"
    ref, origin = _resolved(ref, spec)
    if origin == "local":
        directory = _expanded(ref)
        if os.fsencode(directory) != str(directory).encode(errors="replace"):
            fault = "has a name that is not UTF-8, which engines cannot open; rename it"
            raise ModelNotFoundError(f"model {printable(ref)}: the directory {fault}")
        if directory.name.startswith(CACHED):
            repo = CachedRepo(directory.parent, directory.name[len(CACHED) :].replace("--", "/"))
            directory = repo.snapshot(spec.model_files) or directory
        missing = _missing(directory, needs)
        if missing or not directory.is_dir():
            fault = f"holds no {missing}" if directory.is_dir() else "is not a directory"
            raise ModelNotFoundError(f"model {ref}: {directory} {fault}; {hint}")
        return directory
    if origin is not None:
        packaged = (bundled or {}).get(ref)
        if packaged is None or _missing(packaged, needs):
            raise ModelNotFoundError(
                f"the bundled model {ref} of {spec.name} is incomplete: install its plugin again "
                "with: pip install --force-reinstall"
            )
        return packaged
    repo = CachedRepo(cache_directory(cache_dir), _repository(ref, spec))
    snapshot = repo.snapshot(spec.model_files)
    if snapshot is None or _missing(snapshot, needs):
        snapshot = _download(ref, repo, spec)
    if missing := _missing(snapshot, needs):
        raise ModelNotFoundError(
            f"{repo.repo} is not a model for {spec.name}: it holds no {missing}; {hint}"
        )
    return snapshot


def pull(ref: str, spec: ModelSpec) -> Model:
    """Download the newest revision of a model unless it is bundled; raises as `locate`."""
    ref, origin = _resolved(ref, spec)
    if origin == "local":
        raise ModelNotFoundError(
            f"{ref} is a directory and needs no pulling; use it with: --model {ref}"
        )
    if origin is None:
        _download(ref, CachedRepo(cache_directory(), _repository(ref, spec)), spec)
    return describe_model(ref, spec)


def cached_repo(ref: str, spec: ModelSpec) -> CachedRepo:
    """Return the repository of a model that is in the cache, or raise ModelNotFoundError."""
    ref, origin = _resolved(ref, spec)
    if origin:
        raise ModelNotFoundError(f"{ref} is {origin} and was never pulled: nothing can be removed")
    repo = CachedRepo(cache_directory(), _repository(ref, spec))
    if not repo.folder.is_dir():
        raise ModelNotFoundError(
            f"{ref} is not in the cache; list what is with: wlk-core models --backend {spec.name}"
        )
    return repo


def _matching(names: Iterable[str], patterns: Sequence[str]) -> set[str]:
    # The names that `ModelSpec.model_files` selects; all of them without patterns.
    names = set(names)
    selected = set() if patterns else names
    for pattern in patterns:
        for alternative in pattern.split("|"):
            if matched := {name for name in names if fnmatchcase(name, alternative)}:
                selected |= matched
                break  # only the first alternative that matches counts
    return selected


def _expanded(path: str) -> Path:
    # Path.expanduser raises if there is no home directory; huggingface_hub keeps such a path.
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def _missing(directory: Path, needs: Sequence[str]) -> str:
    return ", ".join(
        need for need in needs if not any(path.is_file() for path in directory.glob(need))
    )


def _resolved(ref: str, spec: ModelSpec) -> tuple[str, str | None]:
    """Return *ref*, an alias in the spelling of *spec*, and its origin: None for the hub."""
    if ref not in spec.models and not Path(ref).exists():  # such as "Tiny.EN"
        ref = next((name for name in spec.models if name.casefold() == ref.casefold()), ref)
    if ref in spec.models:
        source = spec.models[ref]  # a repository, or a word such as "bundled"
        return ref, None if _REPOSITORY.fullmatch(source) else source
    is_path = ref.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in ref)
    return ref, "local" if is_path or (ref and Path(ref).exists()) else None


def _repository(ref: str, spec: ModelSpec) -> str:
    repo = spec.models.get(ref, ref)
    if _REPOSITORY.fullmatch(repo):
        return repo
    known = ", ".join(spec.models) or "none"
    raise ModelNotFoundError(
        f"{spec.name} has no model called {ref!r}; expected one of {known}, a repository id "
        f"(owner/name) or a directory; get one with: wlk-core pull MODEL --backend {spec.name}"
    )


def _sizes(directory: Path) -> dict[str, int]:
    # The bytes of each file; dangling links are left out.
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.stat().st_size for path in files}


def _download(ref: str, repo: CachedRepo, spec: ModelSpec) -> Path:
    command = f"wlk-core pull {ref} --backend {spec.name}"
    if offline_mode():
        fault = "is not complete in the cache" if repo.folder.is_dir() else "is not on this machine"
        raise ModelNotFoundError(
            f"model {ref} {fault} and the network is switched off; "
            f"get it while online with: {command}"
        )
    import huggingface_hub as library  # noqa: PLC0415 -- half a second

    with _PULLING, _quiet_hub(), _explaining_errors(repo, command):
        hub = library.HfApi()
        info = hub.model_info(repo.repo)
        revision, listed = str(info.sha), {file.rfilename for file in info.siblings or ()}
        names = _matching(listed, spec.model_files)
        if not names:
            raise ModelNotFoundError(
                f"{repo.repo} holds none of the files that {spec.name} needs "
                f"({', '.join(spec.model_files)}); is it a model for another backend?"
            )
        # The card names the licence, for every tool that uses the cache.
        names |= {CARD} & listed
        # snapshot_download verifies no checksums, so pulling a cached model again repairs damage.
        directory = repo.folder / "snapshots" / revision
        was_cached = names <= _sizes(directory).keys()
        library.snapshot_download(
            repo.repo, cache_dir=repo.cache, allow_patterns=[glob.escape(name) for name in names]
        )
        if was_cached:
            verified = hub.verify_repo_checksums(
                repo.repo, revision=revision, cache_dir=str(repo.cache)
            )
            for name in sorted({file["path"] for file in verified.mismatches} & names):
                library.hf_hub_download(
                    repo.repo, name, revision=revision, cache_dir=repo.cache, force_download=True
                )
        if missing := sorted(names - _sizes(directory).keys()):  # main has moved meanwhile
            raise OSError(f"{missing[0]} of revision {revision} did not arrive; try again")
    return directory


_PULLING = threading.Lock()  # so that no pull restores the settings of the client during another


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Switch off the hub's telemetry and, unless on a terminal, progress bars; restore both."""
    from huggingface_hub import constants  # noqa: PLC0415 -- half a second
    from huggingface_hub.utils.tqdm import (  # noqa: PLC0415 -- as above
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    sends_telemetry = not constants.HF_HUB_DISABLE_TELEMETRY
    shows_progress = not are_progress_bars_disabled()
    # Telemetry would also download a list of agent programs and keep it in the cache.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = not sends_telemetry
        if shows_progress:
            enable_progress_bars()


@contextmanager
def _explaining_errors(repo: CachedRepo, command: str) -> Iterator[None]:
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 -- half a second

    client_error: Any = HfHubHTTPError.__bases__[0]  # httpx.HTTPError, or its successor's
    try:
        yield
    except (OSError, ValueError, RuntimeError, client_error) as error:
        root: BaseException = error  # the library wraps the original error
        while not isinstance(root, HfHubHTTPError) and (
            cause := root.__cause__ or root.__context__
        ):
            root = cause
        reason = one_line(str(root)) or type(root).__name__
        raise ModelNotFoundError(
            f"{repo.repo} was not pulled: {reason}; check the name, the connection and the disk of "
            f"{repo.cache}, for a gated or private model: hf auth login; then: {command}"
        ) from error
