"""Open streams with either policy on a loaded model, whatever framework runs it."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import (
    SAMPLE_RATE,
    AlignAtt,
    AlignAttRecognizer,
    AlignedWord,
    LoadedBackend,
    LocalAgreementRecognizer,
    OptionError,
)
from wlk_frameworks.languages import detectable_languages
from wlk_qwen3_simul.engine.alignment_heads import (
    DETECT_COMMAND,
    find_heads,
    likely_heads,
    unknown_heads,
)
from wlk_qwen3_simul.engine.decoder import CachedDecoder, transcribe
from wlk_qwen3_simul.engine.detokenize import WordToken
from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine
from wlk_qwen3_simul.engine.frames import FRAME_SAMPLES, HOP_SAMPLES
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_qwen3_simul.checkpoint import Checkpoint
    from wlk_qwen3_simul.engine.network import Network

logger = logging.getLogger(__name__)


def loaded_backend(
    spec: BackendSpec,
    checkpoint: Checkpoint,
    *,
    text_config: Any,
    alignment_heads: str | None,
    open_network: Callable[..., Network],
) -> LoadedBackend[Engine]:
    """
    Return the backend around a loaded model; *open_network* takes its alignment heads.

    If the alignment heads of the model are unknown, those of the published model of the same size
    are used, with a warning.

    Raises:
        ModelNotFoundError: the tokenizer is damaged or belongs to another model.
        OptionError: the alignment heads are invalid or belong to another decoder, or they are
            unknown and no published model has this size.

    """
    name = checkpoint.name
    layers, heads = text_config.num_hidden_layers, text_config.num_attention_heads
    known = find_heads(alignment_heads, checkpoint.directory, name=name, layers=layers, heads=heads)
    alignment = known or likely_heads(width=text_config.hidden_size, layers=layers, heads=heads)
    if alignment is None:
        raise unknown_heads(name)
    if known is None:
        logger.warning(
            "the alignment heads of %s are unknown: its word times come from those of %s, and "
            "policy=alignatt is refused; find its own with: %s",
            name,
            alignment.model,
            DETECT_COMMAND,
        )
    engine = Engine(
        network=open_network(alignment_heads=alignment.pairs),
        vocabulary=Vocabulary.read(checkpoint.directory),
        checkpoint=checkpoint,
        by_self=alignment.row == "self",
        has_known_heads=known is not None,
        facts={
            "alignment_heads": len(alignment.best),
            "alignment_heads_model": alignment.model,
            "alignment_heads_source": alignment.source,
        },
    )
    return LoadedBackend(spec, engine, open_stream=open_stream, warmup=warmup)


def open_stream(
    engine: Engine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """
    Return a function that creates the recognizer of a stream; see LoadedBackend.

    Raises:
        OptionError: the checkpoint was not trained for the language, the prompt contains a special
            token, or AlignAtt is chosen and the alignment heads are unknown.

    """
    if config.policy == "alignatt" and not engine.has_known_heads:
        raise unknown_heads(
            engine.checkpoint.name, alternative=", or choose policy=local-agreement"
        )
    trained = engine.checkpoint.languages
    detectable = detectable_languages(config, tuple(LANGUAGES))
    for language in detectable or (config.language,):
        if language is not None and trained is not None and language not in trained:
            raise OptionError(
                f"the model {engine.checkpoint.name} recognises {', '.join(trained)} only, not "
                f"{language!r}; choose another model or leave the language out"
            )
    parts = (config.options["keyterms"], config.options["prompt"])
    prompt = " ".join(part for part in parts if part)
    if special := engine.vocabulary.special_token_in(prompt):
        raise OptionError(
            f"option prompt or keyterms contains {special!r}, which the model reads as a "
            "control token; leave it out"
        )
    options = DecodingOptions(
        hotwords=prompt,
        max_new_tokens=config.options["max_new_tokens"],
        languages=detectable,
    )
    make_recognizer = _alignatt if config.policy == "alignatt" else _local_agreement
    return partial(make_recognizer, engine, config, calls, options)


def warmup(engine: Engine, calls: EngineCalls) -> None:
    """
    Run the model on silence as a stream does: a first call, then one that reuses the KV cache.

    Silence has no words, so the second call is given one as committed text.
    """
    decode = calls.wrap(CachedDecoder(engine, DecodingOptions(max_new_tokens=2)))
    language = (engine.checkpoint.languages or ("en",))[0]
    tokens = tuple(
        WordToken(token, -1, index) for index, token in enumerate(engine.vocabulary.encode("a"))
    )
    word = AlignedWord(0.0, 0.5, "a", frames=(0,) * len(tokens), tokens=tokens)
    for seconds, context in ((1, ()), (2, (word,))):
        decode(
            np.zeros(seconds * SAMPLE_RATE, dtype=np.float32),
            first_sample=0,
            remainder_samples=0,
            context=context,
            prompt="",
            language=language,
            is_last=False,
        )


def _local_agreement(
    engine: Engine, config: StreamConfig, calls: EngineCalls, options: DecodingOptions
) -> Recognizer:
    return LocalAgreementRecognizer(
        calls.wrap(partial(transcribe, engine=engine, options=options)),
        language=config.language,
        tick_seconds=config.options["tick_seconds"],
        buffer_seconds=config.options["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _alignatt(
    engine: Engine, config: StreamConfig, calls: EngineCalls, options: DecodingOptions
) -> Recognizer:
    rewind = _frames(config.options["rewind_seconds"])
    decoder = CachedDecoder(engine, attrs.evolve(options, rewind_frames=rewind))
    return AlignAttRecognizer(
        calls.wrap(decoder),
        policy=AlignAtt(
            border_frames=_frames(config.options["border_seconds"]), rewind_frames=rewind
        ),
        frame_samples=FRAME_SAMPLES,
        language=config.language,
        tick_seconds=config.options["tick_seconds"],
        buffer_seconds=config.options["buffer_seconds"] or engine.checkpoint.buffer_seconds,
        cut_samples=engine.network.window_frames * HOP_SAMPLES,
        cache=decoder,
    )


def _frames(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / FRAME_SAMPLES)
