from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from wlk_core.errors import BackendUnavailable

torch = pytest.importorskip("torch", exc_type=ImportError)

from wlk_frameworks.torch import choose_device, choose_dtype  # noqa: E402 -- needs torch

if TYPE_CHECKING:
    from collections.abc import Callable

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes torch report the given accelerators."""

    def pretend(*, cuda: Any = False, mps: Any = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("name", "accelerators", "device"),
    [
        ("auto", {"cuda": True, "mps": True}, "cuda"),
        ("auto", {"mps": True}, "mps"),
        ("auto", {}, "cpu"),
        *[(device, {"cuda": True, "mps": True}, device) for device in ("cpu", "cuda", "mps")],
    ],
)
def test_a_device_is_the_one_named_or_the_fastest_here(
    present: Callable[..., None], name: str, accelerators: dict[str, bool], device: Any
) -> None:
    """CUDA comes before MPS, and the CPU is last."""
    present(**accelerators)

    assert torch.device(device) == choose_device(name)


def test_cudnn_attention_is_off_on_cuda(
    present: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make a new plan for each length of a growing stream."""
    calls: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", calls.append)
    present(cuda=True)
    choose_device("cpu")
    choose_device("auto")

    assert [False] == calls


@pytest.mark.parametrize(
    ("device", "check"), [("cuda", "check the driver with nvidia-smi"), ("mps", "macOS 12.3")]
)
def test_a_device_that_is_not_here_makes_the_backend_unavailable(
    present: Callable[..., None], device: Any, check: str
) -> None:
    """The message has the device, the version of torch and what to check."""
    present()

    with pytest.raises(BackendUnavailable, match=f"has no device {device} here; .*{check}.*, or"):
        choose_device(device)


@pytest.mark.parametrize(
    ("name", "device", "declared", "expected"),
    [
        ("float16", CPU, "float32", torch.float16),
        ("auto", CPU, "bfloat16", torch.bfloat16),
        ("auto", GPU, None, torch.float16),
        ("auto", GPU, "int8", torch.float16),
        ("auto", GPU, "float32", torch.float32),
    ],
)
def test_the_arithmetic_is_named_or_declared_or_suits_the_device(
    name: str, device: Any, declared: str | None, expected: Any
) -> None:
    """A name comes before the checkpoint, which comes before the default of the device."""
    assert expected == choose_dtype(name, device=device, declared=declared)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"avx512_bf16": False}, torch.float32),
    ],
)
def test_a_processor_with_instructions_for_bfloat16_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, features: dict[str, bool], expected: Any
) -> None:
    """Other processors would convert bfloat16 for each product."""
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: features, raising=False)
    assert choose_dtype("auto", device=CPU) == expected
