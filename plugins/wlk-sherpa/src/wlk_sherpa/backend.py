"""The backend `sherpa`: load a model with sherpa-onnx, and make the recognizers of streams."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import sherpa_onnx

from wlk_core.plugins import LoadedBackend, ModelNotFoundError, OptionError, locate
from wlk_core.streaming import is_unspaced
from wlk_core.untrusted import one_line
from wlk_sherpa.checkpoint import read_checkpoint, read_pieces
from wlk_sherpa.engine.engine import DecodeRequest, SherpaEngine, cut_answer
from wlk_sherpa.engine.recognizer import SherpaRecognizer, StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.plugins import Backend, BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_sherpa.checkpoint import Checkpoint

BUNDLED = {"digits": Path(__file__).parent / "digits"}
WORD_GAP = 0.4  # seconds, unless the checkpoint declares its own
RESERVED = "/:#@"  # separators in sherpa-onnx's syntax for hotwords

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str,
    *,
    dtype: str = "auto",
    beam_size: int = 1,
    cpu_threads: int = 1,
    cache_dir: str | None = None,
) -> Backend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or not a streaming model of sherpa-onnx.
        OptionError: the model does not support beam search.

    """
    directory = locate(
        model,
        spec=spec,
        bundled=BUNDLED,
        cache_dir=cache_dir,
        needs=("*.onnx", "tokens.txt"),
    )
    checkpoint = read_checkpoint(directory, dtype=dtype)
    if beam_size > 1 and not checkpoint.model_type:
        raise OptionError(
            f"{directory} is a {checkpoint.kind} model, for which sherpa-onnx supports only greedy "
            "search; leave beam_size out"
        )
    pieces = read_pieces(directory, checkpoint.tokens) if beam_size > 1 else []
    try:
        recognizer = _load_recognizer(checkpoint, pieces, beam_size, cpu_threads)
        engine = SherpaEngine(recognizer, time_scale=checkpoint.time_scale)
    except (RuntimeError, ValueError) as error:  # from ONNX Runtime, or from SherpaEngine
        raise ModelNotFoundError(
            f"sherpa-onnx could not load {directory}: {one_line(str(error))}; pull the model again"
        ) from error
    names = ", ".join(path.name for path in checkpoint.files.values())
    logger.info("%s: %s, in chunks of %d samples", directory, names, engine.chunk_samples)

    def open_stream(
        engine: SherpaEngine, config: StreamConfig, calls: EngineCalls
    ) -> Callable[[], Recognizer]:
        gap = config.options["word_gap_seconds"] or checkpoint.word_gap or WORD_GAP
        stream_options = StreamOptions(
            chunk_samples=engine.chunk_samples,
            lookahead_samples=engine.lookahead_samples,
            frame_seconds=checkpoint.frame_seconds,
            word_gap=gap,
            hotwords=_hotwords(config.options["keyterms"], checkpoint, beam_size, pieces),
            is_revised=beam_size > 1,
            is_marked=checkpoint.kind == "paraformer",
            model_bytes=checkpoint.state_bytes,
        )
        return partial(
            SherpaRecognizer, calls.wrap_batch(engine.decode_batch, cut=cut_answer), stream_options
        )

    return LoadedBackend(spec, engine, open_stream=open_stream, warmup=_warmup)


def _load_recognizer(
    checkpoint: Checkpoint, pieces: Sequence[tuple[str, float]], beam_size: int, cpu_threads: int
) -> Any:
    arguments: dict[str, Any] = {name: str(path) for name, path in checkpoint.files.items()}
    arguments |= {"tokens": str(checkpoint.directory / "tokens.txt"), "num_threads": cpu_threads}
    if checkpoint.kind == "transducer":
        arguments["model_type"] = checkpoint.model_type
    create = getattr(sherpa_onnx.OnlineRecognizer, f"from_{checkpoint.kind}")
    if beam_size == 1:
        return create(**arguments)
    arguments |= {"decoding_method": "modified_beam_search", "max_active_paths": beam_size}
    with TemporaryDirectory() as folder:
        if pieces:  # sherpa-onnx cannot read SentencePiece models, only a list of their pieces
            vocabulary = Path(folder, "bpe.vocab")
            lines = (f"{piece}\t{score}\n" for piece, score in pieces)
            vocabulary.write_text("".join(lines), encoding="utf-8")
            arguments["bpe_vocab"] = str(vocabulary)
        arguments["modeling_unit"] = _modeling_unit(checkpoint, is_bpe=bool(pieces))
        return create(**arguments)


def _modeling_unit(checkpoint: Checkpoint, *, is_bpe: bool) -> str:
    """Return the modeling_unit: how sherpa-onnx splits hotwords into tokens."""
    has_characters = any(len(token) == 1 and is_unspaced(token) for token in checkpoint.tokens)
    if is_bpe:
        return "cjkchar+bpe" if has_characters else "bpe"
    return "cjkchar"


def _hotwords(
    keyterms: str | None,
    checkpoint: Checkpoint,
    beam_size: int,
    pieces: Sequence[tuple[str, float]],
) -> str | None:
    """
    Return *keyterms* as hotwords of sherpa-onnx, in the letter case of the vocabulary.

    Raises:
        OptionError: the model or its search supports no hotwords, or cannot spell a term.

    """
    terms = [term for term in map(str.strip, (keyterms or "").split(",")) if term]
    if not terms:
        return None
    if beam_size == 1:
        raise OptionError(
            "keyterms need beam search: load the model with --option beam_size=4"
            if checkpoint.model_type
            else f"a {checkpoint.kind} model does not support keyterms; leave them out"
        )
    letters = "".join(token for token in checkpoint.tokens if not token.startswith("<"))
    if not pieces and not any(map(is_unspaced, letters)):
        raise OptionError(
            f"keyterms are split into tokens with bpe.vocab or bpe.model, but "
            f"{checkpoint.directory} has neither; copy one there, or leave keyterms out"
        )
    if letters == letters.upper():
        terms = [term.upper() for term in terms]
    elif letters == letters.lower():
        terms = [term.lower() for term in terms]
    writable = (set(letters) - set(RESERVED)) | {" "}
    for term in terms:
        unknown = sorted(set(term) - writable)
        if unknown:
            raise OptionError(
                f"the model cannot write {''.join(unknown)!r} of the keyterm {term!r}; spell it "
                "as it is spoken"
            )
    return "/".join(terms)


def _warmup(engine: SherpaEngine, calls: EngineCalls) -> None:
    """Decode a chunk of silence."""
    audio = np.zeros(engine.chunk_samples + engine.lookahead_samples, dtype=np.float32)
    calls.wrap_batch(engine.decode_batch)(DecodeRequest(chunks=[audio]))
