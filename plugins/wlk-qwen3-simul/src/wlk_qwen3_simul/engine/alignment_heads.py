"""Alignment heads: the decoder heads that attend to the spoken word, and the file of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs

from wlk_core.models.json_files import parse_json
from wlk_core.plugins import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DETECT_COMMAND", "ROWS", "AlignmentHead", "AlignmentHeads", "Row"]

FORMAT = 1
DETECT_COMMAND = "python -m wlk_qwen3_simul.detect_heads"

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

    layer: int
    head: int
    score: float | None = None


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The alignment heads of one model.

    Attributes:
        model: the model they were found in.
        layers: decoder layers of that model.
        heads: query heads in each layer.
        row: the decoder step at which they attend to a token; see Row.
        best: the heads, the best one first.
        chance: the score of a head that attends to random audio, None where it is unknown.
        source: the program that found them, and its data.

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
        return tuple(sorted((head.layer, head.head) for head in self.best))

    @classmethod
    def from_json(cls, text: str, *, name: str) -> AlignmentHeads:
        """
        Return the content of a heads file.

        Raises:
            OptionError: *text* is damaged or contradicts itself; the message begins with *name*.

        """
        table: dict[str, Any] = parse_json(
            text.encode("utf-8", errors="surrogatepass"),
            name=name,
            remedy=f"{DETECT_COMMAND} writes such files",
            error=OptionError,
        )
        if table.get("format") != FORMAT:
            raise OptionError(
                f"{name} is not a heads file of format {FORMAT}; {DETECT_COMMAND} writes such files"
            )
        heads = cls(
            model=_field(table, "model", str, name),
            layers=_field(table, "layers", int, name),
            heads=_field(table, "heads", int, name),
            row=_field(table, "row", str, name),  # one of ROWS, as `check` makes sure
            best=tuple(_head(entry, name) for entry in _field(table, "best", list, name)),
            chance=None if table.get("chance") is None else _field(table, "chance", float, name),
            source=_field(table, "source", str, name) if "source" in table else "",
        )
        heads.check(name)
        return heads

    def to_json(self) -> str:
        """Return the content of a heads file."""
        table = {"format": FORMAT, **attrs.asdict(self)}
        best = table.pop("best")
        lines = [json.dumps(head) for head in best]
        body = json.dumps({**table, "best": []}, indent=1)
        return body.replace('"best": []', '"best": [\n  ' + ",\n  ".join(lines) + "\n ]") + "\n"

    def check(self, name: str) -> None:
        """
        Check that the row exists and that every head exists and is listed once.

        Raises:
            OptionError: it does not; the message begins with *name*.

        """
        if self.row not in ROWS:
            raise OptionError(f"{name}: expected row to be predict or self, got {self.row!r}")
        if not self.best:
            raise OptionError(f"{name} names no head; find some with: {DETECT_COMMAND}")
        if len(set(self.pairs)) < len(self.best):
            raise OptionError(f"{name} names a head twice")
        for layer, head in self.pairs:
            if layer not in range(self.layers) or head not in range(self.heads):
                raise OptionError(
                    f"{name} names the head {layer}.{head}, and its decoder has layers 0 to "
                    f"{self.layers - 1} and heads 0 to {self.heads - 1}"
                )

    def require_shape(self, *, layers: int, heads: int, name: str) -> None:
        """
        Check that these heads belong to a decoder with *layers* of *heads*.

        Raises:
            OptionError: they were found in a model of another shape.

        """
        if (self.layers, self.heads) != (layers, heads):
            raise OptionError(
                f"{name} holds heads of {self.model} with {self.layers} layers of {self.heads} "
                f"heads, and this decoder has {layers} of {heads}; find its own with: "
                f"{DETECT_COMMAND}"
            )


def _field(table: Mapping[str, Any], key: str, kind: type, name: str) -> Any:
    value = table.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise OptionError(f"{name}: expected {key} to be {kind.__name__}, got {value!r}")
    return value


def _head(entry: Any, name: str) -> AlignmentHead:
    if not isinstance(entry, dict):
        raise OptionError(f"{name}: expected best to hold layer, head and score, got {entry!r}")
    score = entry.get("score")
    if score is not None and not isinstance(score, int | float):
        raise OptionError(f"{name}: expected score to be a number, got {score!r}")
    return AlignmentHead(
        layer=_field(entry, "layer", int, name), head=_field(entry, "head", int, name), score=score
    )
