"""
wlk-serve on Ray Serve: the same addresses, on as many replicas as the sessions need.

    pip install 'wlk-serve[ray]' wlk-whisper
    serve run wlk_serve.ray:build backend=faster-whisper model=digits

`build` takes the attributes of `ReplicaSettings`, from the command line or from a YAML file.
"""

from __future__ import annotations

from typing import Any

from wlk_serve.ray.settings import ReplicaSettings

__all__ = ["ReplicaSettings", "build"]


def build(arguments: dict[str, Any]) -> Any:
    """
    Return the application for `serve run` and for the `import_path` of a YAML file.

    Args:
        arguments: the attributes of `ReplicaSettings`; numbers and lists may be strings.

    Raises:
        OptionError: an argument is unknown, or has an invalid value.

    """
    from wlk_serve.ray.application import deployed  # noqa: PLC0415 -- settings need no Ray

    return deployed(ReplicaSettings.parse(arguments))
