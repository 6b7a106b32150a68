"""Load a CTranslate2 Whisper model and open streams on it."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import ctranslate2
from faster_whisper import WhisperModel
import numpy as np

from wlk_core import (
    SAMPLE_RATE,
    AgreementRecognizer,
    BackendUnavailable,
    ModelNotFoundError,
    OnlineStream,
    OptionError,
    StreamClosed,
)
from wlk_core.models import locate
from wlk_whisper.checkpoint import BUNDLED_DIRECTORIES, Checkpoint
from wlk_whisper.ctranslate2.engine import FasterWhisperEngine
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from types import TracebackType

    from wlk_core import BackendSpec

__all__ = ["FasterWhisperBackend", "load"]

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent.parent / BUNDLED_DIRECTORIES["faster-whisper"]


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    compute_type: str | None = None,
    cpu_threads: int = 0,
    cache_dir: str | None = None,
) -> FasterWhisperBackend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a CTranslate2 model.
        OptionError: the device does not support the compute type.
        BackendUnavailable: the device is missing.

    """
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={DIGITS: BUNDLED}, cache_dir=cache_dir)
    if not (directory / "model.bin").is_file():
        found = ", ".join(sorted(entry.name for entry in directory.iterdir())[:6]) or "nothing"
        raise ModelNotFoundError(
            f"expected a CTranslate2 Whisper model (config.json, model.bin, tokenizer.json) "
            f"in {directory}, found {found}; convert a transformers checkpoint with: "
            "ct2-transformers-converter --model DIR --output_dir OUT --copy_files "
            "tokenizer.json preprocessor_config.json"
        )
    checkpoint = Checkpoint.read(directory, name=name)
    whisper = _load_model(directory, device, compute_type or checkpoint.compute_type, cpu_threads)
    logger.info("%s runs in %s on %s", name, whisper.model.compute_type, whisper.model.device)
    return FasterWhisperBackend(spec, FasterWhisperEngine(whisper, checkpoint))


class FasterWhisperBackend:
    """A CTranslate2 Whisper model shared by any number of streams."""

    def __init__(self, spec: BackendSpec, engine: FasterWhisperEngine) -> None:
        self._spec = spec
        self._engine: FasterWhisperEngine | None = engine

    @property
    def spec(self) -> BackendSpec:
        """The declaration of this backend."""
        return self._spec

    @property
    def compute_type(self) -> str:
        """The arithmetic that the model actually runs in."""
        return str(self._open().model.model.compute_type)

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        engine = self._open()
        self._spec.check_language(language)
        self._spec.check_task(task)
        engine.checkpoint.check(
            language=language,
            task=task,
            is_multilingual=engine.is_multilingual,
            hf_tokenizer=engine.model.hf_tokenizer,
        )
        values = self._spec.stream_options(options)
        audio_context = values["audio_context"]
        decoding = DecodingOptions(
            task=task,
            beam_size=values["beam_size"],
            is_fitted=engine.checkpoint.takes_shorter_input
            if audio_context is None
            else audio_context == "fitted",
        )
        return OnlineStream(
            lambda: AgreementRecognizer(
                partial(engine.transcribe, options=decoding),
                language=language,
                prompt=values["init_prompt"] or "",
                tick_seconds=values["tick_seconds"],
                buffer_seconds=values["buffer_seconds"] or engine.checkpoint.buffer_seconds,
            )
        )

    def warmup(self) -> None:
        """Run the model once on a second of silence."""
        engine = self._open()
        language = (engine.checkpoint.languages or ("en",))[0]
        engine.transcribe(
            np.zeros(SAMPLE_RATE, dtype=np.float32),
            prompt="",
            language=language,
            options=DecodingOptions(is_fitted=engine.checkpoint.takes_shorter_input),
        )

    def close(self) -> None:
        """Release the model; open streams keep it until they are closed."""
        self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> FasterWhisperEngine:
        if self._engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._engine


def _load_model(directory: Path, device: str, compute_type: str, cpu_threads: int) -> WhisperModel:
    has_cuda = ctranslate2.get_cuda_device_count() > 0
    if device == "cuda" and not has_cuda:
        raise BackendUnavailable(
            "device=cuda is not available, because CTranslate2 finds no CUDA device; check the "
            "driver with nvidia-smi, or leave the device out"
        )
    if device == "auto":
        device = "cuda" if has_cuda else "cpu"
    possible = sorted(ctranslate2.get_supported_compute_types(device))
    if compute_type not in ("default", "auto") and compute_type not in possible:
        raise OptionError(
            f"compute_type={compute_type} cannot run on {device} here; "
            f"expected one of: default, auto, {', '.join(possible)}"
        )
    try:
        return WhisperModel(
            str(directory),
            device=device,
            compute_type=compute_type,
            cpu_threads=cpu_threads,
            local_files_only=True,
        )
    except (RuntimeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a CTranslate2 Whisper model: {error}; "
            "convert or pull it again"
        ) from error
