"""Build a LoadedBackend over any Network: streams of every policy, and the warmup."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_core.plugins import (
    SAMPLE_RATE,
    AlignAtt,
    AlignAttRecognizer,
    AlignedWord,
    LoadedBackend,
    LocalAgreementRecognizer,
)
from wlk_frameworks.languages import detectable_languages
from wlk_frameworks.long_form import LongFormRecognizer
from wlk_whisper.checkpoint import GenerationConfig
from wlk_whisper.engine.alignatt import transcribe_aligned
from wlk_whisper.engine.alignment_heads import choose_alignment_heads
from wlk_whisper.engine.engine import DecodingOptions, WhisperEngine, transcribe
from wlk_whisper.engine.features import SAMPLES_PER_ENCODER_FRAME
from wlk_whisper.engine.prompt import MAX_PROMPT_TOKENS
from wlk_whisper.engine.timing import ENCODER_FRAME_SECONDS
from wlk_whisper.models import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from faster_whisper.feature_extractor import FeatureExtractor
    from faster_whisper.tokenizer import Tokenizer
    from tokenizers import Tokenizer as HfTokenizer

    from wlk_core.plugins import BackendSpec, EngineCalls, Hypothesis, Recognizer, StreamConfig
    from wlk_whisper.checkpoint import Checkpoint
    from wlk_whisper.engine.network import Network

logger = logging.getLogger(__name__)

REWIND_FRAMES = 200  # 4 s, the rewind_threshold of SimulStreaming
LONG_FORM_BEAM_SIZE = 5  # as Whisper itself uses for recordings
WARMUP_WORD = " a"  # any single token of text


def network_backend(
    spec: BackendSpec,
    directory: Path,
    checkpoint: Checkpoint,
    hf_tokenizer: HfTokenizer,
    *,
    new_network: Callable[..., Network],
    tokenizer_class: type[Tokenizer],
    feature_extractor: FeatureExtractor,
    shape: tuple[int, int, int],
    alignment_heads: str | None,
    saved_heads: Iterable[tuple[int, int]] | None = None,
) -> LoadedBackend[WhisperEngine]:
    """
    Return a backend over the network that *new_network* builds, given its alignment heads.

    *alignment_heads*, *saved_heads* and *shape* are the option, the weights and the shape of
    `choose_alignment_heads`.

    Raises:
        ModelNotFoundError: the generation config in *directory* is invalid.
        OptionError: the alignment heads do not fit the model.

    """
    generation_config = GenerationConfig.read(directory)
    heads = choose_alignment_heads(
        alignment_heads,
        generation_config.alignment_heads,
        saved_heads,
        name=checkpoint.name,
        shape=shape,
    )
    engine = WhisperEngine(
        network=new_network(alignment_heads=heads.pairs),
        hf_tokenizer=hf_tokenizer,
        checkpoint=checkpoint,
        alignment_heads=heads,
        tokenizer_class=tokenizer_class,
        feature_extractor=feature_extractor,
        begin_suppress_tokens=generation_config.begin_suppress_tokens,
    )
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warm_up)


def decoding_options(
    checkpoint: Checkpoint, config: StreamConfig, *, is_multilingual: bool, hf_tokenizer: Any
) -> DecodingOptions:
    """
    Return the options of a stream's engine calls; warn if the prompt is too long.

    Raises:
        OptionError: the checkpoint does not support the language, the task or the audio context.

    """
    languages = detectable_languages(config, LANGUAGES)
    for language in languages or (config.language,):
        checkpoint.check(
            language=language,
            task=config.task,
            is_multilingual=is_multilingual,
            hf_tokenizer=hf_tokenizer,
        )
    keyterms, prompt = config.options["keyterms"] or "", config.options["prompt"] or ""
    length = len(hf_tokenizer.encode(f"{keyterms} {prompt}", add_special_tokens=False).ids)
    if length > MAX_PROMPT_TOKENS:  # trimmed, because clients of OpenAI's API rely on it
        logger.warning(
            "keyterms and prompt have %d tokens, and Whisper takes %d before the audio; the rest "
            "is left out, and long prompts make it miss words: shorten them",
            length,
            MAX_PROMPT_TOKENS,
        )
    # Greedy for live audio, because its words are decoded again at the next tick.
    auto_beam_size = LONG_FORM_BEAM_SIZE if config.policy == "long-form" else 1
    return DecodingOptions(
        task=config.task,
        beam_size=config.options["beam_size"] or auto_beam_size,
        context=checkpoint.context(config.options["audio_context"]),
        keyterms=keyterms,
        languages=languages,
    )


def window_recognizer(
    call: Callable[..., Hypothesis], config: StreamConfig, *, buffer_seconds: float
) -> Callable[[], Recognizer]:
    """Return a factory of recognizers that decode whole windows: LocalAgreement or long-form."""
    options: dict[str, Any] = {
        "language": config.language,
        "prompt": config.options["prompt"] or "",
    }
    if config.policy == "long-form":
        return partial(LongFormRecognizer, call, **options)
    buffer_seconds = config.options["buffer_seconds"] or buffer_seconds
    return partial(
        LocalAgreementRecognizer,
        call,
        **options,
        tick_seconds=config.options["tick_seconds"],
        buffer_seconds=buffer_seconds,
        kept_seconds=buffer_seconds / 2,
    )


def _open_stream(
    engine: WhisperEngine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """
    Return a factory of the recognizers of one stream; see LoadedBackend.

    Raises:
        OptionError: the checkpoint does not support the language, the task or the audio context,
            or the policy is AlignAtt and its alignment heads are unknown.

    """
    options, checkpoint = config.options, engine.checkpoint
    decoding = decoding_options(
        checkpoint,
        config,
        is_multilingual=engine.is_multilingual,
        hf_tokenizer=engine.hf_tokenizer,
    )
    if config.policy != "alignatt":
        call = calls.wrap(engine.one_by_one(partial(transcribe, engine=engine, options=decoding)))
        return window_recognizer(call, config, buffer_seconds=checkpoint.buffer_seconds)
    engine.alignment_heads.require_known(checkpoint.name)
    buffer_seconds = options["buffer_seconds"] or checkpoint.buffer_seconds
    static_prompt = f"{decoding.keyterms} {options['prompt'] or ''}".strip()
    return partial(
        AlignAttRecognizer,
        calls.wrap(
            engine.one_by_one(
                partial(
                    transcribe_aligned, engine=engine, options=decoding, static_prompt=static_prompt
                )
            )
        ),
        policy=AlignAtt(
            border_frames=round(options["border_seconds"] / ENCODER_FRAME_SECONDS),
            rewind_frames=REWIND_FRAMES,
        ),
        frame_samples=SAMPLES_PER_ENCODER_FRAME,
        language=config.language,
        tick_seconds=options["tick_seconds"],
        buffer_seconds=buffer_seconds,
        kept_seconds=buffer_seconds / 2,
        confirms_start=True,
    )


def _warm_up(engine: WhisperEngine, calls: EngineCalls) -> None:
    """
    Run the model on a second of silence, in every way that its streams run it.

    Silence has no words, so one word is forced on the decoder.  Otherwise the attention behind word
    times and AlignAtt would first be computed in a stream.  Engine errors propagate.
    """
    silence = np.zeros(SAMPLE_RATE, dtype=np.float32)
    language = (engine.checkpoint.languages or ("en",))[0]
    decoding = DecodingOptions(context=engine.checkpoint.context(None))
    calls.wrap(engine.one_by_one(transcribe))(
        silence, engine=engine, options=decoding, prompt="", language=language
    )
    tokenizer = engine.tokenizer(language, decoding.task)
    token = tokenizer.encode(WARMUP_WORD)[0]

    def align() -> None:
        encoder_output, _, _, _ = engine.encode(silence, decoding, language)
        engine.align(tokenizer, encoder_output, [token], len(silence))

    calls.wrap(engine.one_by_one(align))()
    if engine.alignment_heads.are_known:
        word = AlignedWord(0.0, 0.5, WARMUP_WORD, frames=(0,), tokens=(token,))
        calls.wrap(engine.one_by_one(transcribe_aligned))(
            silence,
            engine=engine,
            options=decoding,
            context=(word,),
            prompt="",
            language=language,
            is_last=False,
        )
