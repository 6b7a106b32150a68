"""Which heads of the decoder look at the word being said, and at which of its two rows."""

from __future__ import annotations

from importlib import resources
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from wlk_core import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

__all__ = ["FILE", "AlignmentHead", "AlignmentHeads", "Row", "load_heads", "parse_heads"]

FILE = "alignment_heads.json"  #: of a checkpoint, beside its config.json
FORMAT = 1
DETECT = "python -m wlk_qwen3_simul.detect_heads"
OWNER = "Qwen"  # of the repositories whose heads are published
_PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"

Row = Literal["predict", "self"]
"""
Where a head looks at a token: at the row that predicts it, or at the row that it is fed at.

A row that predicts one token is the row at which the one before it is fed: read the other way, a
head is wrong by a token, and as good as chance.
"""


@attrs.frozen(kw_only=True)
class AlignmentHead:
    """A head, its layer and itself counted from 0, and its score: hits among the tokens, 0 to 1."""

    layer: int
    head: int
    score: float | None = None


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The heads that one model aligns with.

    Attributes:
        model: what they were found in.
        layers: decoder layers of that model.
        heads: query heads in each of them.
        row: where they look at a token; see Row.
        best: the heads, the best one first.
        chance: the score of a head that looks anywhere, None where nobody counted.
        source: who found them, and how.

    """

    model: str
    layers: int
    heads: int
    row: Row
    best: tuple[AlignmentHead, ...]
    chance: float | None = None
    source: str = ""

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The heads as (layer, head), in rising order."""
        return tuple(sorted((one.layer, one.head) for one in self.best))

    @classmethod
    def from_json(cls, text: str, *, name: str) -> AlignmentHeads:
        """
        Return what a heads file says.

        Raises:
            OptionError: it is no such file, or contradicts itself; the message begins with *name*.

        """
        try:
            told = json.loads(text)
        except json.JSONDecodeError as error:
            raise OptionError(f"{name} is no JSON ({error}); {DETECT} writes such files") from None
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise OptionError(
                f"{name} is no heads file of format {FORMAT}; {DETECT} writes such files"
            )
        found = cls(
            model=_take(told, "model", str, name),
            layers=_take(told, "layers", int, name),
            heads=_take(told, "heads", int, name),
            row=_take(told, "row", str, name),  # one of two: checked below
            best=tuple(_head(one, name) for one in _take(told, "best", list, name)),
            chance=None if told.get("chance") is None else _take(told, "chance", float, name),
            source=_take(told, "source", str, name) if "source" in told else "",
        )
        found._check(name)
        return found

    def to_json(self) -> str:
        """Return the content of a heads file."""
        told = {"format": FORMAT, **attrs.asdict(self)}
        best = told.pop("best")
        lines = [json.dumps(one) for one in best]
        body = json.dumps({**told, "best": []}, indent=1)
        return body.replace('"best": []', '"best": [\n  ' + ",\n  ".join(lines) + "\n ]") + "\n"

    def require_shape(self, *, layers: int, heads: int, name: str) -> None:
        """
        Check that these are heads of a decoder with *layers* of *heads*.

        Raises:
            OptionError: they were found in another model.

        """
        if (self.layers, self.heads) != (layers, heads):
            raise OptionError(
                f"{name} holds heads of {self.model} with {self.layers} layers of {self.heads} "
                f"heads, and this decoder has {layers} of {heads}; find its own with: {DETECT}"
            )

    def require_model(self, model: str | Path, *, name: str) -> None:
        """
        Check that these are not known to be heads of another model than *model*.

        The published sizes have layers and heads alike, so that their shape tells nothing.

        Raises:
            OptionError: they were found in the other one of the published models.

        """
        mine, theirs = _published(self.model), _published(model)
        if mine and theirs and mine != theirs:
            raise OptionError(
                f"{name} holds heads of {self.model}, and the model is {model}; leave "
                f"alignment_heads out, or find its own with: {DETECT}"
            )

    def _check(self, name: str) -> None:
        if self.row not in get_args(Row):
            raise OptionError(f"{name}: expected row to be predict or self, got {self.row!r}")
        if not self.best:
            raise OptionError(f"{name} names no head; find some with: {DETECT}")
        if len(set(self.pairs)) < len(self.best):
            raise OptionError(f"{name} names a head twice")
        for layer, head in self.pairs:
            if layer not in range(self.layers) or head not in range(self.heads):
                raise OptionError(
                    f"{name} names the head {layer}.{head}, and by its own account the decoder has "
                    f"layers 0 to {self.layers - 1} and heads 0 to {self.heads - 1}"
                )


def load_heads(
    source: str | Path, *, layers: int, heads: int, model: str | Path | None = None
) -> AlignmentHeads:
    """
    Return the alignment heads of a decoder with *layers* of *heads*.

    Args:
        source: a heads file; or the directory of a checkpoint that holds one; or a model whose
            heads are published, by its repository or by a directory of that name.
        layers: of the decoder.
        heads: query heads in each of them.
        model: what they are for, by its repository or directory; None for nobody knows.

    Raises:
        OptionError: nobody has found this model's heads, or the file is not there, cannot be read
            or is not of this decoder; the message says what helps.

    """
    file = Path(source)
    if file.is_dir():
        file /= FILE
    place: Path | Traversable | None = file if file.is_file() else _published(source)
    if place is None and Path(source).suffix == ".json":
        raise OptionError(f"the heads file {source} does not exist")
    if place is None:
        raise OptionError(
            f"nobody has found the alignment heads of {source} yet; find them with: {DETECT} "
            f"{source} --manifest CLIPS.jsonl --output heads.json, and load the model with "
            "alignment_heads=heads.json"
        )
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{source} cannot be read as a heads file ({error}); {DETECT} writes such files"
        ) from error
    found = AlignmentHeads.from_json(text, name=str(source))
    found.require_shape(layers=layers, heads=heads, name=str(source))
    if model is not None:
        found.require_model(model, name=str(source))
    return found


def _published(model: str | Path) -> Traversable | None:
    """Return the published heads of a repository, its -hf twin, or a directory of that name."""
    owner, _, name = str(model).rpartition("/")
    directory = Path(model).expanduser()
    if directory.is_dir():
        name = directory.absolute().name
    elif owner.casefold() != OWNER.casefold():
        return None
    place = _PUBLISHED / f"{name.casefold().removesuffix('-hf')}.json"
    return place if place.is_file() else None


def parse_heads(text: str, *, layers: int, heads: int) -> AlignmentHeads:
    """
    Return the heads of ``"layer.head,layer.head"``, with ``"predict:"`` or ``"self:"`` in front.

    Raises:
        OptionError: it is no such list, or names a head that a decoder of this shape lacks.

    """
    row, separator, listed = text.partition(":")
    if not separator or row not in get_args(Row):
        raise _not_a_list(text)
    best = []
    for part in listed.split(","):
        layer, _, head = part.strip().partition(".")
        if not (_is_number(layer) and _is_number(head)):
            raise _not_a_list(text)
        best.append(AlignmentHead(layer=int(layer), head=int(head)))
    name = f"alignment_heads={text!r}"
    told: Row = "predict" if row == "predict" else "self"
    found = AlignmentHeads(
        model="", layers=layers, heads=heads, row=told, best=tuple(best), source=name
    )
    found._check(name)  # noqa: SLF001 -- of the same class
    return found


def _not_a_list(text: str) -> OptionError:
    return OptionError(
        f"alignment_heads={text!r}: expected predict:layer.head,layer.head or self:layer.head,"
        "layer.head with layers and heads counted from 0, such as predict:2.0,3.1, or a heads file"
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _take(told: Mapping[str, Any], key: str, kind: type, name: str) -> Any:
    value = told.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise OptionError(f"{name}: expected {key} to be {kind.__name__}, got {value!r}")
    return value


def _head(told: Any, name: str) -> AlignmentHead:
    if not isinstance(told, dict):
        raise OptionError(f"{name}: expected best to hold layer, head and score, got {told!r}")
    score = told.get("score")
    if score is not None and not isinstance(score, int | float):
        raise OptionError(f"{name}: expected score to be a number, got {score!r}")
    return AlignmentHead(
        layer=_take(told, "layer", int, name), head=_take(told, "head", int, name), score=score
    )
