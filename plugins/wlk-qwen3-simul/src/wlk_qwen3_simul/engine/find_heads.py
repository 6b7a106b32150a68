"""Search for the alignment heads of a model: its option, its own file, the published files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from wlk_core.models import read_limited
from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_qwen3_simul.engine.alignment_heads import (
    DETECT_COMMAND,
    ROWS,
    AlignmentHead,
    AlignmentHeads,
)
from wlk_qwen3_simul.models import MODELS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from wlk_qwen3_simul.engine.alignment_heads import Row

__all__ = ["HEADS_FILE", "find_heads", "load_heads", "parse_heads"]

HEADS_FILE = "alignment_heads.json"  #: of a checkpoint, beside its config.json
OWNER = "Qwen"  # of the repositories whose heads are published
_LIST_PREFIXES = tuple(f"{row}:" for row in ROWS)
_PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"


def find_heads(
    option: str | None, directory: Path, *, name: str, layers: int, heads: int
) -> AlignmentHeads:
    """
    Return the alignment heads of the option, else the model's own, else the published ones.

    Args:
        option: a heads file, or a list of heads; None where the option was left out.
        directory: of the model, which may hold a heads file of its own.
        name: the model as the user named it: a size, a repository or a directory.
        layers: of the decoder.
        heads: query heads in each layer.

    Raises:
        OptionError: the heads are unknown, or belong to another decoder.

    """
    model = MODELS.get(name, name)
    source: str | Path = directory if (directory / HEADS_FILE).is_file() else model
    if option is not None:
        file = Path(option).expanduser()
        if option.startswith(_LIST_PREFIXES) or not (file.suffix == ".json" or _exists(file)):
            return parse_heads(option, layers=layers, heads=heads)
        source = file
    return load_heads(source, layers=layers, heads=heads, model=model)


def load_heads(
    source: str | Path, *, layers: int, heads: int, model: str | Path | None = None
) -> AlignmentHeads:
    """
    Return the alignment heads in *source*, for a decoder with *layers* of *heads*.

    Args:
        source: a heads file; or the directory of a checkpoint that holds one; or a model whose
            heads are published, by its repository or by a directory of that name.
        layers: of the decoder.
        heads: query heads in each layer.
        model: the model to use them with, by its repository or directory; None where unknown.

    Raises:
        OptionError: the heads are unknown, or the file is missing, damaged or belongs to another
            decoder; the message names the command that helps.

    """
    file = Path(source)
    if file.is_dir():
        file /= HEADS_FILE
    path: Path | Traversable | None = file if file.is_file() else _published(source)
    if path is None and Path(source).suffix == ".json":
        raise OptionError(f"the heads file {source} does not exist")
    if path is None:
        raise OptionError(
            f"the alignment heads of {source} are unknown; find them with: {DETECT_COMMAND} "
            f"{source} --manifest CLIPS.jsonl --output heads.json, and load the model with "
            "alignment_heads=heads.json"
        )
    try:
        content = read_limited(path) if isinstance(path, Path) else path.read_bytes()
        text = (content or b"").decode("utf-8")
    except (ModelNotFoundError, OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{source} cannot be read as a heads file ({error}); {DETECT_COMMAND} writes such files"
        ) from error
    found = AlignmentHeads.from_json(text, name=str(source))
    found.require_shape(layers=layers, heads=heads, name=str(source))
    if model is not None:
        _require_model(found, model, name=str(source))
    return found


def parse_heads(text: str, *, layers: int, heads: int) -> AlignmentHeads:
    """
    Return the heads of ``"layer.head,layer.head"``, prefixed with ``"predict:"`` or ``"self:"``.

    Raises:
        OptionError: *text* is not such a list, or names a head that the decoder lacks.

    """
    prefix, separator, listed = text.partition(":")
    row = _row(prefix)
    if not separator or row is None:
        raise _not_a_list(text)
    best = []
    for part in listed.split(","):
        layer, _, head = part.strip().partition(".")
        if not (_is_number(layer) and _is_number(head)):
            raise _not_a_list(text)
        best.append(AlignmentHead(layer=int(layer), head=int(head)))
    name = f"alignment_heads={text!r}"
    found = AlignmentHeads(
        model="", layers=layers, heads=heads, row=row, best=tuple(best), source=name
    )
    found.check(name)
    return found


def _require_model(heads: AlignmentHeads, model: str | Path, *, name: str) -> None:
    """
    Check that *heads* are not known to belong to another model than *model*.

    The published sizes have the same shape, so that `require_shape` does not distinguish them.
    """
    expected, actual = _published(model), _published(heads.model)
    if expected and actual and expected != actual:
        raise OptionError(
            f"{name} holds heads of {heads.model}, and the model is {model}; leave "
            f"alignment_heads out, or find its own with: {DETECT_COMMAND}"
        )


def _published(model: str | Path) -> Traversable | None:
    """Return the published heads of a repository, its -hf twin, or a directory of that name."""
    owner, _, name = str(model).rpartition("/")
    directory = Path(model).expanduser()
    if directory.is_dir():
        name = directory.absolute().name
    elif owner.casefold() != OWNER.casefold():
        return None
    file = _PUBLISHED / f"{name.casefold().removesuffix('-hf')}.json"
    return file if file.is_file() else None


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a list of many heads is longer than a file name can be
        return False


def _row(prefix: str) -> Row | None:
    return next((row for row in ROWS if row == prefix), None)


def _not_a_list(text: str) -> OptionError:
    return OptionError(
        f"alignment_heads={text!r}: expected predict:layer.head,layer.head or self:layer.head,"
        "layer.head with layers and heads counted from 0, such as predict:2.0,3.1, or a heads file"
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
