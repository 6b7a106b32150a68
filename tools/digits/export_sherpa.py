"""Write a trained transducer as the three ONNX files, tokens and pieces that sherpa-onnx reads.

python tools/digits/export_sherpa.py --weights DIR --output DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch
from torch import nn
from train_sherpa import CHUNK_FRAMES, MELS, STRIDE, TOKENS, WINDOW_FRAMES, Transducer, scaled

if TYPE_CHECKING:
    from torch import Tensor

BATCH = {0: "N"}
STATE = {1: "N"}


class Part(nn.Module):
    """One of the three functions of a transducer, as the module that the exporter requires."""

    def __init__(self, model: Transducer, function: Any) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


def write(model: Transducer, folder: Path) -> None:
    """Write encoder.onnx, decoder.onnx, joiner.onnx, tokens.txt and bpe.vocab."""
    folder.mkdir(parents=True, exist_ok=True)

    def encode(features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return model.encode(scaled(features), h, c)

    def save(name: str, function: Any, inputs: dict[str, Tensor], outputs: dict[str, Any],
             axes: dict[str, Any], **metadata: Any) -> None:  # fmt: skip
        path = folder / f"{name}.onnx"
        torch.onnx.export(
            Part(model, function).eval(), tuple(inputs.values()), str(path), dynamo=False,
            input_names=list(inputs), output_names=list(outputs), opset_version=17,
            dynamic_axes={**dict.fromkeys([*inputs, *outputs], BATCH), **axes},
        )  # fmt: skip
        exported = onnx.load(path)
        for key, value in metadata.items():
            exported.metadata_props.add(key=key, value=str(value))
        onnx.save(exported, path)

    # Two streams, because the exporter takes a batch of one for a constant.
    state = torch.zeros(model.layers, 2, model.size)
    # The keys and names of icefall's lstm_transducer_stateless2/export-onnx.py.
    save(
        "encoder", encode, {"x": torch.zeros(2, WINDOW_FRAMES, MELS), "h": state, "c": state},
        {"encoder_out": BATCH, "next_h": STATE, "next_c": STATE},
        dict.fromkeys(("h", "c", "next_h", "next_c"), STATE),
        model_type="lstm", version=1, T=WINDOW_FRAMES, decode_chunk_len=CHUNK_FRAMES,
        num_encoder_layers=model.layers, d_model=model.size, rnn_hidden_size=model.size,
        subsampling_factor=STRIDE,
    )  # fmt: skip
    save(
        "decoder", model.decode, {"y": torch.zeros(2, 2, dtype=torch.int64)},
        {"decoder_out": BATCH}, {}, context_size=2, vocab_size=len(TOKENS),
    )  # fmt: skip
    joint = torch.zeros(2, model.joint)
    save(
        "joiner", model.join, {"encoder_out": joint, "decoder_out": joint}, {"logit": BATCH}, {},
        joiner_dim=model.joint,
    )  # fmt: skip
    lines = [f"{token} {index}\n" for index, token in enumerate(TOKENS)]
    (folder / "tokens.txt").write_text("".join(lines), encoding="utf-8")
    scores = [f"{token}\t{-index}\n" for index, token in enumerate(TOKENS)]
    (folder / "bpe.vocab").write_text("".join(scores), encoding="utf-8")


def main() -> None:
    """Read the arguments and write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="output of train_sherpa.py")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    write(Transducer.load(arguments.weights), arguments.output)


if __name__ == "__main__":
    main()
