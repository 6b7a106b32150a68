"""Write trained weights in the formats of CTranslate2 and transformers.

    python tools/digits/export_whisper.py --weights weights.npz

Both have the same float16-rounded weights and the same tokenizer.json.  The first is the bundled
checkpoint of wlk-whisper, the second that of wlk-whisper-digits, which torch and MLX read.
Configuration and tokenizer are copied from the shipped wlk-whisper-digits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import shutil
import tempfile

from ctranslate2.converters import TransformersConverter
from initialise import load_weights
from model import Shape, Whisper
import torch
from transformers import WhisperForConditionalGeneration, WhisperTokenizer
from vocabulary import expand

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
CTRANSLATE2 = PLUGINS / "wlk-whisper/src/wlk_whisper/digits/ctranslate2"
TRANSFORMERS = PLUGINS / "wlk-whisper-digits/src/wlk_whisper_digits/checkpoint"


def build(weights: Path) -> WhisperForConditionalGeneration:
    """Return the full model, its weights rounded to float16 and held in float32."""
    trained = Whisper(Shape())
    load_weights(trained, weights)
    state = {
        f"model.{name}": tensor.half().float() for name, tensor in trained.state_dict().items()
    }
    rows = state["model.decoder.embed_tokens.weight"].numpy()
    embedding = torch.from_numpy(expand(rows))
    state |= {"model.decoder.embed_tokens.weight": embedding, "proj_out.weight": embedding}
    model = WhisperForConditionalGeneration.from_pretrained(TRANSFORMERS, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"model.encoder.embed_positions.weight"}:
        raise ValueError(
            f"expected the weights of Whisper, missing {missing}, unexpected {unexpected}"
        )
    return model.eval()


def write_transformers(model: WhisperForConditionalGeneration, folder: Path) -> None:
    """Write config, generation config, features, tokenizer and float16 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    for name in ("preprocessor_config.json", "tokenizer.json"):
        (folder / name).write_bytes((TRANSFORMERS / name).read_bytes())


def write_ctranslate2(transformers_folder: Path, folder: Path) -> None:
    """Convert a transformers folder; weights are stored in float16 and run in any compute type."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source, converted = Path(scratch) / "model", Path(scratch) / "converted"
        shutil.copytree(transformers_folder, source)
        tokenizer = WhisperTokenizer(tokenizer_file=str(source / "tokenizer.json"))
        tokenizer.save_pretrained(source)
        TransformersConverter(str(source), load_as_float16=False).convert(
            str(converted), quantization="float16"
        )
        shutil.copytree(converted, folder, dirs_exist_ok=True)
    for name in ("preprocessor_config.json", "tokenizer.json"):
        shutil.copyfile(transformers_folder / name, folder / name)


def main() -> None:
    """Write both formats anew, leaving wlk.json and the licence in their folders alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--ctranslate2", type=Path, default=CTRANSLATE2, metavar="DIR")
    parser.add_argument("--transformers", type=Path, default=TRANSFORMERS, metavar="DIR")
    arguments = parser.parse_args()
    write_transformers(build(arguments.weights), arguments.transformers)
    write_ctranslate2(arguments.transformers, arguments.ctranslate2)


if __name__ == "__main__":
    main()
