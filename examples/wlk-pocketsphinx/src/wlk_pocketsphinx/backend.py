"""Load a grammar, and make the recognizers of streams."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.plugins import (
    SAMPLE_RATE,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    locate,
)
from wlk_pocketsphinx.engine import GrammarDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

FILES = ("grammar.jsgf", "words.dict")


def load(spec: BackendSpec, model: str) -> LoadedBackend[Path]:
    """
    Find the grammar *model* and check it; the backend's engine is its directory.

    Raises:
        ModelNotFoundError: the grammar is missing, or PocketSphinx cannot read it.

    """
    bundled = {"digits": Path(__file__).parent / "digits"}
    directory = locate(model, spec=spec, bundled=bundled, needs=FILES)
    try:
        if not (directory / FILES[0]).read_bytes().startswith(b"#JSGF"):
            raise ValueError("the grammar does not begin with #JSGF")  # noqa: TRY301
        GrammarDecoder.load(directory)
    except (RuntimeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded: {error}; expected a JSGF grammar in "
            "grammar.jsgf and its words in words.dict, or use: --model digits"
        ) from error
    return LoadedBackend(spec, directory, open_stream=open_stream, warmup=warmup)


def open_stream(
    grammar: Path, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that makes a recognizer with its own decoder: decoders have state."""

    def make_recognizer() -> LocalAgreementRecognizer:
        decoder = GrammarDecoder.load(grammar)
        min_probability = config.options["min_probability"]
        return LocalAgreementRecognizer(
            calls.wrap(partial(decoder.transcribe, min_probability=min_probability)),
            language=config.language,
            tick_seconds=config.options["tick_seconds"],
            buffer_seconds=config.options["buffer_seconds"],
        )

    return make_recognizer


def warmup(grammar: Path, calls: EngineCalls) -> None:
    """Decode a second of silence, to bring the acoustic model into the system's file cache."""
    silence = np.zeros(SAMPLE_RATE, dtype=np.float32)
    calls.wrap(GrammarDecoder.load(grammar).transcribe)(silence, prompt="", language=None)
