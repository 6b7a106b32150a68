from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core.errors import BackendUnavailable

torch = pytest.importorskip("torch", exc_type=ImportError)

from wlk_frameworks.torch import choose_device, choose_dtype, inference  # noqa: E402 -- needs torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes torch report the given accelerators."""

    def pretend(*, cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("name", "accelerators", "device"),
    [
        ("auto", {"cuda": 1, "mps": True}, "cuda"),
        ("auto", {"mps": True}, "mps"),
        ("auto", {}, "cpu"),
        *[(device, {"cuda": 1, "mps": True}, device) for device in ("cpu", "cuda", "mps")],
        *[(device, {"cuda": 2}, device) for device in ("cuda:0", "cuda:1")],
    ],
)
def test_a_device_is_the_one_named_or_the_fastest_here(
    present: Callable[..., None], name: str, accelerators: dict[str, int], device: Any
) -> None:
    """CUDA comes before MPS, and the CPU is last."""
    present(**accelerators)

    assert choose_device(name) == torch.device(device)


@pytest.fixture
def cudnn_attention() -> Iterator[Callable[[], bool]]:
    """Return a function that reads torch's switch for cuDNN's attention, which begins as on."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield torch.backends.cuda.cudnn_sdp_enabled
    torch.backends.cuda.enable_cudnn_sdp(True)


def test_choosing_a_device_leaves_the_switches_of_torch_alone(
    present: Callable[..., None], cudnn_attention: Callable[[], bool]
) -> None:
    """Other users of torch in the process keep their attention."""
    present(cuda=1)
    choose_device("auto")

    assert cudnn_attention()


def test_cudnn_attention_is_off_only_during_passes_on_cuda(
    cudnn_attention: Callable[[], bool],
) -> None:
    """It would make a new plan for each length of a growing stream."""
    with inference(CPU):
        on_cpu = cudnn_attention()
    with pytest.raises(RuntimeError, match="out of memory"), inference(GPU):
        on_gpu = cudnn_attention()
        raise RuntimeError("out of memory")

    assert (on_cpu, on_gpu, cudnn_attention()) == (True, False, True)


def test_passes_that_overlap_restore_the_switch_together(
    cudnn_attention: Callable[[], bool],
) -> None:
    """The first to end does not switch cuDNN's attention on under the other."""
    has_begun, may_end = threading.Event(), threading.Event()

    def run_first() -> None:
        with inference(GPU):
            has_begun.set()
            may_end.wait()

    first = threading.Thread(target=run_first)
    first.start()
    has_begun.wait()
    with inference(GPU):
        may_end.set()
        first.join()
        during = cudnn_attention()

    assert (during, cudnn_attention()) == (False, True)
    assert not torch.is_inference_mode_enabled()


def test_a_switch_that_the_user_turned_off_stays_off(cudnn_attention: Callable[[], bool]) -> None:
    """A pass restores what it found."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    with inference(GPU):
        pass

    assert not cudnn_attention()


@pytest.mark.parametrize(
    ("device", "check"),
    [
        ("cuda", "check the driver with nvidia-smi"),
        ("cuda:1", "check the driver with nvidia-smi"),
        ("mps", "macOS 12.3"),
    ],
)
def test_a_device_that_is_not_here_makes_the_backend_unavailable(
    present: Callable[..., None], device: Any, check: str
) -> None:
    """The message has the device, the version of torch and what to check."""
    present()

    with pytest.raises(BackendUnavailable, match=f"has no device {device} here; .*{check}.*, or"):
        choose_device(device)


def test_a_gpu_beyond_those_of_torch_is_refused(present: Callable[..., None]) -> None:
    """The message names those that there are."""
    present(cuda=2)

    found = r"one of cuda:0, cuda:1 \(torch .* finds 2 in all\), got device=cuda:2; CUDA_VISIBLE"
    with pytest.raises(BackendUnavailable, match=found):
        choose_device("cuda:2")


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
    assert choose_dtype(name, device=device, declared=declared) == expected


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
