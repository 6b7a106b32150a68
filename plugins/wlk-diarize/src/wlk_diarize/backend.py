"""The diarizer `clustering`: load its two models, share them among streams, enroll voices."""

from __future__ import annotations

from pathlib import Path
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError, OptionError, locate
from wlk_diarize.engine.diarizer import ClusteringDiarizer
from wlk_diarize.engine.networks import FRAME_SAMPLES, MIN_SAMPLES, OnnxNetworks
from wlk_diarize.engine.speakers import Voice
from wlk_frameworks.recordings import read_recording

if TYPE_CHECKING:
    from wlk_core.plugins import AnnotatorSpec
    from wlk_diarize.engine.networks import Networks

_WINDOW_SAMPLES = 10 * SAMPLE_RATE  # the length that the segmentation was trained on
_VOICE_SAMPLES = 60 * SAMPLE_RATE  # used per recording; more tells nothing new about a voice
_MIN_VOICE_SECONDS = 2.0

# Shared by all open streams: 35 MB of weights, which no stream changes.
_loaded: WeakValueDictionary[tuple[Path, Path], OnnxNetworks] = WeakValueDictionary()
_enrolled: WeakKeyDictionary[OnnxNetworks, dict[str, tuple[Voice, ...]]] = WeakKeyDictionary()
_loading = threading.Lock()


def load(
    spec: AnnotatorSpec,
    model: str,
    *,
    embedding_model: str | None,
    max_speakers: int,
    voices: str | None,
    cache_dir: str | None,
) -> ClusteringDiarizer:
    """
    Return a diarizer for one stream.

    Raises:
        ModelNotFoundError: a model is missing or not of the expected kind.
        OptionError: the folder of voices has no recordings, or one has too little speech.

    """
    segmentation, embedding = spec.model_files

    def directory(reference: str) -> Path:
        return locate(reference, spec=spec, cache_dir=cache_dir, needs=("**/*.onnx",))

    first = directory(model)
    if embedding_model is not None:
        second = directory(embedding_model)
    else:
        second = first if _find_file(first, embedding) else directory("campplus")
    with _loading:
        paths = (_require_file(first, segmentation), _require_file(second, embedding))
        networks = _loaded.get(paths)
        if networks is None:
            networks = _loaded[paths] = OnnxNetworks(*paths)
        known: tuple[Voice, ...] = ()
        if voices is not None:
            folders = _enrolled.setdefault(networks, {})
            if voices not in folders:
                folders[voices] = enroll(networks, Path(voices).expanduser())
            known = folders[voices]
    return ClusteringDiarizer(networks, max_speakers=max_speakers, voices=known)


def enroll(networks: Networks, folder: Path) -> tuple[Voice, ...]:
    """
    Return the voices in a folder of recordings, each named after its speaker, such as ann.wav.

    Of the first minute of each recording, the audio with exactly one speaker is embedded.

    Raises:
        OptionError: there are no recordings, or one has less than two seconds of speech.
        AudioFormatError: a recording cannot be decoded.

    """
    files = sorted(folder.glob("*.wav"))
    if not files:
        raise OptionError(
            f"clustering: option voices must be a folder of recordings NAME.wav; {folder} has none"
        )
    return tuple(_voice(networks, file) for file in files)


def _voice(networks: Networks, file: Path) -> Voice:
    audio = read_recording(file)[:_VOICE_SAMPLES]
    speech = []
    for start in range(0, len(audio), _WINDOW_SAMPLES):
        window = audio[start : start + _WINDOW_SAMPLES]
        if len(window) >= MIN_SAMPLES:
            is_alone = networks.segment(window).sum(axis=1) == 1
            frames = window[: len(is_alone) * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
            speech.append(frames[is_alone].ravel())
    alone = np.concatenate(speech) if speech else audio[:0]
    seconds = len(alone) / SAMPLE_RATE
    if seconds < _MIN_VOICE_SECONDS:
        raise OptionError(
            f"{file} has {seconds:.1f} s of speech of one speaker; record "
            f"{_MIN_VOICE_SECONDS:.0f} s or more"
        )
    return Voice(file.stem, networks.embed(alone), seconds)


def _find_file(directory: Path, names: str) -> Path | None:
    """Return the first file of *names*, separated by "|", that exists in *directory*."""
    paths = (directory / name for name in names.split("|"))
    return next((path for path in paths if path.is_file()), None)


def _require_file(directory: Path, names: str) -> Path:
    if path := _find_file(directory, names):
        return path
    raise ModelNotFoundError(
        f"{directory} holds no {' or '.join(names.split('|'))}; leave the model out to use the "
        "published one, or rename the file"
    )
