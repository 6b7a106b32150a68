"""Choose the alignment heads: the decoder's cross-attention heads that attend to the next word."""

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

# By size, the shape (decoder layers, heads per layer, vocabulary rows) and the alignment heads, as
# layer.head, of OpenAI's models (openai/whisper, whisper/__init__.py, MIT).  Fine-tuning changes
# neither.  Sizes of the same shape are told apart by the name of the model, or not at all.
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
# Seconds from the start of a word's sound until these heads move to the word: the mean over 421
# words by flite in three voices, whose true times are known.  Other models were not measured.
_LAG_SECONDS = {"tiny.en": 0.10, "base": -0.05}


@attrs.frozen(kw_only=True)
class AlignmentHeads:
    """
    The alignment heads of a model, and whether they are known or a default.

    The default is openai/whisper's for word times: all heads of the upper half of the layers.  It
    is too coarse for AlignAtt's decisions, so that policy requires `are_known`.
    """

    pairs: Heads
    are_known: bool

    @property
    def lag_seconds(self) -> float:
        """Seconds from the start of a word's sound until attention moves there; 0 if unmeasured."""
        return next(
            (lag for size, lag in _LAG_SECONDS.items() if _published_pairs(size) == self.pairs), 0.0
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

    *option* is ``"layer.head,layer.head"``.  The model's are in its *generation_config* or among
    its *weights*.  *name* is a size, a repository or a directory, and *shape* is the decoder's
    layers, the heads per layer and the rows of the vocabulary.

    Distilled checkpoints often keep the list of their parent, most of whose layers they lack.  So
    heads that the decoder does not have are a warning and not an error, and the model's own heads
    count as unknown.

    Raises:
        OptionError: the option is not such a list, or names a head that the model does not have.

    """
    n_layers, n_heads, _ = shape
    if option is not None:
        pairs = _parse_pairs(option.split(","))
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
    has_parent_heads = False
    # Converters store the upper half as a default, so among weights it carries no information.
    for source, uninformative in ((generation_config, ()), (weights, upper)):
        own = tuple(sorted(set(source or ())))
        absent = [
            pair for pair in own if pair[0] not in range(n_layers) or pair[1] not in range(n_heads)
        ]
        if absent:
            has_parent_heads = True
            logger.warning(
                "the model %s names the alignment head %d.%d, but its decoder has %d layers of %d "
                "heads; the list is that of the model it was distilled from, and its own heads are "
                "unknown; name them with --option alignment_heads=LAYER.HEAD,LAYER.HEAD",
                name,
                *absent[0],
                n_layers,
                n_heads,
            )
        elif own not in ((), uninformative):
            return AlignmentHeads(pairs=own, are_known=True)
    # A model with its parent's heads was distilled, so its shape says nothing about its own heads.
    sizes = [size for size, (own_shape, _) in _PUBLISHED.items() if own_shape == shape]
    if len(sizes) > 1:
        sizes = [size for size in sizes if size in name]
    if len(sizes) == 1 and not has_parent_heads:
        return AlignmentHeads(pairs=_published_pairs(sizes[0]), are_known=True)
    return AlignmentHeads(pairs=upper, are_known=False)


def _published_pairs(size: str) -> Heads:
    return _parse_pairs(_PUBLISHED[size][1].split())


def _parse_pairs(parts: Iterable[str]) -> Heads:
    """Return the pairs in ascending order; none if any part is not two natural numbers."""
    matches = [re.fullmatch(r"\s*(\d+)\.(\d+)\s*", part) for part in parts]
    pairs = {(int(match[1]), int(match[2])) for match in matches if match}
    return tuple(sorted(pairs)) if all(matches) else ()
