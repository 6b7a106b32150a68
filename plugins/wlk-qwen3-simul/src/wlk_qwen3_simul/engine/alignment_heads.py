"""Alignment heads: the decoder heads that attend to the spoken word, their files, their search."""

from __future__ import annotations

from importlib import resources
import json
import os.path
from pathlib import Path
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import attrs
from msgspec import Meta, Struct, convert

from wlk_core.models import Index, read_limited
from wlk_core.models.files import parse_json
from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_qwen3_simul.models import MODELS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DETECT_COMMAND = "python -m wlk_qwen3_simul.detect_heads"
HEADS_FILE = "alignment_heads.json"  #: of a checkpoint, beside its config.json
MAX_COMPACT = 20  # of the heads in a file of whisperlivekit; as many as in the published lists
# Widths of the published decoders, which have the same number of layers and heads.
_OF_WIDTH = {1024: "Qwen/Qwen3-ASR-0.6B", 2048: "Qwen/Qwen3-ASR-1.7B"}
_REMEDY = f"{DETECT_COMMAND} writes such files"
_LIST = re.compile(r"(predict|self):\s*\d+\.\d+(\s*,\s*\d+\.\d+)*\s*", re.ASCII)
_PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"
# The repositories that have the published weights: Qwen's and its -hf twin, and the conversions of
# mlx-community.  Another owner may have trained further, which may have moved the heads.
_REPOSITORY = re.compile(
    r"(?:qwen/(?P<name>qwen3-asr-[\d.]+b)(-hf)?|mlx-community/(?P<copy>qwen3-asr-[\d.]+b)-\w+)"
)

Row = Literal["predict", "self"]
"""
The decoder step at which a head attends to a token's audio.

It is either the step that predicts the token or the step that the token itself is fed at.  The
step that predicts one token is fed the token before it, so that a head that is read at the wrong
step is off by one token and no better than chance.
"""

ROWS: tuple[Row, ...] = get_args(Row)


@attrs.frozen(kw_only=True)
class AlignmentHead:
    """A head by its layer and its index, from 0, with its score: hits per token, 0 to 1."""

    layer: Index
    head: Index
    score: float | None = None


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The alignment heads of one model.

    Attributes:
        format: of the file.
        model: the model they were found in.
        layers: decoder layers of that model.
        heads: query heads in each layer.
        row: the decoder step at which they attend to a token; see Row.
        chance: the score of a head that attends to random audio, None where it is unknown.
        source: the program that found them, and its data.
        best: the heads, the best one first.

    """

    format: Literal[1] = 1
    model: str
    layers: Index
    heads: Index
    row: Row
    chance: float | None = None
    source: str = ""
    best: Annotated[tuple[AlignmentHead, ...], Meta(min_length=1)]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The heads as (layer, head), in rising order."""
        return tuple(sorted((head.layer, head.head) for head in self.best))

    @classmethod
    def from_json(cls, content: bytes, *, name: str) -> AlignmentHeads:
        """
        Return the content of a heads file, of this program or of whisperlivekit.

        Raises:
            OptionError: it is damaged or contradicts itself; the message begins with *name*.

        """
        table = parse_json(content, name=name, remedy=_REMEDY, error=OptionError)
        schema: Any = _Compact if "alignment_heads_compact" in table else cls
        parse_json(content, schema, name=name, remedy=_REMEDY, error=OptionError)
        found = convert(table, schema)
        heads: AlignmentHeads = found.heads() if isinstance(found, _Compact) else found
        heads.check(name)
        return heads

    def to_json(self) -> str:
        """Return the content of a heads file."""
        return json.dumps(attrs.asdict(self), indent=1) + "\n"

    def check(self, name: str) -> None:
        """
        Check that every head exists and is listed once.

        Raises:
            OptionError: it does not; the message begins with *name*.

        """
        if len(set(self.pairs)) < len(self.best):
            raise OptionError(f"{name} names a head twice")
        for layer, head in self.pairs:
            if layer >= self.layers or head >= self.heads:
                raise OptionError(
                    f"{name} names the head {layer}.{head}, and its decoder has layers 0 to "
                    f"{self.layers - 1} and heads 0 to {self.heads - 1}"
                )


class _Compact(Struct):
    """A file of whisperlivekit's detection; its heads attend at the step a token is fed at."""

    alignment_heads_compact: Annotated[list[tuple[Index, Index]], Meta(min_length=1)]
    num_layers: Index
    num_heads: Index
    model: str = ""

    def heads(self) -> AlignmentHeads:
        """Return the best of the heads, all but the worst of which are listed."""
        pairs = self.alignment_heads_compact[:MAX_COMPACT]
        return AlignmentHeads(
            model=self.model,
            layers=self.num_layers,
            heads=self.num_heads,
            row="self",
            best=tuple(AlignmentHead(layer=layer, head=head) for layer, head in pairs),
        )


def find_heads(
    option: str | None, directory: Path, *, name: str, layers: int, heads: int
) -> AlignmentHeads | None:
    """
    Return the alignment heads of the option, else the model's own, else the published ones.

    Args:
        option: a heads file, or a list of heads; None where the option was left out.
        directory: of the model, which may hold a heads file of its own.
        name: the model as the user named it: a size, a repository or a directory.
        layers: of the decoder.
        heads: query heads in each layer.

    Returns:
        None where nothing is known about the heads of the model.

    Raises:
        OptionError: the option is invalid, or a file is damaged or belongs to another decoder; the
            message names the command that helps.

    """
    model = MODELS.get(name.casefold(), name)
    file = directory / HEADS_FILE
    path: Path | Traversable | None = file if file.is_file() else _published(model)
    if option is not None:
        path = Path(option).expanduser()
        if _LIST.fullmatch(option):
            return _listed(option, layers=layers, heads=heads)
        # os.path takes a list that is longer than a file name can be for no file.
        if not (path.suffix == ".json" or os.path.exists(path)):  # noqa: PTH110
            raise OptionError(
                f"alignment_heads={option!r}: expected predict:layer.head,layer.head or "
                "self:layer.head,layer.head with layers and heads counted from 0, such as "
                "predict:2.0,3.1, or a heads file"
            )
    if path is None:
        return None
    try:
        content = read_limited(path) if isinstance(path, Path) else path.read_bytes()
    except ModelNotFoundError as error:
        raise OptionError(f"{path} cannot be read as a heads file ({error}); {_REMEDY}") from error
    if content is None:
        raise OptionError(f"the heads file {path} does not exist")
    found = AlignmentHeads.from_json(content, name=str(path))
    if (found.layers, found.heads) != (layers, heads):
        raise OptionError(
            f"{path} holds heads of {found.model} with {found.layers} layers of {found.heads} "
            f"heads, and this decoder has {layers} of {heads}; find its own with: {DETECT_COMMAND}"
        )
    # The published sizes have the same shape.
    expected, actual = _published(model), _published(found.model)
    if expected and actual and expected != actual:
        raise OptionError(
            f"{path} holds heads of {found.model}, and the model is {model}; leave "
            f"alignment_heads out, or find its own with: {DETECT_COMMAND}"
        )
    return found


def likely_heads(*, width: int, layers: int, heads: int) -> AlignmentHeads | None:
    """
    Return the heads of the published model of these sizes, None where there is none.

    A model that was trained further mostly keeps them: good enough for the times of words, and not
    for deciding by them which words are final.
    """
    file = _published(_OF_WIDTH.get(width, ""))
    found = None if file is None else AlignmentHeads.from_json(file.read_bytes(), name=str(file))
    return found if found and (found.layers, found.heads) == (layers, heads) else None


def unknown_heads(model: str, *, alternative: str = "") -> OptionError:
    """Return the error for a model whose heads are unknown and needed."""
    return OptionError(
        f"the alignment heads of {model} are unknown; find them with: {DETECT_COMMAND} {model} "
        "--manifest CLIPS.jsonl --output heads.json, and load the model with "
        f"alignment_heads=heads.json{alternative}"
    )


def _listed(text: str, *, layers: int, heads: int) -> AlignmentHeads:
    """Return the heads of ``"row:layer.head,layer.head"``; raises OptionError for unknown ones."""
    row, _, listed = text.partition(":")
    pairs = [part.split(".") for part in listed.split(",")]
    name = f"alignment_heads={text!r}"
    found = AlignmentHeads(
        model="",
        layers=layers,
        heads=heads,
        row="self" if row == "self" else "predict",
        best=tuple(AlignmentHead(layer=int(layer), head=int(head)) for layer, head in pairs),
        source=name,
    )
    found.check(name)
    return found


def _published(model: str) -> Traversable | None:
    """Return the published heads of a repository, or of a directory named after one of Qwen's."""
    directory = Path(model).expanduser()
    is_local = os.path.exists(directory)  # noqa: PTH110 -- as above
    name = f"qwen/{directory.absolute().name}" if is_local else model
    match = _REPOSITORY.fullmatch(name.casefold())
    file = _PUBLISHED / f"{match and (match['name'] or match['copy'])}.json"
    return file if file.is_file() else None
