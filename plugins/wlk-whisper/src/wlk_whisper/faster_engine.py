"""The faster-whisper engine: one stretch of audio in, timed words out, all work counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens, merge_punctuations

from wlk_core import Hypothesis, Work
from wlk_core.streaming import Word
from wlk_whisper.alignment import settle_times, without_loops
from wlk_whisper.decoder.budget import token_budget
from wlk_whisper.decoder.engine import NO_SPEECH, StreamSettings
from wlk_whisper.decoder.features import SAMPLES_PER_FRAME, log_mel, window_frames
from wlk_whisper.decoder.words import APPENDED, PREPENDED

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel
    import numpy as np
    from numpy.typing import NDArray

    from wlk_whisper.checkpoint import Checkpoint

__all__ = ["FasterWhisperEngine", "StreamSettings"]


@attrs.frozen
class FasterWhisperEngine:
    """A loaded model; calls may come from any thread, CTranslate2 queues them."""

    model: WhisperModel
    checkpoint: Checkpoint

    @property
    def is_multilingual(self) -> bool:
        """Whether the model takes language and task tokens."""
        return bool(self.model.model.is_multilingual)

    def transcribe(
        self,
        audio: NDArray[np.float32],
        *,
        prompt: str,
        language: str | None,
        settings: StreamSettings,
    ) -> Hypothesis:
        """
        Transcribe float32[n] at 16 kHz, 0 < n <= 30 s, on its own.

        Words carry times in seconds from the start of the audio and the mean probability of their
        tokens.  A window that is more likely than NO_SPEECH no speech gives none.
        """
        frames = window_frames(len(audio), is_fitted=settings.is_fitted)
        encoded = self.model.encode(log_mel(self.model.feature_extractor, audio, frames))
        work = Work(encoder_frames=frames)
        if language is None:
            language, detected = self._detect_language(encoded)
            work += detected
        tokenizer = self._tokenizer(language, settings.task)
        tokens, is_speech, generated = self._generate(
            tokenizer,
            encoded,
            prompt,
            settings.beam_size,
            token_budget(len(audio), language, task=settings.task),
        )
        work += generated
        if not is_speech or not tokens:
            return Hypothesis(language=language, work=work)
        words, aligned = self._align(tokenizer, encoded, tokens, len(audio))
        return Hypothesis(
            words=settle_times(without_loops(words), audio), language=language, work=work + aligned
        )

    def _detect_language(self, encoded: StorageView) -> tuple[str, Work]:
        if not self.is_multilingual:
            return "en", Work()
        ranked = self.model.model.detect_language(encoded)[0]
        known = self.checkpoint.languages
        codes = (token.strip("<|>") for token, _ in ranked)
        language = next(code for code in codes if known is None or code in known)
        return language, Work(decoder_positions=1, decoder_forwards=1)

    def _tokenizer(self, language: str, task: str) -> Tokenizer:
        return Tokenizer(
            self.model.hf_tokenizer, self.is_multilingual, task=task, language=language
        )

    def _generate(
        self,
        tokenizer: Tokenizer,
        encoded: StorageView,
        prompt: str,
        beam_size: int,
        budget: int,
    ) -> tuple[list[int], bool, Work]:
        """Return the text tokens, whether they are speech, and the work done."""
        # No prompt means no prompt tokens: not even an empty one (defect B57).
        previous = tokenizer.encode(f" {prompt}") if prompt else []
        start = self.model.get_prompt(tokenizer, previous)
        result = self.model.model.generate(
            encoded,
            [start],
            beam_size=beam_size,
            # CTranslate2 gives the text half of this length, and what the prompt leaves of it.
            max_length=min(self.model.max_length, budget + max(budget, len(start))),
            return_no_speech_prob=True,
            suppress_tokens=get_suppressed_tokens(tokenizer, [-1]),
            max_initial_timestamp_index=50,
        )[0]
        tokens = result.sequences_ids[0]
        text = [token for token in tokens if token < tokenizer.eot]
        steps = len(tokens) + 1
        work = Work(decoder_positions=len(start) + steps * beam_size, decoder_forwards=1 + steps)
        return text, result.no_speech_prob <= NO_SPEECH, work

    def _align(
        self, tokenizer: Tokenizer, encoded: StorageView, tokens: list[int], samples: int
    ) -> tuple[tuple[Word, ...], Work]:
        """Return the words of *tokens* where the cross-attention of the model sees them."""
        frames = max(2, -(-samples // SAMPLES_PER_FRAME))
        found = self.model.find_alignment(tokenizer, [tokens], encoded, frames)
        alignment = found[0] if found else []
        merge_punctuations(alignment, PREPENDED, APPENDED)
        words: list[Word] = []
        for entry in alignment:
            if "\ufffd" in entry["word"]:
                break  # bytes of an unfinished character wait for the rest
            if entry["word"].strip():
                probability = min(1.0, max(0.0, float(entry["probability"])))
                words.append(
                    Word(float(entry["start"]), float(entry["end"]), entry["word"], probability)
                )
        positions = len(tokenizer.sot_sequence) + 1 + len(tokens)
        work = Work(decoder_positions=positions, decoder_forwards=1, detokenised_ids=len(tokens))
        return tuple(words), work
