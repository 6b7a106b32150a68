"""Declare the diarizers, without importing a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import AnnotatorSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUSTERING = AnnotatorSpec(
    kind="diarizer",
    name="clustering",
    api=1,
    summary="pyannote's segmentation-3.0 and CAM++ speaker embeddings, clustered online",
    load="wlk_diarize.backend:load",
    options=(
        Option(
            name="embedding_model",
            help="speaker embedding model; by default the one in the segmentation's directory, "
            "else campplus",
        ),
        Option(
            name="max_speakers",
            type=int,
            default=8,
            minimum=1,
            maximum=32,
            help="most speakers to distinguish; speech of any other goes to the most similar one",
        ),
        Option(
            name="voices",
            help="folder of recordings NAME.wav of one speaker each, to label speech with names",
        ),
        standard_options.CACHE_DIR,
    ),
    models={
        "segmentation-3.0": "onnx-community/pyannote-segmentation-3.0",
        "campplus": "csukuangfj/speaker-embedding-models",
    },
    default_model="segmentation-3.0",
    model_sizes={"segmentation-3.0": 6_000_000, "campplus": 28_000_000},
    model_licences={"segmentation-3.0": "mit", "campplus": "apache-2.0"},
    model_files=(
        "segmentation.onnx|onnx/model.onnx",
        "embedding.onnx|3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx",
    ),
    requires={
        "onnxruntime": "pip install wlk-diarize",
        "kaldi-native-fbank": "pip install wlk-diarize",
    },
)


SORTFORMER = AnnotatorSpec(
    kind="diarizer",
    name="sortformer",
    api=1,
    summary="NVIDIA's Nemotron 3 Diarization, a streaming Sortformer; CPU, CUDA, MPS",
    load="wlk_diarize.torch.backend:load",
    options=(
        Option(
            name="latency",
            choices=("ultra-low", "low", "medium", "high"),
            is_auto_allowed=True,
            help="longest delay of a label: 0.32, 1.04, 2.88 or 10.56 s; longer delays cost less; "
            "auto takes medium on a CPU, else low",
        ),
        Option(
            name="threshold",
            type=float,
            default=0.5,
            minimum=0.05,
            maximum=0.95,
            help="probability above which a speaker counts as speaking",
        ),
        standard_options.device("cpu", "cuda", "cuda:N", "mps"),
        standard_options.dtype("float32", "bfloat16", "float16"),
        standard_options.CACHE_DIR,
    ),
    models={"nemotron-3-diarization": "nvidia/Nemotron-3-Diarization"},
    default_model="nemotron-3-diarization",
    model_sizes={"nemotron-3-diarization": 400_000_000},
    model_licences={"nemotron-3-diarization": "openmdw-1.1"},
    model_files=("config.json", "*processor_config.json", "model.safetensors"),
    requires=dict.fromkeys(("torch", "transformers"), "pip install 'wlk-diarize[torch]'"),
)


@hookimpl
def wlk_diarizers() -> Iterable[AnnotatorSpec]:
    """Return the diarizers of this distribution."""
    return CLUSTERING, SORTFORMER
