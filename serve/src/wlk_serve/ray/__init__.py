"""
wlk-serve on Ray Serve: the same addresses, on as many replicas as the sessions need.

    pip install 'wlk-serve[ray]' wlk-whisper
    serve run wlk_serve.ray:build backend=faster-whisper model=digits

`build` takes the attributes of `ReplicaSettings`, from the command line or from a YAML file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_serve.ray.settings import ReplicaSettings

if TYPE_CHECKING:
    from wlk_serve.ray.application import build

__all__ = ["ReplicaSettings", "build"]


def __getattr__(name: str) -> Any:
    """Import Ray when the application is built, so that its settings need no Ray."""
    if name == "build":
        from wlk_serve.ray.application import build  # noqa: PLC0415 -- as above

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
