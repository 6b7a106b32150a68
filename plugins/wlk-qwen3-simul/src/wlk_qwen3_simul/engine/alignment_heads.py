"""Find and read the alignment heads of a model: decoder heads that attend to the spoken word."""

from __future__ import annotations

from importlib import resources
import json
import os.path
from pathlib import Path
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import attrs
from msgspec import Meta, Struct, convert

from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_frameworks.checkpoints import Index, parse_json, read_limited
from wlk_qwen3_simul.models import MODELS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DETECT_COMMAND = "python -m wlk_qwen3_simul.detect_heads"
HEADS_FILE = "alignment_heads.json"  #: in a checkpoint, beside config.json
MAX_COMPACT = 20  # heads used from a whisperlivekit file; the published lists have as many
# The published decoders have equal numbers of layers and heads; their widths tell them apart.
_MODEL_BY_WIDTH = {1024: "Qwen/Qwen3-ASR-0.6B", 2048: "Qwen/Qwen3-ASR-1.7B"}
_REMEDY = f"{DETECT_COMMAND} writes such files"
_LIST = re.compile(r"(predict|self):\s*\d+\.\d+(\s*,\s*\d+\.\d+)*\s*", re.ASCII)
_PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"
# The repositories with the published weights: Qwen's, their -hf versions, and the conversions of
# mlx-community.  Another owner may have fine-tuned the model, which may have moved the heads.
_REPOSITORY = re.compile(
    r"(?:qwen/(?P<name>qwen3-asr-[\d.]+b)(-hf)?|mlx-community/(?P<copy>qwen3-asr-[\d.]+b)-\w+)"
)

Row = Literal["predict", "self"]
"""
The decoder step at which a head attends to a token's audio.

It is either the step that predicts the token ("predict") or the step whose input is the token
("self").  A step that predicts a token has the previous token as its input, so a head read at the
wrong step is off by one token and no better than chance.
"""

ROWS: tuple[Row, ...] = get_args(Row)


@attrs.frozen(kw_only=True)
class AlignmentHead:
    """A head by its layer and its index, both from 0; *score* is its hits per token, 0 to 1."""

    layer: Index
    head: Index
    score: float | None = None


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The alignment heads of one model.

    Attributes:
        format: version of the file format.
        model: the model they were found in.
        layers: number of decoder layers of that model.
        heads: number of query heads in each layer.
        row: the decoder step at which they attend to a token; see Row.
        chance: the score of a head that attends to random audio; None if unknown.
        source: the program that found them, and its data.
        best: the heads, best first.

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
        """The heads as (layer, head), in ascending order."""
        return tuple(sorted((head.layer, head.head) for head in self.best))

    @classmethod
    def from_json(
        cls, content: bytes, *, name: str, sizes: tuple[int, int] | None = None
    ) -> AlignmentHeads:
        """
        Parse a heads file, written by this program or by whisperlivekit.

        *sizes* are the layers and heads of the decoder, for files of whisperlivekit without them.

        Raises:
            OptionError: it is damaged or contradicts itself; the message begins with *name*.

        """
        table = parse_json(content, name=name, remedy=_REMEDY, error=OptionError)
        schema: Any = _Compact if "alignment_heads_compact" in table else cls
        parse_json(content, schema, name=name, remedy=_REMEDY, error=OptionError)
        parsed = convert(table, schema)
        heads: AlignmentHeads = (
            parsed.heads(name, sizes) if isinstance(parsed, _Compact) else parsed
        )
        heads.check(name)
        return heads

    def to_json(self) -> str:
        """Return the content of a heads file."""
        return json.dumps(attrs.asdict(self), indent=1) + "\n"

    def check(self, name: str) -> None:
        """
        Check that every head exists and is listed once.

        Raises:
            OptionError: one does not, or is listed twice; the message begins with *name*.

        """
        if len(set(self.pairs)) < len(self.best):
            raise OptionError(f"{name} names a head twice")
        for layer, head in self.pairs:
            if layer >= self.layers or head >= self.heads:
                raise OptionError(
                    f"{name} names the head {layer}.{head}, but its decoder has layers 0 to "
                    f"{self.layers - 1} and heads 0 to {self.heads - 1}"
                )


class _Compact(Struct):
    """A whisperlivekit heads file; its heads attend at the step whose input is the token."""

    alignment_heads_compact: Annotated[list[tuple[Index, Index]], Meta(min_length=1)]
    num_layers: Index | None = None
    num_heads: Index | None = None
    model: str = ""

    def heads(self, name: str, sizes: tuple[int, int] | None) -> AlignmentHeads:
        """Return the best MAX_COMPACT heads; the file lists all but the worst of the model."""
        layers, heads = sizes or (None, None)
        layers = layers if self.num_layers is None else self.num_layers
        heads = heads if self.num_heads is None else self.num_heads
        if layers is None or heads is None:
            raise OptionError(f"{name} has no num_layers or num_heads; {_REMEDY}")
        pairs = self.alignment_heads_compact[:MAX_COMPACT]
        return AlignmentHeads(
            model=self.model,
            layers=layers,
            heads=heads,
            row="self",
            best=tuple(AlignmentHead(layer=layer, head=head) for layer, head in pairs),
        )


def find_heads(
    option: str | None, directory: Path, *, name: str, layers: int, heads: int
) -> AlignmentHeads | None:
    """
    Return the alignment heads of the option, else the model's own, else the published ones.

    Args:
        option: a heads file, or a list of heads; None if the option was left out.
        directory: the directory of the model, which may contain a heads file.
        name: the model as the user named it: a size, a repository or a directory.
        layers: number of layers of the decoder.
        heads: number of query heads in each layer.

    Returns:
        The heads, or None if those of the model are unknown.

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
        # Path.exists raises OSError for a list that is too long for a file name.
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
    parsed = AlignmentHeads.from_json(content, name=str(path), sizes=(layers, heads))
    if (parsed.layers, parsed.heads) != (layers, heads):
        raise OptionError(
            f"{path} holds heads of {parsed.model} with {parsed.layers} layers of {parsed.heads} "
            f"heads, but this decoder has {layers} of {heads}; find its own with: {DETECT_COMMAND}"
        )
    # Both published decoders pass the check above.
    expected, actual = _published(model), _published(parsed.model)
    if expected and actual and expected != actual:
        raise OptionError(
            f"{path} holds heads of {parsed.model}, but the model is {model}; leave "
            f"alignment_heads out, or find its own with: {DETECT_COMMAND}"
        )
    return parsed


def likely_heads(*, width: int, layers: int, heads: int) -> AlignmentHeads | None:
    """
    Return the heads of the published model with these sizes, or None if there is none.

    A fine-tuned model mostly keeps them.  They are good enough for word times, but not for deciding
    which words are final.
    """
    file = _published(_MODEL_BY_WIDTH.get(width, ""))
    likely = None if file is None else AlignmentHeads.from_json(file.read_bytes(), name=str(file))
    return likely if likely and (likely.layers, likely.heads) == (layers, heads) else None


def unknown_heads(model: str, *, alternative: str = "") -> OptionError:
    """Return the error for a model whose heads are needed but unknown."""
    return OptionError(
        f"the alignment heads of {model} are unknown; find them with: {DETECT_COMMAND} {model} "
        "--manifest CLIPS.jsonl --output heads.json, and load the model with "
        f"alignment_heads=heads.json{alternative}"
    )


def _listed(text: str, *, layers: int, heads: int) -> AlignmentHeads:
    """Parse ``"row:layer.head,layer.head"``; raises OptionError for heads that do not exist."""
    row, _, listed = text.partition(":")
    pairs = [part.split(".") for part in listed.split(",")]
    name = f"alignment_heads={text!r}"
    alignment = AlignmentHeads(
        model="",
        layers=layers,
        heads=heads,
        row="self" if row == "self" else "predict",
        best=tuple(AlignmentHead(layer=int(layer), head=int(head)) for layer, head in pairs),
        source=name,
    )
    alignment.check(name)
    return alignment


def _published(model: str) -> Traversable | None:
    """Return the published heads file of a repository, or of a directory named like Qwen's."""
    directory = Path(model).expanduser()
    is_local = os.path.exists(directory)  # noqa: PTH110 -- as above
    name = f"qwen/{directory.absolute().name}" if is_local else model
    match = _REPOSITORY.fullmatch(name.casefold())
    if match is None:
        return None
    file = _PUBLISHED / f"{match['name'] or match['copy']}.json"
    return file if file.is_file() else None
