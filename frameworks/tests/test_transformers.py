"""A model of transformers loads whole and without output, or one line says what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("transformers", exc_type=ImportError)

from safetensors.torch import load_file, save_file
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.utils import logging

from wlk_core import BackendUnavailable, ModelNotFoundError
from wlk_frameworks.checkpoints import TensorSize, check_sizes
from wlk_frameworks.transformers import load_checked, quiet_loading

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = "model.safetensors"
SIZES = (TensorSize("d_model", ("model.encoder.layer_norm.bias",)),)
SMALL = {
    "d_model": 8, "vocab_size": 16, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 4,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8, "max_source_positions": 6, "max_target_positions": 6,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0,
}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a small Whisper with random weights."""
    torch.manual_seed(0)
    WhisperForConditionalGeneration(WhisperConfig(**SMALL)).save_pretrained(tmp_path)
    return tmp_path


def load(directory: Path, dtype: torch.dtype = torch.float32, **config: object) -> torch.nn.Module:
    """Load the directory on the CPU, with keys of its config changed."""
    path = directory / "config.json"
    model: torch.nn.Module = load_checked(
        WhisperForConditionalGeneration,
        directory,
        json.loads(path.read_text(encoding="utf-8")) | config,
        kind="a Whisper",
        check=lambda table, tensors: check_sizes(table, SIZES, tensors, path=path),
        device=torch.device("cpu"),
        dtype=dtype,
    )
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_weights_are_those_of_the_file(directory: Path, dtype: torch.dtype) -> None:
    """They are converted to the dtype, and the model is ready for inference."""
    loaded = load(directory, dtype)
    state = loaded.state_dict()

    for name, weights in load_file(directory / WEIGHTS).items():
        assert state[name].equal(weights.to(dtype))
    assert not loaded.training
    assert not any(weights.requires_grad for weights in loaded.parameters())


@pytest.mark.parametrize(
    ("changes", "config", "message"),
    [
        ({"model.decoder.layer_norm.bias": None}, {}, r"1 missing \(model\.decoder\S+bias\);"),
        ({"more": torch.zeros(1)}, {}, r"1 unknown \(more\);"),
        (
            {"model.decoder.layer_norm.bias": torch.zeros(5)},
            {},
            r"1 of another shape \(model\S+ has \(5,\), expected \(8,\)\);",
        ),
        ({}, {"d_model": 10}, "has d_model=10, but the weights have 8"),
        ({}, {"hidden_size": 10}, "has d_model=10, but the weights have 8"),
        ({}, {"activation_function": "none"}, "could not be loaded as a Whisper: .*none"),
        ({}, {"dropout": "high"}, "does not describe a Whisper: "),
    ],
    ids=["a weight less", "a weight more", "another shape", "another size", "another name of it",
         "an unknown activation", "a value of another type"],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused_in_one_line(
    directory: Path,
    changes: dict[str, torch.Tensor | None],
    config: dict[str, object],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nothing is filled in at random or left out, and transformers prints nothing."""
    weights = {**load_file(directory / WEIGHTS), **changes}
    save_file(
        {name: each for name, each in weights.items() if each is not None},
        directory / WEIGHTS,
        metadata={"format": "pt"},
    )

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load(directory, **config)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        (torch.float32, "choose dtype=bfloat16, another device"),
        (torch.bfloat16, "choose another device"),
    ],
    ids=["float32", "bfloat16"],
)
def test_a_model_without_enough_memory_names_what_helps(
    directory: Path, dtype: torch.dtype, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller dtype helps only where there is one."""
    monkeypatch.setattr("wlk_frameworks.transformers.available_memory", lambda _: 1)

    with pytest.raises(BackendUnavailable, match=f"GB of memory, and cpu has .*; {remedy}$"):
        load(directory, dtype)


@pytest.mark.parametrize("has_bars", [True, False])
def test_bars_and_logs_are_off_while_a_model_is_loaded(*, has_bars: bool) -> None:
    """Both are restored even if loading fails."""
    had_bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    (logging.enable_progress_bar if has_bars else logging.disable_progress_bar)()
    logging.set_verbosity_info()
    try:
        with pytest.raises(RuntimeError, match="damaged"), quiet_loading():
            during = logging.is_progress_bar_enabled(), logging.get_verbosity()
            raise RuntimeError("damaged")
        after = logging.is_progress_bar_enabled(), logging.get_verbosity()
    finally:
        (logging.enable_progress_bar if had_bars else logging.disable_progress_bar)()
        logging.set_verbosity(level)

    assert during == (False, logging.ERROR)
    assert after == (has_bars, logging.INFO)
