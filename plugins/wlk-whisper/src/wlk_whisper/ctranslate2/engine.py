"""The faster-whisper engine: audio in, words with times out, with work counters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs
from ctranslate2 import DataType, Device, StorageView
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens
import numpy as np

from wlk_core.plugins import Hypothesis, WorkCounters
from wlk_frameworks.decoding_loops import find_loop
from wlk_whisper.engine.decoding import LOOP_MAX_TOKENS, LOOP_REPEATS
from wlk_whisper.engine.features import (
    SAMPLES_PER_MEL_FRAME,
    SILENCE_STRIDE,
    following_silence,
    log_mel,
    silence_features,
    window_mel_frames,
)
from wlk_whisper.engine.no_speech import (
    COMPARED_TOKENS,
    NO_SPEECH_THRESHOLD,
    SPEECH_THRESHOLD,
    is_spoken,
)
from wlk_whisper.engine.prompt import previous_tokens, token_budget, tokens_per_second
from wlk_whisper.engine.timing import first_columns
from wlk_whisper.engine.words import (
    drop_loop,
    spoken_tokens,
    tighten_to_speech,
    words_from_tokens,
)

if TYPE_CHECKING:
    from faster_whisper import WhisperModel
    from numpy.typing import NDArray

    from wlk_whisper.checkpoint import Checkpoint
    from wlk_whisper.engine.alignment_heads import AlignmentHeads
    from wlk_whisper.engine.engine import DecodingOptions
    from wlk_whisper.engine.words import WordSpan

SMALLEST = 1e-30  # probability; float32 rounds smaller ones to 0, whose logarithm is not finite


@attrs.frozen
class FasterWhisperEngine:
    """A loaded model; calls may come from any thread, because CTranslate2 queues them."""

    model: WhisperModel
    checkpoint: Checkpoint
    alignment_heads: AlignmentHeads
    _suppress_tokens: list[int] = attrs.field(init=False, eq=False, repr=False)

    @_suppress_tokens.default
    def _find_suppress_tokens(self) -> list[int]:
        # This calls the tokenizer a hundred times, so it runs once rather than at every tick; the
        # tokens are the same in every language and task.
        return list(get_suppressed_tokens(self._tokenizer("en", "transcribe"), [-1]))

    @property
    def is_multilingual(self) -> bool:
        """Whether the model has language and task tokens."""
        return bool(self.model.model.is_multilingual)

    def transcribe(
        self,
        audio: NDArray[np.float32],
        *,
        prompt: str,
        language: str | None,
        options: DecodingOptions,
    ) -> Hypothesis:
        """
        Transcribe float32[n] at 16 kHz, 0 < n <= 30 s, independently of other calls.

        Words have times in seconds from the start of the audio and the mean probability of their
        tokens.  Audio without speech has no words; see no_speech.py.
        """
        mel_frames = window_mel_frames(len(audio), options.context)
        work = WorkCounters(encoder_frames=mel_frames)
        encoded = self.model.encode(log_mel(self.model.feature_extractor, audio, mel_frames))
        is_padded = options.context == "padded"
        encoder_output = self._padded(encoded, SILENCE_STRIDE) if is_padded else encoded
        probability = None
        if language is None and self.is_multilingual:
            language, probability = self._detect_language(encoder_output, options.languages)
            work += WorkCounters(decoder_positions=1, decoder_forwards=1)
        language = language or "en"
        tokenizer = self._tokenizer(language, options.task)
        budget = token_budget(len(audio), language, task=options.task)
        tokens, no_speech, generation_work = self._generate(
            tokenizer, encoder_output, prompt, options, budget
        )
        work += generation_work
        if is_padded and no_speech > SPEECH_THRESHOLD:
            # See WhisperEngine.decode_speech.
            encoder_output = self._padded(encoded, 1)
            tokens, no_speech, generation_work = self._generate(
                tokenizer, encoder_output, prompt, options, budget
            )
            work += generation_work
        if not tokens or no_speech > NO_SPEECH_THRESHOLD:
            return Hypothesis(language=language, work=work)
        frames = max(2, -(-len(audio) // SAMPLES_PER_MEL_FRAME))
        if no_speech > SPEECH_THRESHOLD:
            text = tokens[:COMPARED_TOKENS]
            silence = StorageView.from_array(self._silence[:, : encoder_output.shape[1]])
            _, heard, heard_work = self._force(tokenizer, encoder_output, text, frames)
            _, silent, silent_work = self._force(tokenizer, silence, text, frames)
            work += heard_work + silent_work
            if not is_spoken(np.log(heard), np.log(silent)):
                return Hypothesis(language=language, work=work)
        spans, alignment_work = self._align(tokenizer, encoder_output, tokens, frames)
        words = drop_loop([span.word for span in spans])
        return Hypothesis(
            words=tighten_to_speech(words, audio),
            language=language,
            language_probability=probability,
            work=work + alignment_work,
        )

    @cached_property
    def _silence(self) -> NDArray[np.float32]:
        """The encoder output float32[1, frames, width] of 30 s of silence."""
        bands = len(self.model.feature_extractor.mel_filters)
        return _on_host(self.model.encode(silence_features(bands)))

    def _padded(self, encoded: StorageView, stride: int) -> StorageView:
        """Return *encoded*, [1, frames, width], and the encoder output of silence after it."""
        host = _on_host(encoded)
        following = self._silence[:, following_silence(host.shape[1], stride)]
        return StorageView.from_array(np.concatenate((host, following), axis=1))

    def _detect_language(
        self, encoder_output: StorageView, allowed: tuple[str, ...]
    ) -> tuple[str, float]:
        """Return the likeliest of the *allowed* languages, and its probability among them."""
        ranked = self.model.model.detect_language(encoder_output)[0]
        probabilities = {token.strip("<|>"): probability for token, probability in ranked}
        languages = allowed or self.checkpoint.languages or tuple(probabilities)
        language = max(languages, key=lambda code: probabilities.get(code, 0.0))
        total = sum(probabilities.get(code, 0.0) for code in languages)
        return language, probabilities[language] / total

    def _tokenizer(self, language: str, task: str) -> Tokenizer:
        return Tokenizer(
            self.model.hf_tokenizer, self.is_multilingual, task=task, language=language
        )

    def _generate(
        self,
        tokenizer: Tokenizer,
        encoder_output: StorageView,
        prompt: str,
        options: DecodingOptions,
        budget: int,
    ) -> tuple[list[int], float, WorkCounters]:
        """Return text tokens, the probability of no speech and the work counters; see `decode`."""
        previous = previous_tokens(tokenizer, prompt, keyterms=options.keyterms)
        work = WorkCounters()
        while True:
            start = [*previous, *tokenizer.sot_sequence]
            result = self.model.model.generate(
                encoder_output,
                [start],
                beam_size=options.beam_size,
                # CTranslate2 limits the text to half of this, and to what the prompt leaves of it.
                max_length=min(self.model.max_length, budget + max(budget, len(start))),
                return_no_speech_prob=True,
                suppress_tokens=self._suppress_tokens,
                max_initial_timestamp_index=50,
            )[0]
            tokens = result.sequences_ids[0]
            steps = len(tokens) + 1
            work += WorkCounters(
                decoder_positions=len(start) + steps * options.beam_size, decoder_forwards=1 + steps
            )
            text = [token for token in tokens if token < tokenizer.eot]
            loop = find_loop(text, times=LOOP_REPEATS, longest=LOOP_MAX_TOKENS)
            if loop is None or not previous:
                end = len(text) if loop is None else loop.end
                return text[:end], result.no_speech_prob, work
            previous = []

    def _align(
        self, tokenizer: Tokenizer, encoder_output: StorageView, tokens: list[int], mel_frames: int
    ) -> tuple[tuple[WordSpan, ...], WorkCounters]:
        """Return the words of *tokens*, timed by the model's cross attention."""
        alignments, probabilities, work = self._force(tokenizer, encoder_output, tokens, mel_frames)
        boundaries = first_columns(*np.array(alignments, dtype=np.int64).T)
        rate = tokens_per_second(tokenizer.language_code)
        kept = spoken_tokens(tokens, boundaries, rate=rate)
        words = words_from_tokens(
            tokenizer,
            [tokens[index] for index in kept],
            np.append(boundaries[kept], boundaries[-1]),
            probabilities[kept],
            lag_seconds=self.alignment_heads.lag_seconds,
        )
        return words, work + WorkCounters(detokenised_ids=2 * len(tokens))

    def _force(
        self, tokenizer: Tokenizer, encoder_output: StorageView, tokens: list[int], mel_frames: int
    ) -> tuple[list[tuple[int, int]], NDArray[np.float64], WorkCounters]:
        """Force the text *tokens* on the decoder; return their alignment and probabilities."""
        result = self.model.model.align(
            encoder_output, tokenizer.sot_sequence, [tokens], mel_frames
        )[0]
        probabilities = np.array(result.text_token_probs, dtype=np.float64)
        positions = len(tokenizer.sot_sequence) + 1 + len(tokens)
        work = WorkCounters(decoder_positions=positions, decoder_forwards=1)
        return result.alignments, np.maximum(probabilities, SMALLEST), work


def _on_host(output: StorageView) -> NDArray[np.float32]:
    # numpy reads only views in host memory, and has no bfloat16.
    host: NDArray[np.float32] = np.array(output.to_device(Device.cpu).to(DataType.float32))
    return host
