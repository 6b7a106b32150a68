"""The faster-whisper backend: load a CTranslate2 model and open streams on it."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import ctranslate2
from faster_whisper import WhisperModel
import numpy as np

from wlk_core import (
    AgreementRecognizer,
    BackendUnavailable,
    ModelNotFoundError,
    OnlineStream,
    OptionError,
    StreamClosed,
)
from wlk_core.models import locate
from wlk_whisper.checkpoint import BUNDLED, Checkpoint
from wlk_whisper.faster_engine import FasterWhisperEngine, StreamSettings
from wlk_whisper.sizes import DIGITS
from wlk_whisper.specs.faster import FASTER_WHISPER

if TYPE_CHECKING:
    from types import TracebackType

    from wlk_core import BackendSpec

__all__ = ["FasterWhisperBackend"]

logger = logging.getLogger(__name__)


class FasterWhisperBackend:
    """A CTranslate2 Whisper model shared by any number of streams."""

    def __init__(self, engine: FasterWhisperEngine) -> None:
        self._engine: FasterWhisperEngine | None = engine

    @classmethod
    def load(
        cls,
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
            ModelNotFoundError: it is not there, or is no CTranslate2 model.
            OptionError: the device cannot do the compute type.
            BackendUnavailable: the device is not to be had.

        """
        name = model or str(FASTER_WHISPER.default_model)
        bundled = {DIGITS: Path(__file__).parent / BUNDLED["faster-whisper"]}
        directory = locate(name, spec=FASTER_WHISPER, bundled=bundled, cache_dir=cache_dir)
        if not (directory / "model.bin").is_file():
            found = ", ".join(sorted(entry.name for entry in directory.iterdir())[:6]) or "nothing"
            raise ModelNotFoundError(
                f"expected a CTranslate2 Whisper model (config.json, model.bin, tokenizer.json) "
                f"in {directory}, found {found}; convert a transformers checkpoint with: "
                "ct2-transformers-converter --model DIR --output_dir OUT --copy_files "
                "tokenizer.json preprocessor_config.json"
            )
        checkpoint = Checkpoint.read(directory, name=name)
        whisper = _load_model(
            directory, device, compute_type or checkpoint.compute_type, cpu_threads
        )
        logger.info("%s runs in %s on %s", name, whisper.model.compute_type, whisper.model.device)
        return cls(FasterWhisperEngine(whisper, checkpoint))

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return FASTER_WHISPER

    @property
    def compute_type(self) -> str:
        """The arithmetic the model really runs in (defect B58)."""
        return str(self._open().model.model.compute_type)

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        engine = self._open()
        FASTER_WHISPER.check_language(language)
        FASTER_WHISPER.check_task(task)
        engine.checkpoint.check(
            language=language,
            task=task,
            is_multilingual=engine.is_multilingual,
            vocabulary=engine.model.hf_tokenizer,
        )
        chosen = FASTER_WHISPER.stream_options(options)
        context = chosen["audio_context"]
        settings = StreamSettings(
            task=task,
            beam_size=chosen["beam_size"],
            is_fitted=engine.checkpoint.takes_shorter_input
            if context is None
            else context == "fitted",
        )
        return OnlineStream(
            lambda: AgreementRecognizer(
                partial(engine.transcribe, settings=settings),
                language=language,
                prompt=chosen["init_prompt"] or "",
                tick_seconds=chosen["tick_seconds"],
                buffer_seconds=chosen["buffer_seconds"] or engine.checkpoint.buffer_seconds,
            )
        )

    def warmup(self) -> None:
        """Run the model once on a second of silence."""
        engine = self._open()
        language = (engine.checkpoint.languages or ("en",))[0]
        engine.transcribe(
            np.zeros(16_000, dtype=np.float32),
            prompt="",
            language=language,
            settings=StreamSettings(is_fitted=engine.checkpoint.takes_shorter_input),
        )

    def close(self) -> None:
        """Let go of the model; streams that are open keep it until they are closed."""
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
    if device == "cuda" and ctranslate2.get_cuda_device_count() == 0:
        raise BackendUnavailable(
            "device=cuda was asked for and CTranslate2 sees no CUDA device; check the driver with "
            "nvidia-smi, or leave the device out"
        )
    place = device if device != "auto" else _best_device()
    possible = sorted(ctranslate2.get_supported_compute_types(place))
    if compute_type not in ("default", "auto") and compute_type not in possible:
        raise OptionError(
            f"compute_type={compute_type} cannot run on {place} here; "
            f"expected one of: default, auto, {', '.join(possible)}"
        )
    try:
        return WhisperModel(
            str(directory),
            device=place,
            compute_type=compute_type,
            cpu_threads=cpu_threads,
            local_files_only=True,
        )
    except (RuntimeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a CTranslate2 Whisper model: {error}; "
            "convert or pull it again"
        ) from error


def _best_device() -> str:
    return "cuda" if ctranslate2.get_cuda_device_count() > 0 else "cpu"
