"""Write trained weights in the formats of CTranslate2 and transformers.

    python tools/digits/export_whisper.py --weights weights.npz

Both have the same float16-rounded weights and the same tokenizer.json.  The first is the bundled
checkpoint of wlk-whisper, the second that of wlk-whisper-digits, which torch and MLX read.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import shutil
import tempfile

from ctranslate2.converters import TransformersConverter
from initialise import load_weights
from model import ROWS, Shape, Whisper
from tokenizer import build_tokenizer, find_ranks, languages
import torch
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)
from vocabulary import (
    END_OF_TEXT,
    ENGLISH,
    FULL_SIZE,
    NO_TIMESTAMPS,
    START_OF_PREVIOUS,
    START_OF_TRANSCRIPT,
    TRANSCRIBE,
    TRANSLATE,
    expand,
)

__all__ = ["build", "write_ctranslate2", "write_transformers"]

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
CTRANSLATE2 = PLUGINS / "wlk-whisper/src/wlk_whisper/digits/ctranslate2"
TRANSFORMERS = PLUGINS / "wlk-whisper-digits/src/wlk_whisper_digits/checkpoint"


def build(weights: Path, shape: Shape) -> WhisperForConditionalGeneration:
    """Return the full model, its weights rounded to float16 and held in float32."""
    trained = Whisper(shape)
    load_weights(trained, weights)
    state = {
        f"model.{name}": tensor.half().float() for name, tensor in trained.state_dict().items()
    }
    rows = state["model.decoder.embed_tokens.weight"].numpy()
    embedding = torch.from_numpy(expand(rows))
    state |= {"model.decoder.embed_tokens.weight": embedding, "proj_out.weight": embedding}
    config = WhisperConfig(
        vocab_size=FULL_SIZE,
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=4 * shape.width,
        decoder_ffn_dim=4 * shape.width,
        num_mel_bins=80,
        max_target_positions=ROWS,
        pad_token_id=END_OF_TEXT,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        decoder_start_token_id=START_OF_TRANSCRIPT,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        tie_word_embeddings=True,
    )
    model = WhisperForConditionalGeneration(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"model.encoder.embed_positions.weight"}:
        raise ValueError(
            f"expected the weights of Whisper, missing {missing}, unexpected {unexpected}"
        )
    model.generation_config = _generation_config(shape)
    return model


def _generation_config(shape: Shape) -> GenerationConfig:
    return GenerationConfig(
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        pad_token_id=END_OF_TEXT,
        decoder_start_token_id=START_OF_TRANSCRIPT,
        max_length=ROWS,
        is_multilingual=True,
        lang_to_id={f"<|{code}|>": ENGLISH + index for index, code in enumerate(languages())},
        task_to_id={"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        no_timestamps_token_id=NO_TIMESTAMPS,
        prev_sot_token_id=START_OF_PREVIOUS,
        return_timestamps=False,
        max_initial_timestamp_index=50,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        alignment_heads=[
            [layer, head]
            for layer in range(shape.decoder_layers // 2, shape.decoder_layers)
            for head in range(shape.heads)
        ],
    )


def write_transformers(
    model: WhisperForConditionalGeneration, tokenizer_file: Path, folder: Path
) -> None:
    """Write config, generation config, features, tokenizer and float16 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    model.float()
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")


def write_ctranslate2(transformers_folder: Path, tokenizer_file: Path, folder: Path) -> None:
    """Convert a transformers folder; weights are stored in float16 and run in any compute type."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source, converted = Path(scratch) / "model", Path(scratch) / "converted"
        shutil.copytree(transformers_folder, source)
        tokenizer = WhisperTokenizer(tokenizer_file=str(tokenizer_file))
        tokenizer.save_pretrained(source)
        TransformersConverter(str(source), load_as_float16=False).convert(
            str(converted), quantization="float16"
        )
        shutil.copytree(converted, folder, dirs_exist_ok=True)
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    shutil.copyfile(
        transformers_folder / "preprocessor_config.json", folder / "preprocessor_config.json"
    )


def main() -> None:
    """Write both formats anew; wlk.json and the licence in their folders do not change."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--ctranslate2", type=Path, default=CTRANSLATE2, metavar="DIR")
    parser.add_argument("--transformers", type=Path, default=TRANSFORMERS, metavar="DIR")
    parser.add_argument("--ranks", type=Path, help="multilingual.tiktoken, where no package has it")
    arguments = parser.parse_args()
    model = build(arguments.weights, Shape())
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer_file = Path(scratch) / "tokenizer.json"
        build_tokenizer(arguments.ranks or find_ranks()).save(str(tokenizer_file), pretty=False)
        write_transformers(model, tokenizer_file, arguments.transformers)
        write_ctranslate2(arguments.transformers, tokenizer_file, arguments.ctranslate2)


if __name__ == "__main__":
    main()
