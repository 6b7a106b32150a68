"""A loaded Qwen3-ASR with its tokenizer and config, which both policies share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_qwen3_simul.checkpoint import Checkpoint
    from wlk_qwen3_simul.engine.network import Network
    from wlk_qwen3_simul.engine.vocabulary import Vocabulary


@attrs.frozen(kw_only=True)
class DecodingOptions:
    """The decoding options of one stream, which are never stored on the shared model."""

    hotwords: str = ""  #: text of the system turn
    max_new_tokens: int = 256  #: of one hypothesis, without committed text
    languages: tuple[str, ...] = ()  #: codes among which one is detected; empty for all
    rewind_frames: int | None = None  #: of 40 ms; attention that jumps back farther ends the text


@attrs.frozen(kw_only=True, eq=False)
class Engine:
    """
    A loaded network with its tokenizer and config; any thread may use it.

    Attributes:
        network: runs the layers.
        vocabulary: the tokenizer of the checkpoint.
        checkpoint: languages and defaults of the checkpoint.
        by_self: whether the alignment heads attend to a token's audio at the step whose input is
            the token; otherwise they do so at the step that predicts it.
        has_known_heads: whether the alignment heads were found in this model.
        facts: what a result of wlk-bench records about the loaded model.

    Raises:
        ModelNotFoundError: the tokenizer has ids that the network has no embedding for.

    """

    network: Network
    vocabulary: Vocabulary
    checkpoint: Checkpoint
    by_self: bool = False
    has_known_heads: bool = True
    facts: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        highest, rows = self.vocabulary.highest_id, self.network.vocabulary_size
        if highest >= rows:
            raise ModelNotFoundError(
                f"the tokenizer of {self.checkpoint.name} has ids up to {highest}, but its decoder "
                f"has an embedding of {rows} rows: they belong to different models; pull the model "
                "again"
            )
