"""Write a trained Qwen3-ASR as one directory that transformers and mlx-qwen3-asr both load.

    python tools/digits/export_qwen3.py --weights DIR --output DIR

The layout is that of the original repositories (`thinker.*`), with weights rounded to float16.  All
other files are copied from the shipped checkpoint, which has the same sizes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import re
from typing import TYPE_CHECKING

from model_qwen3 import load_model
from safetensors.torch import save_file
import torch
from vocabulary_qwen3 import BUNDLED, expand

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen3ASRForConditionalGeneration

#: transformers name -> name in the original layout.
_NAMES = (
    (r"^model\.language_model\.", "thinker.model."),
    (r"^model\.multi_modal_projector\.linear_([12])\.", r"thinker.audio_tower.proj\1."),
    (r"^model\.audio_tower\.", "thinker.audio_tower."),
)
_EMBEDDING = "thinker.model.embed_tokens.weight"
# Files that are not copied.  `python -m wlk_qwen3_simul.detect_heads` finds the heads of a model.
_OF_WEIGHTS = ("model.safetensors", "alignment_heads.json", "wlk.json")
#: What wlk.json declares about the checkpoint, besides measured figures.
DECLARATION = {
    "languages": ["en"],
    "compute_type": "float32",
    "licence": "CC-BY-SA-4.0",
    "provenance": {
        "script": "tools/digits/train_qwen3.py",
        "recordings": "Free Spoken Digit Dataset (george, jackson, lucas, nicolas; recordings "
        "5-49), as they are and disguised by tools/digits/disguise.py",
        "voices": "espeak-ng, flite, festival and Pico, rendered by voices.py; prompts "
        "of Asterisk (CC BY-SA 3.0) and captcha (BSD), disguised",
    },
}


def original_weights(model: Qwen3ASRForConditionalGeneration) -> dict[str, Tensor]:
    """Return float16 weights over the full vocabulary, in the names of the original layout."""
    weights = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied to the embedding
        ours = name
        for theirs, other in _NAMES:
            ours = re.sub(theirs, other, ours)
        weights[ours] = tensor.half().contiguous()
    weights[_EMBEDDING] = torch.from_numpy(expand(weights[_EMBEDDING].numpy()))
    return weights


def write_checkpoint(model: Qwen3ASRForConditionalGeneration, folder: Path) -> None:
    """Write every file of the checkpoint but wlk.json and the heads."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(original_weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    for path in BUNDLED.iterdir():
        if path.name not in _OF_WEIGHTS:
            (folder / path.name).write_bytes(path.read_bytes())


def main() -> None:
    """Write the checkpoint into the output folder, leaving other files in it alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="output of train_qwen3.py")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--measured", type=Path, help="JSON file of figures for wlk.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    write_checkpoint(load_model(arguments.weights).eval(), arguments.output)
    declaration = dict(DECLARATION)
    if arguments.measured:
        declaration["measured"] = json.loads(arguments.measured.read_text(encoding="utf-8"))
    text = json.dumps(declaration, indent=1, ensure_ascii=False) + "\n"
    (arguments.output / "wlk.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
