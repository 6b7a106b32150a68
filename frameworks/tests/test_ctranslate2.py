from __future__ import annotations

import re

import pytest

pytest.importorskip("ctranslate2", exc_type=ImportError)

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.ctranslate2 import choose_compute_type, choose_device


@pytest.mark.parametrize(
    ("name", "gpus", "device"),
    [
        ("auto", 0, ("cpu", 0)),
        ("auto", 1, ("cuda", 0)),
        ("cpu", 1, ("cpu", 0)),
        ("cuda", 2, ("cuda", 0)),
        ("cuda:1", 2, ("cuda", 1)),
    ],
)
def test_a_device_is_the_one_named_or_a_gpu(
    monkeypatch: pytest.MonkeyPatch, name: str, gpus: int, device: tuple[str, int]
) -> None:
    """With auto, a GPU is preferred to the CPU."""
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: gpus)

    assert choose_device(name) == device


@pytest.mark.parametrize(
    ("name", "gpus", "message"),
    [
        ("cuda", 0, "CTranslate2 finds no CUDA device"),
        ("cuda:0", 0, "CTranslate2 finds no CUDA device"),
        ("cuda:1", 1, "expected one of cuda:0 (CTranslate2 finds 1 in all), got device=cuda:1"),
        (
            "cuda:9",
            2,
            "expected one of cuda:0, cuda:1 (CTranslate2 finds 2 in all), got device=cuda",
        ),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, name: str, gpus: int, message: str
) -> None:
    """The message says how many GPUs there are."""
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: gpus)

    with pytest.raises(BackendUnavailable, match=re.escape(message)):
        choose_device(name)


@pytest.mark.parametrize(
    ("machine", "name", "declared", "expected"),
    [
        ("x86_64", "int16", "float32", "int16"),
        ("x86_64", "fastest", "float32", "auto"),
        ("x86_64", "auto", "float32", "float32"),
        ("x86_64", "auto", "float16", "int8"),
        ("arm64", "auto", "float16", "default"),
        ("arm64", "auto", None, "default"),
    ],
)
def test_the_arithmetic_is_named_or_declared_or_suits_the_processor(
    monkeypatch: pytest.MonkeyPatch, machine: str, name: str, declared: str | None, expected: str
) -> None:
    """A declared type that the processor lacks is not used; int8 was measured only on x86."""
    types = {"int8", "int16", "float32"}
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda _device: types)
    monkeypatch.setattr("platform.machine", lambda: machine)

    assert choose_compute_type(name, device="cpu", declared=declared) == expected
