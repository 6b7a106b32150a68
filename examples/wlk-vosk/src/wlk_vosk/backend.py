"""Load a model of Vosk, and make the recognizers of streams."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
import re
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs
import numpy as np
import vosk  # type: ignore[import-untyped]  # it has no type hints

from wlk_core.plugins import SAMPLE_RATE, LoadedBackend, ModelNotFoundError, OptionError
from wlk_vosk.engine import BLOCK_SAMPLES, Request, VoskEngine, cut_answer
from wlk_vosk.recognizer import VoskRecognizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

FILES = ("am/final.mdl", "conf/mfcc.conf", "conf/model.conf", "graph/*.fst")
FEATURES = "conf/mfcc.conf"
DYNAMIC_GRAPH = "graph/Gr.fst"  # the language model on its own; others are compiled into one graph
WHERE = "unpack a model of https://alphacephei.com/vosk/models, and name its directory: --model DIR"
OTHER_CODES = {"cn": "zh", "ua": "uk"}  # languages that Vosk names by a country

logger = logging.getLogger(__name__)


def load(spec: BackendSpec, model: str | None) -> LoadedBackend[VoskEngine]:
    """
    Load the model in the directory *model*.

    Raises:
        ModelNotFoundError: no model was named, it is missing, or Vosk cannot load it.

    """
    if model is None:
        raise ModelNotFoundError(f"vosk has no default model; {WHERE}")
    directory = Path(model).expanduser().resolve()
    if missing := [name for name in FILES if not any(directory.glob(name))]:
        raise ModelNotFoundError(f"model {model} lacks {', '.join(missing)}; {WHERE}")
    rate = _sample_rate(directory)
    if rate > SAMPLE_RATE:
        raise ModelNotFoundError(
            f"{directory} needs audio of {rate} samples a second, and streams have {SAMPLE_RATE}; "
            f"{WHERE}"
        )
    # Kaldi logs to standard error.
    vosk.SetLogLevel(0 if logger.isEnabledFor(logging.DEBUG) else -1)
    with TemporaryDirectory() as folder:
        _link_without_dither(directory, Path(folder))
        try:
            engine = VoskEngine(vosk.Model(folder))
        except Exception as error:  # it raises no other class
            raise ModelNotFoundError(
                f"Vosk could not load {directory}; it wrote the reason to standard error; {WHERE}"
            ) from error
    language = _language(directory, spec)

    if language is not None:
        spec = attrs.evolve(spec, languages=(language,))  # so that it can be named

    def open_stream(
        engine: VoskEngine, config: StreamConfig, calls: EngineCalls
    ) -> Callable[[], Recognizer]:
        phrases = _phrases(config.options["phrases"], engine, directory)
        decode = calls.wrap(engine.decode, cut=cut_answer)
        return partial(VoskRecognizer, decode, engine.release, language=language, phrases=phrases)

    return LoadedBackend(spec, engine, open_stream=open_stream, warmup=warmup)


def warmup(engine: VoskEngine, calls: EngineCalls) -> None:
    """Decode a block of silence."""
    block = np.zeros(BLOCK_SAMPLES, dtype=np.float32)
    calls.wrap(engine.decode)(Request(block=block, is_last=True))


def _phrases(value: str | None, engine: VoskEngine, directory: Path) -> tuple[str, ...] | None:
    """
    Return the phrases of the option *value*; None if there are none.

    Raises:
        OptionError: the model cannot be restricted, or does not know a word.

    """
    phrases = tuple(phrase for phrase in map(str.strip, (value or "").split(",")) if phrase)
    if not phrases:
        return None
    if not (directory / DYNAMIC_GRAPH).exists():
        raise OptionError(f"{directory} has no {DYNAMIC_GRAPH}, which phrases need; leave them out")
    if unknown := engine.unknown(phrases):
        raise OptionError(
            f"the vocabulary of {directory} lacks {', '.join(unknown)} of the phrases; spell them "
            "as its language does"
        )
    return phrases


def _link_without_dither(directory: Path, folder: Path) -> None:
    """
    Make *folder* the model in *directory* without dither.

    Kaldi adds random noise to the audio, from a generator that the whole process shares: the same
    audio would give other words in each stream.
    """
    for path in directory.iterdir():
        if path.name != "conf":
            (folder / path.name).symlink_to(path.resolve())
    (folder / "conf").mkdir()
    for path in (directory / "conf").iterdir():
        (folder / "conf" / path.name).write_bytes(path.read_bytes())
    with (folder / FEATURES).open("a") as file:
        file.write("\n--dither=0\n")  # the last one counts


def _sample_rate(directory: Path) -> int:
    """Return the samples per second of the audio on which the model was trained."""
    config = (directory / FEATURES).read_text(encoding="utf-8", errors="replace")
    declared = re.findall(r"^--sample-frequency=(\d+)", config, re.MULTILINE)
    return int(declared[-1]) if declared else SAMPLE_RATE


def _language(directory: Path, spec: BackendSpec) -> str | None:
    """Return the language in the name of a model, such as vosk-model-small-en-us-0.15."""
    names = re.findall(r"vosk[-_]model[-_](?:small[-_])?([a-z]{2})\b", directory.as_posix())
    code = OTHER_CODES.get(names[-1], names[-1]) if names else None
    return code if code in spec.languages else None
