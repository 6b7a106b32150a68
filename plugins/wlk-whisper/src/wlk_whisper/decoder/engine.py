"""A loaded Whisper: its network and what belongs to it, as every policy uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens
import numpy as np

from wlk_core import Work
from wlk_whisper.decoder.features import SAMPLES_PER_FRAME, log_mel, window_frames
from wlk_whisper.decoder.language import detect_language, is_multilingual
from wlk_whisper.decoder.network import POSITION_FRAMES
from wlk_whisper.decoder.rules import Rules, log_softmax
from wlk_whisper.decoder.timing import boundaries
from wlk_whisper.decoder.words import spell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.feature_extractor import FeatureExtractor
    from numpy.typing import NDArray
    from tokenizers import Tokenizer as Vocabulary

    from wlk_whisper.checkpoint import Checkpoint
    from wlk_whisper.decoder.network import Encoded, Network
    from wlk_whisper.decoder.words import Spelt

__all__ = ["NO_SPEECH", "Engine", "StreamSettings"]

NO_SPEECH = 0.9  # probability of no speech above which a window's words are dropped (scope A07)


@attrs.frozen(kw_only=True)
class StreamSettings:
    """What one stream asked for; nothing of it is ever stored on the shared model."""

    task: str = "transcribe"
    beam_size: int = 1
    is_fitted: bool = False


@attrs.frozen(kw_only=True, eq=False)
class Engine:
    """
    A loaded network and what belongs to it; calls may come from any thread.

    Attributes:
        network: runs the layers.
        vocabulary: the tokenizer.json of the model.
        extractor: makes log-mel features with as many bands as the network takes.
        checkpoint: limits and wishes of the model.
        begin_suppressed: tokens a text must not begin with; None means a blank and the end.

    """

    network: Network
    vocabulary: Vocabulary
    extractor: FeatureExtractor
    checkpoint: Checkpoint
    begin_suppressed: tuple[int, ...] | None = None
    _unspoken: tuple[int, ...] = attrs.field(init=False)  # the same in every language

    @_unspoken.default
    def _find_unspoken(self) -> tuple[int, ...]:
        # A hundred calls of the tokenizer: once, not once a tick.
        return tuple(get_suppressed_tokens(self.tokenizer("en", "transcribe"), [-1]))

    @property
    def is_multilingual(self) -> bool:
        """Whether the model takes language and task tokens."""
        return is_multilingual(self.network)

    def encode(self, audio: NDArray[np.float32], *, is_fitted: bool) -> tuple[Encoded, Work]:
        """Return what the encoder makes of *audio* in its window."""
        frames = window_frames(len(audio), is_fitted=is_fitted)
        encoded = self.network.encode(log_mel(self.extractor, audio, frames))
        return encoded, Work(encoder_frames=frames)

    def detect_language(self, encoded: Encoded) -> tuple[str, Work]:
        """Return the likeliest language of those the checkpoint knows."""
        return detect_language(
            self.network, encoded, self.vocabulary, known=self.checkpoint.languages
        )

    def tokenizer(self, language: str, task: str) -> Tokenizer:
        """Return the tokenizer of a stream."""
        return Tokenizer(self.vocabulary, self.is_multilingual, task=task, language=language)

    def rules(self, tokenizer: Tokenizer, *, has_timestamps: bool) -> Rules:
        """Return what the decoder may say."""
        return Rules.of(
            tokenizer,
            has_timestamps=has_timestamps,
            begin_suppressed=self.begin_suppressed,
            suppressed=self._unspoken,
        )

    def align(
        self, tokenizer: Tokenizer, encoded: Encoded, tokens: Sequence[int], samples: int
    ) -> tuple[tuple[Spelt, ...], Work]:
        """
        Return the words of text *tokens* where the alignment heads see them.

        The text is run once more, without timestamps between the words: these draw the attention
        of the tokens behind them.
        """
        first = len(tokenizer.sot_sequence)
        forced = [*tokenizer.sot_sequence, tokenizer.no_timestamps, *tokens, tokenizer.eot]
        forced = forced[: self.network.text_positions]
        tokens = forced[first + 1 : -1]
        rows = range(first, first + len(tokens))
        heard = self.network.begin(encoded).forward(
            np.array([forced], dtype=np.int64), keep=rows, attend=True
        )
        if heard.attention is None:
            raise ValueError("expected the attention that was asked for, got none")
        positions = max(1, -(-samples // SAMPLES_PER_FRAME) // POSITION_FRAMES)
        bounds = boundaries(heard.attention[0], first=first, positions=positions)
        likely = np.array(
            [
                np.exp(log_softmax(logits[: tokenizer.eot])[token])
                for logits, token in zip(heard.logits[0], tokens, strict=True)
            ],
            dtype=np.float64,
        )
        words = spell(tokenizer, tokens, bounds, likely)
        work = Work(
            decoder_positions=len(forced),
            decoder_forwards=1,
            host_syncs=1,
            detokenised_ids=2 * len(tokens),  # the text as a whole, and piece by piece
        )
        return words, work

    def previous(self, tokenizer: Tokenizer, prompt: str) -> list[int]:
        """Return the tokens of the text before the audio, at most half of what has room."""
        # No prompt means no prompt tokens: not even an empty one (defect B57).
        if not prompt:
            return []
        most = self.network.text_positions // 2 - 1
        return [tokenizer.sot_prev, *tokenizer.encode(f" {prompt}")[-most:]]
