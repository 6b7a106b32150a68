"""Load a checkpoint in mlx-whisper's format or transformers' into the modules of mlx-whisper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

from mlx import nn
import mlx.core as mx
from mlx_whisper.whisper import ModelDimensions, Whisper
from msgspec import Meta, defstruct
import numpy as np

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import LayerCount, Size, TensorSize, check_sizes, read_json_table
from wlk_frameworks.memory import require_memory
from wlk_frameworks.mlx import available_memory
from wlk_whisper.engine.model_files import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_whisper.engine.alignment_heads import Heads

WEIGHTS = ("weights.safetensors", "weights.npz")
ALIGNMENT_HEADS = "alignment_heads"  # what mlx-whisper's converter names them among the weights
REMEDY = "get one with: wlk-core pull SIZE --backend mlx-whisper"
# Sizes that the weights confirm; not n_audio_ctx, because mlx-whisper computes the sinusoids.
_SIZES = (
    LayerCount("n_audio_layer", ("encoder.blocks.",)),
    LayerCount("n_text_layer", ("decoder.blocks.",)),
    TensorSize("n_audio_state", ("encoder.ln_post.bias",)),
    TensorSize("n_text_state", ("decoder.ln.bias",)),
    TensorSize("n_mels", ("encoder.conv1.weight",), axis=2),
    TensorSize("n_vocab", ("decoder.token_embedding.weight",)),
    TensorSize("n_text_ctx", ("decoder.positional_embedding",)),
)

#: Fields of mlx-whisper's ModelDimensions, and their keys in transformers' WhisperConfig.
_CONFIG_KEYS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}

#: The only values that mlx-whisper's modules implement.
REQUIRED = {"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True}

#: Replacements, made in this order, from transformers' names to mlx-whisper's.
_NAMES = (
    ("model.", ""),
    ("layers.", "blocks."),
    ("fc1", "mlp1"),
    ("fc2", "mlp2"),
    ("final_layer_norm", "mlp_ln"),
    (".self_attn.q_proj", ".attn.query"),
    (".self_attn.k_proj", ".attn.key"),
    (".self_attn.v_proj", ".attn.value"),
    (".self_attn.out_proj", ".attn.out"),
    ("self_attn_layer_norm", "attn_ln"),
    (".encoder_attn.q_proj", ".cross_attn.query"),
    (".encoder_attn.k_proj", ".cross_attn.key"),
    (".encoder_attn.v_proj", ".cross_attn.value"),
    (".encoder_attn.out_proj", ".cross_attn.out"),
    ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("decoder.layer_norm.", "decoder.ln."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.embed_tokens", "decoder.token_embedding"),
    ("decoder.embed_positions.weight", "decoder.positional_embedding"),
)
# The tied output projection, and sinusoids that mlx-whisper computes itself.
_COMPUTED = {"proj_out.weight", "model.encoder.embed_positions.weight"}


# mlx-whisper computes a sinusoid for each frame, so frames are limited to ten minutes; every
# Whisper has 1,500.
_LIMITS = {"n_audio_ctx": Annotated[int, Meta(ge=1, le=30_000)]}
_Dimensions = defstruct("_Dimensions", [(key, _LIMITS.get(key, Size)) for key in _CONFIG_KEYS])


def load_model(directory: Path, *, dtype: mx.Dtype) -> tuple[Whisper, Heads | None]:
    """
    Load the checkpoint in *directory* in *dtype*; quantized weights stay quantized.

    The directory is in mlx-whisper's format or in transformers'.  mlx-whisper's own loader leaves
    missing weights random, keeps the type that weights were saved in, and asks a hub for
    directories it does not find.

    Returns:
        the modules, filled and evaluated, and the alignment heads among the weights, which may be
        those of a larger model that this one was distilled from.

    Raises:
        ModelNotFoundError: the files are not such a checkpoint, or not a complete one.
        BackendUnavailable: the model does not fit into memory.

    """
    path = directory / "config.json"
    config = read_json_table(path, remedy=REMEDY)
    if config.get("model_type") == "whisper" and "d_model" in config:
        for key, required in REQUIRED.items():
            if (value := config.get(key, required)) != required:
                raise _rejection(
                    directory, f"config.json has {key}={value!r}, and MLX runs {required!r} only"
                )
        sizes, files, _ = read_checkpoint(directory)
        dims = convert_config(sizes)
        weights = {k: v for file in files for k, v in convert_weights(_read_weights(file)).items()}
    else:
        file = next((directory / name for name in WEIGHTS if (directory / name).is_file()), None)
        if file is None:
            raise _rejection(directory, f"it has no {' or '.join(WEIGHTS)}")
        weights = _read_weights(file)
        dims = read_json_table(path, _Dimensions, remedy=REMEDY)
    check_sizes(dims, _SIZES, weights, path=path, remedy=REMEDY)
    device = mx.default_device().type.name
    require_memory(
        str(directory),
        # Quantized weights are packed into integers, whose size does not depend on *dtype*.
        needed=sum(
            weight.size * dtype.size if mx.issubdtype(weight.dtype, mx.floating) else weight.nbytes
            for weight in weights.values()
        ),
        available=available_memory(device),
        device=device,
        remedy="choose a smaller model",
    )
    heads = _read_heads(directory, weights.pop(ALIGNMENT_HEADS, None))
    for part in ("audio", "text"):
        width, count = dims[f"n_{part}_state"], dims[f"n_{part}_head"]
        if width % (2 * count):
            raise _rejection(
                directory, f"config.json divides {width} {part} channels among {count} heads"
            )
    whisper = _new_modules(ModelDimensions(**{key: dims[key] for key in _CONFIG_KEYS}), dtype)
    quantization = config.get("quantization")
    if quantization is not None:
        _quantize(directory, whisper, quantization, weights)
    placed = {
        key: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for key, value in weights.items()
    }
    placed[ALIGNMENT_HEADS] = whisper.alignment_heads  # a parameter of the modules
    try:
        whisper.load_weights(list(placed.items()), strict=True)
        mx.eval(whisper.parameters())  # reads the arrays of the files
    except (RuntimeError, ValueError) as error:
        raise _rejection(
            directory, f"the weights do not fit config.json: {one_line(str(error))}"
        ) from error
    return whisper, heads


def convert_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimensions under mlx-whisper's names, None for those the config lacks."""
    return {ours: config.get(theirs) for ours, theirs in _CONFIG_KEYS.items()}


def convert_weights(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights under mlx-whisper's names; its convolutions have their channels last."""
    converted: dict[str, mx.array] = {}
    for name, weight in weights.items():
        if name in _COMPUTED:
            continue
        is_convolution = name.endswith((".conv1.weight", ".conv2.weight"))
        for theirs, ours in _NAMES:
            name = name.replace(theirs, ours)  # noqa: PLW2901 -- one name becomes another
        converted[name] = weight.transpose(0, 2, 1) if is_convolution else weight
    return converted


def _new_modules(dims: ModelDimensions, dtype: mx.Dtype) -> Whisper:
    """
    Return the modules of a Whisper, with random weights that are never computed.

    A thread that ends here builds them: one that has drawn random numbers can crash the process if
    both end together (mlx 0.32, ml-explore/mlx#4110), and the caller's thread may end with it.
    """
    stream = mx.default_stream(mx.default_device())

    def make() -> Whisper:
        with mx.stream(stream):
            return Whisper(dims, dtype)

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(make).result()


def _read_weights(path: Path) -> dict[str, mx.array]:
    """Return the arrays of a file by name, with their shapes but not yet read."""
    try:
        weights: Any = mx.load(str(path))
    except (RuntimeError, ValueError) as error:
        reason = f"{path.name} cannot be read ({one_line(str(error))})"
        raise _rejection(path.parent, reason) from error
    return dict(weights)


def _read_heads(directory: Path, saved: mx.array | None) -> Heads | None:
    if saved is None:
        return None
    # Some converters save them as floating point, like everything else.
    pairs = np.array(saved.astype(mx.int32))
    if pairs.ndim != 2 or pairs.shape[1] != 2:  # noqa: PLR2004 -- layer and head
        raise _rejection(directory, f"{ALIGNMENT_HEADS} should be pairs, got shape {pairs.shape}")
    return tuple((int(layer), int(head)) for layer, head in pairs)


def _quantize(
    directory: Path, whisper: Whisper, quantization: Any, weights: Mapping[str, mx.array]
) -> None:
    """Quantize the modules whose weights come with scales."""

    def is_quantized(path: str, module: nn.Module) -> bool:
        return isinstance(module, (nn.Linear, nn.Embedding)) and f"{path}.scales" in weights

    try:
        nn.quantize(whisper, **quantization, class_predicate=is_quantized)
    except (TypeError, ValueError) as error:
        raise _rejection(
            directory, f"it is quantized in an unknown way ({one_line(str(error))})"
        ) from error


def _rejection(directory: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{directory} is not a Whisper in mlx-whisper's format (config.json with "
        f"weights.safetensors or weights.npz) or in transformers': {reason}; {REMEDY}"
    )
