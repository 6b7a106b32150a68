"""A loaded Qwen3-ASR: its network and what belongs to it, as every policy uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from wlk_qwen3_simul.checkpoint import Checkpoint
    from wlk_qwen3_simul.simul.network import Network
    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["Engine", "StreamSettings"]


@attrs.frozen(kw_only=True)
class StreamSettings:
    """What one stream asked for; nothing of it is ever stored on the shared model."""

    hotwords: str = ""  #: text of the system turn
    max_new_tokens: int = 256  #: beyond committed text, in one hypothesis
    rewind_frames: int | None = None  #: of 40 ms; attention that jumps back farther ends the text


@attrs.frozen(kw_only=True, eq=False)
class Engine:
    """
    A loaded network and what belongs to it; calls may come from any thread.

    Attributes:
        network: runs the layers.
        vocabulary: of the checkpoint.
        checkpoint: limits and wishes of the model.
        by_self: whether the alignment heads look at a token from the row it is fed at, and not
            from that behind which it is chosen.

    Raises:
        ModelNotFoundError: the tokenizer has ids that the network has no embedding for.

    """

    network: Network
    vocabulary: Vocabulary
    checkpoint: Checkpoint
    by_self: bool = False

    def __attrs_post_init__(self) -> None:
        highest, rows = self.vocabulary.highest, self.network.vocabulary
        if highest >= rows:
            raise ModelNotFoundError(
                f"the tokenizer of {self.checkpoint.name} has ids up to {highest}, and its decoder "
                f"an embedding of {rows} rows: they are not of one model; pull the model again"
            )
