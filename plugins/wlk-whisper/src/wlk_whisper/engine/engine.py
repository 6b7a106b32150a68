"""WhisperEngine: a loaded network with its tokenizer, features and checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_whisper.engine.features import audio_encoder_frames, log_mel, window_mel_frames
from wlk_whisper.engine.language_detection import detect_language, is_multilingual
from wlk_whisper.engine.logit_filters import LogitFilter, log_softmax
from wlk_whisper.engine.passes import decoder_pass, encoder_pass, run
from wlk_whisper.engine.timing import token_boundaries
from wlk_whisper.engine.words import words_from_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from faster_whisper.feature_extractor import FeatureExtractor
    from numpy.typing import NDArray
    from tokenizers import Tokenizer as HfTokenizer

    from wlk_whisper.checkpoint import Checkpoint
    from wlk_whisper.engine.alignment_heads import AlignmentHeads
    from wlk_whisper.engine.decoding import DecodingResult
    from wlk_whisper.engine.features import AudioContext
    from wlk_whisper.engine.network import EncoderOutput, Network
    from wlk_whisper.engine.passes import Passes
    from wlk_whisper.engine.tokenizer import Tokenizer
    from wlk_whisper.engine.words import WordSpan

__all__ = ["NO_SPEECH_THRESHOLD", "DecodingOptions", "WhisperEngine", "contains_no_speech"]

T = TypeVar("T")

NO_SPEECH_THRESHOLD = 0.9  # a window whose probability of no speech is above it has no words


@attrs.frozen(kw_only=True)
class DecodingOptions:
    """Options of one stream; they travel with each call and are not stored on the engine."""

    task: str = "transcribe"
    beam_size: int = 1
    context: AudioContext = "full"
    keyterms: str = ""  #: text at the head of every prompt


@attrs.frozen(kw_only=True, eq=False)
class WhisperEngine:
    """
    A loaded network with what decoding needs beside it; calls may come from any thread.

    Attributes:
        network: runs the layers.
        hf_tokenizer: the tokenizer.json of the model.
        tokenizer_class: makes a tokenizer of a language and a task from it.
        feature_extractor: makes log-mel features with as many bands as the network takes.
        checkpoint: limits and defaults of the model.
        alignment_heads: the heads whose attention times the words.
        begin_suppress_tokens: tokens that a text must not begin with; None means a blank and the
            end of text.

    """

    network: Network
    hf_tokenizer: HfTokenizer
    tokenizer_class: Callable[..., Tokenizer]
    feature_extractor: FeatureExtractor
    checkpoint: Checkpoint
    alignment_heads: AlignmentHeads
    begin_suppress_tokens: tuple[int, ...] | None = None
    _non_speech_tokens: tuple[int, ...] = attrs.field(init=False)  # the same in every language

    @_non_speech_tokens.default
    def _find_non_speech_tokens(self) -> tuple[int, ...]:
        # A hundred calls of the tokenizer, made once instead of at every tick.
        return self.tokenizer("en", "transcribe").non_speech_tokens

    @property
    def is_multilingual(self) -> bool:
        """Whether the model has language and task tokens."""
        return is_multilingual(self.network)

    def run(self, calls: Sequence[Callable[[], Passes[T]]]) -> list[T]:
        """
        Return the answers of engine calls of several streams, each as alone.

        What a call raises is raised for all: make each of them again alone.
        """
        return run(self.network, calls)

    def encode(
        self, audio: NDArray[np.float32], context: AudioContext
    ) -> Passes[tuple[EncoderOutput, WorkCounters]]:
        """Return the encoder output of *audio* in its window, and the work counters."""
        mel_frames = window_mel_frames(len(audio), context)
        features = log_mel(self.feature_extractor, audio, mel_frames)
        output = yield from encoder_pass(features, is_padded=context == "padded")
        return output, WorkCounters(encoder_frames=mel_frames)

    def detect_language(self, encoder_output: EncoderOutput) -> Passes[tuple[str, WorkCounters]]:
        """Return the likeliest of the checkpoint's languages, and the work counters."""
        return detect_language(
            self.network, encoder_output, self.hf_tokenizer, languages=self.checkpoint.languages
        )

    def tokenizer(self, language: str, task: str) -> Tokenizer:
        """Return the tokenizer for a language and a task."""
        return self.tokenizer_class(
            self.hf_tokenizer, self.is_multilingual, task=task, language=language
        )

    def logit_filter(self, tokenizer: Tokenizer, *, has_timestamps: bool) -> LogitFilter:
        """Return the filter of tokens that the decoder may emit."""
        return LogitFilter.from_tokenizer(
            tokenizer,
            has_timestamps=has_timestamps,
            begin_suppress_tokens=self.begin_suppress_tokens,
            suppress_tokens=self._non_speech_tokens,
        )

    def align(
        self,
        tokenizer: Tokenizer,
        encoder_output: EncoderOutput,
        tokens: Sequence[int],
        samples: int,
    ) -> Passes[tuple[tuple[WordSpan, ...], WorkCounters]]:
        """
        Return the words of text *tokens* with the times of the alignment heads.

        The text is decoded once more without timestamps between the words, because timestamps draw
        the attention of the tokens after them.
        """
        first_row = len(tokenizer.sot_sequence)
        forced = [*tokenizer.sot_sequence, tokenizer.no_timestamps, *tokens, tokenizer.eot]
        forced = forced[: self.network.n_text_ctx]
        tokens = forced[first_row + 1 : -1]
        output = yield from decoder_pass(
            self.network.new_decoder(encoder_output),
            np.array([forced], dtype=np.int64),
            logits_to_keep=range(first_row, first_row + len(tokens)),
            output_attention=True,
        )
        if output.cross_attention is None:
            raise ValueError("expected the requested cross attention, got none")
        boundaries = token_boundaries(
            output.cross_attention[0],
            first_row=first_row,
            audio_frames=audio_encoder_frames(samples),
            rounding=output.rounding,
        )
        probabilities = np.array(
            [
                np.exp(log_softmax(logits[: tokenizer.eot])[token])
                for logits, token in zip(output.logits[0], tokens, strict=True)
            ],
            dtype=np.float64,
        )
        lag = self.alignment_heads.lag_seconds
        words = words_from_tokens(tokenizer, tokens, boundaries, probabilities, lag_seconds=lag)
        work = WorkCounters(
            decoder_positions=len(forced),
            decoder_forwards=1,
            host_syncs=1,
            detokenised_ids=2 * len(tokens),  # the text as a whole, and piece by piece
        )
        return words, work


def contains_no_speech(result: DecodingResult) -> bool:
    """
    Return whether the window has no words because its probability of no speech is too high.

    Raises:
        ChoiceTooClose: the probability is so close to the threshold that rounding may decide.

    """
    # A probability moves by less than the logits that it comes from.
    result.rounding.require_lead(abs(result.no_speech_prob - NO_SPEECH_THRESHOLD))
    return result.no_speech_prob > NO_SPEECH_THRESHOLD
