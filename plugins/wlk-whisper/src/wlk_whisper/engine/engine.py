"""The engine over a Network, and the engine call of LocalAgreement and long-form."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import attrs
import numpy as np

from wlk_core.plugins import Hypothesis, WorkCounters
from wlk_whisper.engine.decoding import decode
from wlk_whisper.engine.features import (
    SILENCE_STRIDE,
    audio_encoder_frames,
    log_mel,
    silence_features,
    window_mel_frames,
)
from wlk_whisper.engine.logit_filters import LogitFilter, log_softmax
from wlk_whisper.engine.no_speech import (
    COMPARED_TOKENS,
    NO_SPEECH_THRESHOLD,
    SPEECH_THRESHOLD,
    is_spoken,
)
from wlk_whisper.engine.prompt import previous_tokens, token_budget, tokens_per_second
from wlk_whisper.engine.timing import token_boundaries
from wlk_whisper.engine.words import (
    drop_loop,
    spoken_tokens,
    tighten_to_speech,
    words_from_tokens,
)
from wlk_whisper.models import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from faster_whisper.feature_extractor import FeatureExtractor
    from faster_whisper.tokenizer import Tokenizer
    from numpy.typing import NDArray
    from tokenizers import Tokenizer as HfTokenizer

    from wlk_whisper.checkpoint import Checkpoint
    from wlk_whisper.engine.alignment_heads import AlignmentHeads
    from wlk_whisper.engine.decoding import DecodingResult
    from wlk_whisper.engine.features import AudioContext
    from wlk_whisper.engine.network import DecoderOutput, Network
    from wlk_whisper.engine.words import WordSpan

P = ParamSpec("P")
T = TypeVar("T")

MULTILINGUAL_ROWS = 51865  # n_vocab of multilingual Whisper; English-only models have fewer


@attrs.frozen(kw_only=True)
class DecodingOptions:
    """Options of one stream, passed with each call and never stored on the engine."""

    task: str = "transcribe"
    beam_size: int = 1
    context: AudioContext = "full"
    keyterms: str = ""  #: text that begins every prompt
    languages: tuple[str, ...] = ()  #: among which one is detected; empty for all


@attrs.frozen(kw_only=True, eq=False)
class WhisperEngine:
    """
    A loaded network, its tokenizer, features and config; calls may come from any thread.

    A transcript never begins with *begin_suppress_tokens*; None means a space or the end of text.
    """

    network: Network
    hf_tokenizer: HfTokenizer
    checkpoint: Checkpoint
    alignment_heads: AlignmentHeads
    tokenizer_class: type[Tokenizer]
    feature_extractor: FeatureExtractor
    begin_suppress_tokens: tuple[int, ...] | None = None
    _non_speech_tokens: tuple[int, ...] = attrs.field(init=False)  # the same in every language
    _running: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @_non_speech_tokens.default
    def _find_non_speech_tokens(self) -> tuple[int, ...]:
        # This calls the tokenizer a hundred times, so it runs once rather than at every tick.
        tokens: tuple[int, ...] = self.tokenizer("en", "transcribe").non_speech_tokens
        return tokens

    @property
    def is_multilingual(self) -> bool:
        """Whether the model has language and task tokens."""
        return self.network.n_vocab >= MULTILINGUAL_ROWS

    def one_by_one(self, function: Callable[P, T]) -> Callable[P, T]:
        """
        Return *function* so that of all streams only one runs it at a time.

        A framework uses all cores, or the whole GPU, for a call, and calls side by side take
        longer; their memory would add up.
        """

        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with self._running:
                return function(*args, **kwargs)

        return run

    def encode(
        self,
        audio: NDArray[np.float32],
        options: DecodingOptions,
        language: str | None,
        *,
        has_all_silence: bool = False,
    ) -> tuple[Any, str, float | None, WorkCounters]:
        """
        Return the encoder output of *audio*, its language, a probability and the work counters.

        If *language* is None, it is detected among those of *options* or of the checkpoint; an
        English-only model needs no pass for that.  The probability is that of a detected language,
        else None.  With *has_all_silence* a padded window is followed by all of the silence.
        """
        mel_frames = window_mel_frames(len(audio), options.context)
        features = log_mel(self.feature_extractor, audio, mel_frames)
        stride = (1 if has_all_silence else SILENCE_STRIDE) if options.context == "padded" else 0
        encoder_output = self.network.encode(features, silence_stride=stride)
        work = WorkCounters(encoder_frames=mel_frames)
        probability = None
        if language is None and self.is_multilingual:
            language, probability = self._detect_language(encoder_output, options.languages)
            work += WorkCounters(decoder_positions=1, decoder_forwards=1, host_syncs=1)
        return encoder_output, language or "en", probability, work

    def _detect_language(self, encoder_output: Any, allowed: tuple[str, ...]) -> tuple[str, float]:
        codes = allowed or self.checkpoint.languages or LANGUAGES
        ids = {code: self.hf_tokenizer.token_to_id(f"<|{code}|>") for code in codes}
        start = self.hf_tokenizer.token_to_id("<|startoftranscript|>")
        decoder = self.network.new_decoder(encoder_output)
        output = decoder.forward(np.array([[start]], dtype=np.int64))
        # Codes without a token (yue, before large-v3) are left out.
        logits = {
            code: float(output.logits[0, -1, token])
            for code, token in ids.items()
            if token is not None
        }
        language = max(logits, key=logits.__getitem__)
        scores = np.array(list(logits.values()))
        probability = 1 / float(np.exp(scores - logits[language]).sum())
        return language, probability

    def tokenizer(self, language: str, task: str) -> Tokenizer:
        """Return the tokenizer for a language and a task."""
        return self.tokenizer_class(
            self.hf_tokenizer, self.is_multilingual, task=task, language=language
        )

    def logit_filter(self, tokenizer: Tokenizer, *, has_timestamps: bool) -> LogitFilter:
        """Return the filter that suppresses special and non-speech tokens."""
        first = self.begin_suppress_tokens
        if first is None:  # the defaults of openai/whisper
            first = (tokenizer.encode(" ")[0], tokenizer.eot)
        special = range(tokenizer.eot + 1, tokenizer.timestamp_begin)
        suppressed = sorted({*self._non_speech_tokens, *special})
        return LogitFilter(
            sot=tokenizer.sot,
            eot=tokenizer.eot,
            no_speech=tokenizer.no_speech,
            timestamp_begin=tokenizer.timestamp_begin,
            suppress_tokens=np.array(suppressed, dtype=np.int64),
            begin_suppress_tokens=np.array(sorted(set(first)), dtype=np.int64),
            has_timestamps=has_timestamps,
        )

    def align(
        self,
        tokenizer: Tokenizer,
        encoder_output: Any,
        tokens: Sequence[int],
        samples: int,
    ) -> tuple[tuple[WordSpan, ...], WorkCounters]:
        """
        Return the words of the text *tokens*, timed by the alignment heads.

        The text is forced on the decoder without timestamps, because these would attract the
        attention of the tokens after them.
        """
        first_row = len(tokenizer.sot_sequence)
        tokens = tokens[: self.network.n_text_ctx - first_row - 2]
        output, logprobs, work = self._force(
            tokenizer, encoder_output, tokens, output_attention=True
        )
        if output.cross_attention is None:
            raise ValueError("expected the requested cross attention, got none")
        boundaries = token_boundaries(
            output.cross_attention[0, ..., : audio_encoder_frames(samples)],
            first_row=first_row,
        )
        rate = tokens_per_second(tokenizer.language_code)
        kept = spoken_tokens(tokens, boundaries, rate=rate)
        words = words_from_tokens(
            tokenizer,
            [tokens[index] for index in kept],
            np.append(boundaries[kept], boundaries[-1]),
            np.exp(logprobs[kept]),
            lag_seconds=self.alignment_heads.lag_seconds,
        )
        # The text is detokenised as a whole, and piece by piece.
        return words, work + WorkCounters(detokenised_ids=2 * len(tokens))

    def decode_speech(
        self,
        decode_over: Callable[[Any], DecodingResult],
        encoder_output: Any,
        tokenizer: Tokenizer,
        audio: NDArray[np.float32],
        options: DecodingOptions,
    ) -> tuple[DecodingResult | None, Any, WorkCounters]:
        """
        Return the result of *decode_over*, the encoder output that it was given, and the work.

        A padded window that may be without speech is decoded again with all of the silence after
        it, because with less Whisper invents likelier text.  The result is None if nobody speaks;
        see no_speech.py.
        """
        result = decode_over(encoder_output)
        work = result.work
        is_padded = options.context == "padded"
        if is_padded and result.no_speech_prob > SPEECH_THRESHOLD:
            encoder_output, _, _, encoding = self.encode(
                audio, options, tokenizer.language_code, has_all_silence=True
            )
            result = decode_over(encoder_output)
            work += encoding + result.work
        tokens = [token for token in result.tokens if token < tokenizer.eot][:COMPARED_TOKENS]
        if not tokens or result.no_speech_prob > NO_SPEECH_THRESHOLD:
            return None, encoder_output, work
        if result.no_speech_prob <= SPEECH_THRESHOLD:
            return result, encoder_output, work
        mel_frames = window_mel_frames(0 if is_padded else len(audio), options.context)
        features = silence_features(self.network.n_mels, mel_frames)
        silence = self.network.encode(features, silence_stride=1 if is_padded else 0)
        _, silent, silent_work = self._force(tokenizer, silence, tokens)
        _, heard, heard_work = self._force(tokenizer, encoder_output, tokens)
        work += WorkCounters(encoder_frames=mel_frames) + silent_work + heard_work
        return result if is_spoken(heard, silent) else None, encoder_output, work

    def _force(
        self,
        tokenizer: Tokenizer,
        encoder_output: Any,
        tokens: Sequence[int],
        *,
        output_attention: bool = False,
    ) -> tuple[DecoderOutput, NDArray[np.float64], WorkCounters]:
        """Force the text *tokens* on the decoder, and return their log-probabilities as text."""
        start = tokenizer.sot_sequence
        forced = [*start, tokenizer.no_timestamps, *tokens, tokenizer.eot]
        output = self.network.new_decoder(encoder_output).forward(
            np.array([forced], dtype=np.int64),
            logits_to_keep=range(len(start), len(start) + len(tokens)),
            output_attention=output_attention,
        )
        logprobs = [
            log_softmax(logits[: tokenizer.eot])[token]
            for logits, token in zip(output.logits[0], tokens, strict=True)
        ]
        work = WorkCounters(decoder_positions=len(forced), decoder_forwards=1, host_syncs=1)
        return output, np.array(logprobs, dtype=np.float64), work


def transcribe(
    audio: NDArray[np.float32],
    *,
    engine: WhisperEngine,
    options: DecodingOptions,
    prompt: str,
    language: str | None,
) -> Hypothesis:
    """
    Transcribe float32[n] at 16 kHz, 0 < n <= 30 s, independently of other calls.

    The text is decoded with timestamps, as in Whisper's training, and aligned in a second pass
    without them.  Words have times in seconds from the start of the audio and the mean probability
    of their tokens.
    """
    encoder_output, language, probability, work = engine.encode(audio, options, language)
    tokenizer = engine.tokenizer(language, options.task)
    previous = previous_tokens(tokenizer, prompt, keyterms=options.keyterms)
    decode_over = partial(
        decode,
        engine.network,
        prompt=tokenizer.sot_sequence,
        previous=previous,
        logit_filter=engine.logit_filter(tokenizer, has_timestamps=True),
        budget=token_budget(len(audio), language, task=options.task),
        beam_size=options.beam_size,
    )
    result, encoder_output, decoding_work = engine.decode_speech(
        decode_over, encoder_output, tokenizer, audio, options
    )
    work += decoding_work
    if result is None:
        return Hypothesis(language=language, work=work)
    tokens = [token for token in result.tokens if token < tokenizer.eot]
    spans, alignment_work = engine.align(tokenizer, encoder_output, tokens, len(audio))
    words = drop_loop([span.word for span in spans])
    return Hypothesis(
        words=tighten_to_speech(words, audio),
        language=language,
        language_probability=probability,
        work=work + alignment_work,
    )
