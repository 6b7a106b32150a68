"""Load a Whisper in CTranslate2's format, open streams on it and warm it up."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
import threading
from typing import TYPE_CHECKING

import ctranslate2
from faster_whisper import WhisperModel
import numpy as np

from wlk_core.models import locate
from wlk_core.plugins import SAMPLE_RATE, LoadedBackend, ModelNotFoundError
from wlk_frameworks.ctranslate2 import choose_compute_type, choose_device, worker_count
from wlk_whisper.backend import decoding_options, window_recognizer
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.ctranslate2.checkpoint import check_files
from wlk_whisper.ctranslate2.engine import FasterWhisperEngine
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_frameworks.devices import Device

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent.parent / "digits/ctranslate2"

_loading = threading.Lock()


def load(
    spec: BackendSpec,
    model: str,
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
    chosen = choose_device(device)
    directory = locate(model, spec=spec, bundled={DIGITS: BUNDLED}, cache_dir=cache_dir)
    if not (directory / "model.bin").is_file():
        raise ModelNotFoundError(
            f"expected a CTranslate2 Whisper model (config.json, model.bin, tokenizer.json) "
            f"in {directory}; convert a transformers checkpoint with: "
            "ct2-transformers-converter --model DIR --output_dir OUT --copy_files "
            "tokenizer.json preprocessor_config.json"
        )
    checkpoint = Checkpoint.read(directory, name=model)
    compute_type = choose_compute_type(dtype, device=chosen.kind, declared=checkpoint.dtype)
    if cpu_threads is None:
        cpu_threads = checkpoint.cpu_threads or 0
    heads = check_files(directory)
    whisper = _load_model(directory, chosen, compute_type, cpu_threads)
    engine = FasterWhisperEngine(whisper, checkpoint, heads)
    logger.info("%s runs in %s on %s", model, whisper.model.compute_type, whisper.model.device)
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warm_up)


def _load_model(
    directory: Path, device: Device, compute_type: str, cpu_threads: int
) -> WhisperModel:
    with _loading:  # the log level belongs to the whole process
        level = ctranslate2.get_log_level()
        # On a processor without float16, the type of most published weights, CTranslate2 takes
        # float32 and warns; the caller logs the type that the model runs in.
        ctranslate2.set_log_level(logging.ERROR)
        try:
            return WhisperModel(
                str(directory),
                device=device.kind,
                device_index=device.number,
                compute_type=compute_type,
                cpu_threads=cpu_threads,
                num_workers=worker_count(device.kind, cpu_threads),
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
