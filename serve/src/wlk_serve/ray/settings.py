"""The settings of a Ray deployment; reading them does not import Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_Count = Annotated[int, Meta(ge=1)]
_Share = Annotated[float, Meta(ge=0)]


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    What each replica serves, and how many replicas there are.

    Attributes:
        backend: name of a backend; None for the machine's default.
        model: the model; None for the backend's default.
        language: language of sessions whose client names none.
        options: options of the backend, as strings KEY=VALUE.
        diarizer: name of an installed diarizer; None for no speakers.
        served_names: model names that clients may send; empty for its own.
        api_key_env: environment variable of the replicas that holds the clients' keys, separated by
            commas; None for a server that answers only to this machine's own names.
        allow_origins: websites whose pages may use the server.
        max_sessions: maximum number of concurrent sockets and requests in one replica; further ones
            get 503 and `Retry-After`.
        session_seconds: maximum length of a session, for which a stopping replica waits.
        drain_seconds: how long sessions may continue after `draining` is set.
        min_replicas: minimum number of replicas.
        max_replicas: maximum number of replicas.
        num_cpus: CPU cores that Ray reserves for a replica.
        num_gpus: GPUs, or a fraction of one, that Ray reserves for a replica.

    """

    backend: str | None = None
    model: str | None = None
    language: str | None = None
    options: tuple[str, ...] = ()
    diarizer: str | None = None
    served_names: tuple[str, ...] = ()
    api_key_env: str | None = None
    allow_origins: tuple[str, ...] = ()
    max_sessions: _Count = 20
    session_seconds: Annotated[float, Meta(gt=0)] = 3600.0
    drain_seconds: _Share = 20.0
    min_replicas: _Count = 1
    max_replicas: _Count = 1
    num_cpus: _Share = 1.0
    num_gpus: _Share = 0.0

    @classmethod
    def parse(cls, arguments: Mapping[str, Any]) -> ReplicaSettings:
        """
        Return the settings in *arguments*; numbers and comma-separated lists may be strings.

        Raises:
            OptionError: a name is unknown, or a value has a wrong type or is out of range.

        """
        values = dict(arguments)
        for name in ("options", "served_names", "allow_origins"):
            if isinstance(value := values.get(name), str):
                values[name] = [item.strip() for item in value.split(",") if item.strip()]
        try:
            return msgspec.convert(values, cls, strict=False)
        except msgspec.ValidationError as error:
            reason, _, name = str(error).partition(" - at `$.")
            if not name:
                reason += f"; the arguments are {', '.join(cls.__struct_fields__)}"
            raise OptionError(f"{name.rstrip('`') or 'arguments'}: {reason}") from error
