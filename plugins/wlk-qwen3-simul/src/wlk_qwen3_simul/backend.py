"""Load a checkpoint, and open streams of either policy on it, whatever framework runs it."""

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
    Word,
    locate,
)
from wlk_qwen3_simul.checkpoint import BUNDLED, Checkpoint
from wlk_qwen3_simul.engine.decoder import CachedDecoder, transcribe
from wlk_qwen3_simul.engine.detokenize import WordToken
from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine
from wlk_qwen3_simul.engine.find_heads import find_heads
from wlk_qwen3_simul.engine.frames import FRAME_SAMPLES, HOP_SAMPLES
from wlk_qwen3_simul.engine.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_qwen3_simul.engine.alignment_heads import AlignmentHeads
    from wlk_qwen3_simul.engine.network import AnyNetwork

__all__ = ["Loading", "open_stream", "warmup"]

logger = logging.getLogger(__name__)

WARMUP_TEXT = " a"  # any text


class Loading:
    """
    The load of a model, but for the network itself: its files, tokenizer and alignment heads.

    Raises:
        ModelNotFoundError: the model is missing or damaged, or *check_directory* raises it.

    """

    def __init__(
        self,
        spec: BackendSpec,
        model: str | None,
        *,
        cache_dir: str | None,
        check_directory: Callable[[Path], object],
    ) -> None:
        self._spec = spec
        self.name = model or str(spec.default_model)
        self.directory = locate(self.name, spec=spec, bundled=BUNDLED, cache_dir=cache_dir)
        self.checkpoint = Checkpoint.read(self.directory, name=self.name)
        check_directory(self.directory)  # before the tokenizer, which takes a second
        self._vocabulary = Vocabulary.read(self.directory)

    def find_heads(self, option: str | None, text_config: Any) -> AlignmentHeads:
        """Return the alignment heads; raises OptionError where they are unknown or do not fit."""
        return find_heads(
            option,
            self.directory,
            name=self.name,
            layers=text_config.num_hidden_layers,
            heads=text_config.num_attention_heads,
        )

    def backend(
        self, network: AnyNetwork, heads: AlignmentHeads, *, dtype: Any, device: Any
    ) -> LoadedBackend[Engine]:
        """Return the backend around *network*."""
        logger.info("%s runs in %s on %s", self.name, dtype, device)
        engine = Engine(
            network=network,
            vocabulary=self._vocabulary,
            checkpoint=self.checkpoint,
            by_self=heads.row == "self",
        )
        return LoadedBackend(self._spec, engine, open_stream=open_stream, warmup=warmup)


def open_stream(
    engine: Engine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """
    Return a function that makes a recognizer for a stream; see LoadedBackend.

    Raises:
        OptionError: the checkpoint was not trained for the language, or the prompt contains a
            special token.

    """
    engine.checkpoint.check_language(config.language)
    texts = (config.options["keyterms"], config.options["prompt"])
    prompt = " ".join(text for text in texts if text)
    if special := engine.vocabulary.special_token_in(prompt):
        raise OptionError(
            f"option prompt or keyterms contains {special!r}, which the model reads as a turn of "
            "its conversation; leave it out"
        )
    options = DecodingOptions(hotwords=prompt, max_new_tokens=config.options["max_new_tokens"])
    make = _alignatt if config.policy == "alignatt" else _local_agreement
    return partial(make, engine, config, calls, options)


def warmup(engine: Engine, calls: EngineCalls) -> None:
    """
    Run the model on silence as streams run it: a first call, and one over the KV cache.

    Silence has no words, so a committed word is forced; no stream is involved.
    """
    decode = calls.wrap(CachedDecoder(engine, DecodingOptions(max_new_tokens=2)))
    language = (engine.checkpoint.languages or ("en",))[0]
    silence = np.zeros(2 * SAMPLE_RATE, dtype=np.float32)
    ids = engine.vocabulary.encode(WARMUP_TEXT)
    committed = AlignedWord(
        word=Word(0.0, 0.5, WARMUP_TEXT),
        frames=(0,) * len(ids),
        tokens=tuple(WordToken(token, -1, index) for index, token in enumerate(ids)),
    )
    for seconds in (1, 2):
        decode(
            silence[: seconds * SAMPLE_RATE],
            first_sample=0,
            remainder_samples=0,
            context=(committed,),
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
