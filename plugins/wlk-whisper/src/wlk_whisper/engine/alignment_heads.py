"""Which cross-attention heads of the decoder attend to the next word."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

Heads = tuple[tuple[int, int], ...]
"""Pairs of layer and head, counted from 0, in ascending order."""

# OpenAI's lists for its models (openai/whisper, whisper/__init__.py, MIT), as layer.head, after the
# decoder's layers, the heads in each and the rows of the vocabulary.  A model that was fine-tuned
# from one of them keeps its shape and its alignment heads.  Sizes of one shape are distinguished by
# the name of the model, or not at all.
_PUBLISHED = {
    "tiny.en": ((4, 6, 51864), "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4"),
    "tiny": ((4, 6, 51865), "2.2 3.0 3.2 3.3 3.4 3.5"),
    "base.en": ((6, 8, 51864), "3.3 4.7 5.1 5.5 5.7"),
    "base": ((6, 8, 51865), "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6"),
    "small.en": (
        (12, 12, 51864),
        "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4",
    ),
    "small": ((12, 12, 51865), "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5"),
    "medium.en": (
        (24, 16, 51864),
        (
            "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 20.9 "
            "20.14 21.12"
        ),
    ),
    "medium": ((24, 16, 51865), "13.15 15.4 15.15 16.1 20.0 23.4"),
    "large-v1": ((32, 20, 51865), "9.19 11.2 11.4 11.17 22.7 22.11 22.17 23.2 23.15"),
    "large-v2": (
        (32, 20, 51865),
        (
            "10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 22.3 22.9 "
            "22.12 23.5 23.7 23.13 25.5 26.1 26.12 27.15"
        ),
    ),
    "large-v3": ((32, 20, 51866), "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6"),
    "turbo": ((4, 20, 51866), "2.4 2.11 3.3 3.6 3.11 3.14"),
}
# Seconds by which these heads move to the next word later than its sound begins: the mean over 421
# words of flite in three voices, whose true times are known.  Other models were not measured.
_LAG_SECONDS = {"tiny.en": 0.10, "base": -0.05}


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The alignment heads of a model, and whether a source names them.

    Where no source names any, `pairs` are all heads of the upper half of the layers, the default
    of openai/whisper for word times.  AlignAtt needs `are_known`, because that default is too
    coarse to decide by.
    """

    pairs: Heads
    are_known: bool

    @property
    def lag_seconds(self) -> float:
        """How much later than the sound the attention moves to the next word, 0 if not measured."""
        return next(
            (lag for size, lag in _LAG_SECONDS.items() if _pairs_of(size) == self.pairs), 0.0
        )

    def require_known(self, name: str) -> None:
        """Raise OptionError, with the remedies, unless AlignAtt can run on the model *name*."""
        if not self.are_known:
            raise OptionError(
                f"policy=alignatt needs the alignment heads of the model {name}, and neither its "
                "files nor the shape of a published Whisper determine them; name them with "
                "--option alignment_heads=LAYER.HEAD,LAYER.HEAD or choose policy=local-agreement"
            )


def choose_alignment_heads(
    option: str | None,
    generation_config: Iterable[tuple[int, int]] | None,
    weights: Iterable[tuple[int, int]] | None = None,
    *,
    name: str,
    shape: tuple[int, int, int],
) -> AlignmentHeads:
    """
    Return the alignment heads: those of the option, else the model's, else the published ones.

    The option is ``"layer.head,layer.head"``, the model's are those of its *generation_config* or
    among its *weights*, *name* is a size, a repository or a directory, and *shape* has the layers
    of the decoder, the heads of each and the rows of the vocabulary.

    Distilled checkpoints often keep the list of their parent, most of whose layers are gone.  Heads
    that the decoder does not have do not fail the load: a warning names them, and the model's own
    heads count as unknown.

    Raises:
        OptionError: the option is not such a list, or names a head that the model does not have.

    """
    n_layers, n_heads, _ = shape
    if option is not None:
        pairs = _pairs(option.split(","))
        if not pairs:
            raise OptionError(
                f"alignment_heads={option!r}: expected layer.head,layer.head with both counted "
                "from 0, such as 2.0,3.1"
            )
        for layer, head in pairs:
            if layer >= n_layers or head >= n_heads:
                raise OptionError(
                    f"alignment_heads={option!r}: the model has no head {layer}.{head}; "
                    f"expected layers 0 to {n_layers - 1} and heads 0 to {n_heads - 1}"
                )
        return AlignmentHeads(pairs=pairs, are_known=True)
    upper = tuple(
        (layer, head) for layer in range(n_layers // 2, n_layers) for head in range(n_heads)
    )
    are_foreign = False
    # Among weights the upper half carries no information: converters write it as a default.
    for source, uninformative in ((generation_config, ()), (weights, upper)):
        own = tuple(sorted(set(source or ())))
        absent = [
            pair for pair in own if pair[0] not in range(n_layers) or pair[1] not in range(n_heads)
        ]
        if absent:
            are_foreign = True
            logger.warning(
                "the model %s names the alignment head %d.%d, and its decoder has %d layers of %d "
                "heads; these are heads of the model it was distilled from, so its own are "
                "unknown; name them with --option alignment_heads=LAYER.HEAD,LAYER.HEAD",
                name,
                *absent[0],
                n_layers,
                n_heads,
            )
        elif own not in ((), uninformative):
            return AlignmentHeads(pairs=own, are_known=True)
    # A model with the heads of another was distilled from it, so its shape does not count either.
    sizes = [size for size, (own_shape, _) in _PUBLISHED.items() if own_shape == shape]
    if len(sizes) > 1:
        sizes = [size for size in sizes if size in name]
    if len(sizes) == 1 and not are_foreign:
        return AlignmentHeads(pairs=_pairs_of(sizes[0]), are_known=True)
    return AlignmentHeads(pairs=upper, are_known=False)


def _pairs_of(size: str) -> Heads:
    return _pairs(_PUBLISHED[size][1].split())


def _pairs(parts: Iterable[str]) -> Heads:
    """Return the pairs in ascending order; none unless each is two natural numbers."""
    matches = [re.fullmatch(r"\s*(\d+)\.(\d+)\s*", part) for part in parts]
    pairs = {(int(match[1]), int(match[2])) for match in matches if match}
    return tuple(sorted(pairs)) if all(matches) else ()
