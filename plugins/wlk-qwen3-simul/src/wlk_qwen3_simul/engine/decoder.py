"""The engine calls of both policies: decode new audio after the committed text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.plugins import SAMPLE_RATE, AlignedHypothesis, BackendError, Hypothesis, WorkCounters
from wlk_qwen3_simul.engine.decoding import align_tokens, choose, decode
from wlk_qwen3_simul.engine.detokenize import draft_tokens, forced_tokens, words_from_tokens
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.engine.frames import HOP_SAMPLES, SECOND_TOKENS, TOKEN_MEL_FRAMES
from wlk_qwen3_simul.engine.prompt import MAX_HEADER_TOKENS, ChatPrompt, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import AlignedWord
    from wlk_qwen3_simul.engine.decoding import DecoderStep, DecodingResult
    from wlk_qwen3_simul.engine.encoder import EncodedAudio
    from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine
    from wlk_qwen3_simul.engine.network import EncodedWindow, KVCache

TOKEN_SAMPLES = TOKEN_MEL_FRAMES * HOP_SAMPLES
TOKENS_PER_SECOND = 15  # more than speech needs in scripts that the vocabulary has words for
SPELLED_TOKENS_PER_SECOND = 45  # 15 characters of three bytes each
EXTRA_TOKENS = 16  # added to every budget, for the punctuation of very short audio

# Languages in scripts that the vocabulary has few words for: most characters are spelled in bytes.
_SPELLED = frozenset({"el", "fa", "hi", "mk", "th"})


class CachedDecoder:
    """
    Per-stream decoder with a KV cache; implements the core's AlignAttDecoder and DecoderCache.

    The cache holds the mel frames and embeddings of closed windows, and the keys and values of the
    prompt and these windows.  A call runs the open window, the prompt after the audio, the
    committed text and the draft, which is the rest of the previous call's text.  The result is
    the same as without a cache.
    """

    def __init__(self, engine: Engine, options: DecodingOptions) -> None:
        self._engine = engine
        self._options = options
        self._prompt = ChatPrompt.build(engine.vocabulary, options.hotwords)
        self._headers = self._prompt.headers(options.languages)  # of which one is detected
        self.reset()

    @property
    def nbytes(self) -> int:
        """Bytes of frames, embeddings, keys and values held."""
        return self._encoder.nbytes + (0 if self._kv_cache is None else self._kv_cache.nbytes)

    def reset(self) -> None:
        """Clear the cache, because the utterance has ended."""
        self._encoder: IncrementalEncoder = IncrementalEncoder(self._engine.network)
        # The latest shortened window: the whole one, the number of tokens left out, and the rest.
        self._shortened: tuple[Any, int, Any] = (None, 0, None)
        self._call = 0  # number of the latest call in this utterance; tokens carry it
        self._decoded: tuple[int, ...] = ()  # ids the latest call decoded as text
        self._detected: tuple[int, ...] = ()  # ids the latest call decoded as the header, if any
        self._header: tuple[int, ...] = ()  # ids of the latest header, forced or detected
        self._drop_kv_cache()

    def _drop_kv_cache(self) -> None:
        # The next call creates one: that can fail, and only engine calls are allowed to fail.
        self._kv_cache: KVCache | None = None
        self._cached_windows: tuple[EncodedWindow, ...] = ()  # those in the KV cache

    def __call__(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        remainder_samples: int,
        context: tuple[AlignedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> AlignedHypothesis:
        """Return the words of *audio* after the words of *context*; see AlignAttDecoder."""
        encoded = self._encoder.encode(audio, first_sample=first_sample)
        # Rounded down, because the token where the remainder ends may also contain the next word.
        left_out = min(remainder_samples // TOKEN_SAMPLES, SECOND_TOKENS - 1)
        encoded = self._without_first(encoded, left_out)
        work = WorkCounters(encoder_frames=encoded.frames)
        if encoded.tokens == 0:
            return AlignedHypothesis(language=language, work=work)
        text = forced_tokens(context, self._engine.vocabulary)
        # The language detected earlier may have no code, so its decoded header is forced.
        header = self._header if language is None and context else self._prompt.header(language)
        end = context[-1].end if context else 0.0
        uncommitted = max(0, len(audio) - max(0, round(end * SAMPLE_RATE)))
        max_tokens = token_budget(uncommitted, language, limit=self._options.max_new_tokens)
        draft = draft_tokens(context, self._decoded, self._engine.vocabulary, call=self._call)
        is_free = not header and not self._headers  # the model writes any header
        if is_free:
            draft, max_tokens = (*self._detected, *draft), max_tokens + MAX_HEADER_TOKENS
        header, result = self._decode(
            encoded,
            headers=[header] if header or is_free else self._headers,
            text=text,
            draft=draft,
            max_tokens=max_tokens,
            first_token=left_out,
            halt=None if is_last else partial(self._has_jumped_back, has_header=not is_free),
        )
        header_tokens = 0
        if is_free:
            header_tokens, language = self._read_header(result)
        elif language is None:
            _, language = read_header(header, self._engine.vocabulary) or (0, None)
        words = words_from_tokens(
            result.without_first(header_tokens),
            self._engine,
            audio,
            call=self._call + 1,
            floor=end,
            preceding=None if context else prompt,
            is_last=is_last,
        )
        # Nothing below can fail, so the state always matches the returned words.
        self._call += 1
        self._detected = result.ids[:header_tokens]
        self._header = header or self._detected
        self._decoded = result.ids[header_tokens:]
        work += attrs.evolve(result.work, detokenised_ids=len(result.ids))
        return AlignedHypothesis(words=words, language=language, work=work)

    def _without_first(self, encoded: EncodedAudio, tokens: int) -> EncodedAudio:
        """
        Return *encoded* without its first *tokens* audio tokens, as the same objects in each call.

        These tokens are the end of a word that is not in the forced text.  The model would count it
        as a word, and make up for it by repeating another word or leaving one out.
        """
        if not tokens:
            return encoded
        whole = encoded.windows[0]
        window, known, shortened = self._shortened
        if window is not whole or known != tokens:
            shortened = whole.without_first(tokens)
            self._shortened = (whole, tokens, shortened)
        if encoded.closed:
            return attrs.evolve(encoded, closed=(shortened, *encoded.closed[1:]))
        return attrs.evolve(encoded, open=shortened)

    def _read_header(self, result: DecodingResult) -> tuple[int, str | None]:
        """
        Return the number of header tokens in *result*, and the language they name.

        Raises:
            BackendError: the model emits text without a header, which would never be returned.

        """
        header = read_header(result.ids, self._engine.vocabulary)
        if header is not None:
            return header
        # Output that ends at once means silence, and needs no header.
        if result.loop or len(result.ids) >= MAX_HEADER_TOKENS:
            raise BackendError(
                f"the model emitted {len(result.ids)} tokens without the header in which Qwen3-ASR "
                "names a detected language; set the language",
                retryable=False,
            )
        return len(result.ids), None

    def _decode(
        self,
        encoded: EncodedAudio,
        *,
        headers: Sequence[tuple[int, ...]],
        text: Sequence[int],
        draft: Sequence[int],
        max_tokens: int,
        first_token: int,
        halt: Callable[[Sequence[int], Sequence[DecoderStep]], bool] | None,
    ) -> tuple[tuple[int, ...], DecodingResult]:
        """
        Run the positions that the KV cache lacks, and decode what follows a header and *text*.

        One of several *headers* is chosen greedily, id by id.
        """
        kv_cache, cached = self._kv_cache, self._cached_windows
        # Dropped first, because a forward that fails leaves it with unknown content.
        self._drop_kv_cache()
        if kv_cache is None:
            kv_cache = self._engine.network.new_kv_cache()
        before = self._prompt.before_audio
        unchanged = 0
        for old, new in zip(cached, encoded.closed, strict=False):
            if old is not new:
                break
            unchanged += 1
        parts: list[EncodedWindow | Sequence[int]] = list(encoded.windows[unchanged:])
        if kv_cache.length:
            tokens = sum(window.tokens for window in encoded.closed[:unchanged])
            kv_cache.truncate(len(before) + tokens)
        else:
            parts.insert(0, before)
        audio = (len(before), len(before) + encoded.tokens)
        header, work = headers[0], WorkCounters()
        forced: tuple[int, ...] = (*self._prompt.after_audio, *header)
        if len(headers) > 1:
            parts.append(self._prompt.after_audio)
            network = self._engine.network
            header, held, work = choose(network, kv_cache, parts, headers, audio=audio)
            parts, forced = [], header[held:]
        result = decode(
            self._engine.network,
            kv_cache,
            parts,
            forced=(*forced, *text),
            draft=draft,
            max_tokens=max_tokens,
            ends=self._engine.vocabulary.end_ids,
            audio=audio,
            first_token=first_token,
            halt=halt,
        )
        self._kv_cache, self._cached_windows = kv_cache, encoded.closed
        return header, attrs.evolve(result, work=result.work + work)

    def _has_jumped_back(
        self, ids: Sequence[int], steps: Sequence[DecoderStep], *, has_header: bool
    ) -> bool:
        """Return whether the newest token attends so far back that no later word can be final."""
        rewind = self._options.rewind_frames
        if rewind is None:
            return False
        first = 0
        if not has_header:
            header = read_header(ids, self._engine.vocabulary)
            first = len(ids) if header is None else header[0]
        tokens = align_tokens(ids[first:], steps[first:], by_self=self._engine.by_self)
        farthest = max((token.frame for token in tokens), default=0)
        return bool(tokens) and tokens[-1].frame < farthest - rewind


def token_budget(samples: int, language: str | None, *, limit: int) -> int:
    """
    Return the most tokens to decode for *samples* of speech at 16 kHz, at most *limit*.

    *samples* counts all audio without committed text, both new audio and audio decoded before.  An
    unknown *language* gets the larger budget, because its characters may be spelled in bytes.
    """
    is_spelled = language is None or language in _SPELLED
    rate = SPELLED_TOKENS_PER_SECOND if is_spelled else TOKENS_PER_SECOND
    return min(limit, EXTRA_TOKENS + round(rate * samples / SAMPLE_RATE))


def transcribe(
    audio: NDArray[np.float32],
    *,
    engine: Engine,
    options: DecodingOptions,
    prompt: str,
    language: str | None,
) -> Hypothesis:
    """
    Transcribe float32[n] at 16 kHz, n > 0, on its own.

    The model does not receive *prompt*, the transcript so far: its system turn holds the hotwords,
    and it was not trained on earlier text.  *prompt* only decides the spacing of the first word.
    """
    return CachedDecoder(engine, options)(
        audio,
        first_sample=0,
        remainder_samples=0,
        context=(),
        prompt=prompt,
        language=language,
        is_last=True,
    )
