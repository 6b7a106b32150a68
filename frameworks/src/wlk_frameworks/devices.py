"""Parse the option `device`, whose value cuda:N names one of several GPUs."""

from __future__ import annotations

from typing import NamedTuple

from wlk_core.errors import BackendUnavailable


class Device(NamedTuple):
    """A device by its kind, such as cpu or cuda, and its number among those of its kind."""

    kind: str
    number: int = 0


def parse_device(name: str, *, gpus: int, framework: str) -> Device:
    """
    Return the device called *name* in the option, of the *gpus* that *framework* finds.

    Raises BackendUnavailable if there are GPUs, but not this one.  The caller reports a machine
    without any GPU.
    """
    kind, _, text = name.partition(":")
    number = int(text or 0)
    if number >= gpus > 0:
        known = ", ".join(f"{kind}:{each}" for each in range(gpus))
        raise BackendUnavailable(
            f"expected one of {known} ({framework} finds {gpus} in all), got device={name}; "
            "CUDA_VISIBLE_DEVICES hides the others, if it is set"
        )
    return Device(kind, number)
