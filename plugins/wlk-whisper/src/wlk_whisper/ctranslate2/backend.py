"""Load a CTranslate2 Whisper model, and the streams and the warmup on it."""

from __future__ import annotations

from functools import partial
import logging
import os
from pathlib import Path
import platform
from typing import TYPE_CHECKING

import ctranslate2
from faster_whisper import WhisperModel
import numpy as np

from wlk_core.models import locate
from wlk_core.plugins import (
    SAMPLE_RATE,
    BackendUnavailable,
    LoadedBackend,
    ModelNotFoundError,
    OptionError,
)
from wlk_whisper.backend import decoding_options, window_recognizer
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.ctranslate2.checkpoint import check_files
from wlk_whisper.ctranslate2.engine import FasterWhisperEngine
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

__all__ = ["load"]

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent.parent / "digits/ctranslate2"


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    cpu_threads: int | None = None,
    cache_dir: str | None = None,
) -> LoadedBackend[FasterWhisperEngine]:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a CTranslate2 model.
        OptionError: the device does not support the dtype.
        BackendUnavailable: the device is missing.

    """
    device = _choose_device(device)
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={DIGITS: BUNDLED}, cache_dir=cache_dir)
    if not (directory / "model.bin").is_file():
        raise ModelNotFoundError(
            f"expected a CTranslate2 Whisper model (config.json, model.bin, tokenizer.json) "
            f"in {directory}; convert a transformers checkpoint with: "
            "ct2-transformers-converter --model DIR --output_dir OUT --copy_files "
            "tokenizer.json preprocessor_config.json"
        )
    checkpoint = Checkpoint.read(directory, name=name)
    compute_type = _choose_compute_type(dtype, checkpoint, device)
    if cpu_threads is None:
        cpu_threads = checkpoint.cpu_threads or 0
    heads = check_files(directory)
    whisper = _load_model(directory, device, compute_type, cpu_threads)
    engine = FasterWhisperEngine(whisper, checkpoint, heads)
    logger.info("%s runs in %s on %s", name, whisper.model.compute_type, whisper.model.device)
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warm_up)


def _choose_device(device: str) -> str:
    has_cuda = ctranslate2.get_cuda_device_count() > 0
    if device == "cuda" and not has_cuda:
        raise BackendUnavailable(
            "device=cuda is not available, because CTranslate2 finds no CUDA device; check the "
            "driver with nvidia-smi, or leave the device out"
        )
    if device == "auto":
        return "cuda" if has_cuda else "cpu"
    return device


def _choose_compute_type(dtype: str, checkpoint: Checkpoint, device: str) -> str:
    """Return CTranslate2's name for *dtype*, whose auto is the checkpoint's and not its own."""
    if dtype == "auto":
        # int8 takes half the processor time of float32 on x86 and is as right: of 3,260 words of
        # English that tiny.en streamed, 117 were wrong instead of 113.  Other processors were not
        # measured.
        is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
        dtype = checkpoint.dtype or ("int8" if device == "cpu" and is_x86 else "default")
    if dtype == "fastest":
        return "auto"
    possible = sorted(ctranslate2.get_supported_compute_types(device))
    if dtype != "default" and dtype not in possible:
        raise OptionError(
            f"dtype={dtype} cannot run on {device} here; "
            f"expected one of: auto, default, fastest, {', '.join(possible)}"
        )
    return dtype


def _load_model(directory: Path, device: str, compute_type: str, cpu_threads: int) -> WhisperModel:
    # CTranslate2 runs as many calls at once as it has workers, on the same weights.  Where a call
    # has fewer threads than the machine has cores, other streams get the rest.
    has_spare_cores = device == "cpu" and cpu_threads > 0
    workers = max(1, (os.cpu_count() or 1) // cpu_threads) if has_spare_cores else 1
    level = ctranslate2.get_log_level()
    # It warns where the processor has no float16, the format of most published weights, and takes
    # float32; the caller logs the type that the model runs in.
    ctranslate2.set_log_level(logging.ERROR)
    try:
        return WhisperModel(
            str(directory),
            device=device,
            compute_type=compute_type,
            cpu_threads=cpu_threads,
            num_workers=workers,
            local_files_only=True,
        )
    except (RuntimeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a CTranslate2 Whisper model: {error}; "
            "convert or pull it again"
        ) from error
    finally:
        ctranslate2.set_log_level(level)


def _open_stream(
    engine: FasterWhisperEngine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    decoding = decoding_options(
        engine.checkpoint,
        config,
        is_multilingual=engine.is_multilingual,
        hf_tokenizer=engine.model.hf_tokenizer,
    )
    call = calls.wrap(partial(engine.transcribe, options=decoding))
    return window_recognizer(call, config, buffer_seconds=engine.checkpoint.buffer_seconds)


def _warm_up(engine: FasterWhisperEngine, calls: EngineCalls) -> None:
    """Run the model once on a second of silence."""
    calls.wrap(engine.transcribe)(
        np.zeros(SAMPLE_RATE, dtype=np.float32),
        prompt="",
        language=(engine.checkpoint.languages or ("en",))[0],
        options=DecodingOptions(context=engine.checkpoint.context(None)),
    )
