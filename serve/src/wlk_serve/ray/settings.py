"""The settings of a replica, which need no Ray."""

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
    What each replica serves, and how many there are.

    Attributes:
        backend: name of a backend; None for the default of the machine.
        model: the model; None for the backend's default.
        language: language where a client names none.
        options: options of the backend, as strings KEY=VALUE.
        diarizer: name of an installed diarizer; None for no speakers.
        served_name: the name of the model for clients; None for its own.
        api_key_env: variable of the replicas' environment with the keys of clients, separated by
            commas; None for a server that answers to this machine's own names only.
        allow_origins: web sites whose pages may use the server.
        max_sessions: sockets and requests of one replica at a time; more get 503 and `Retry-After`.
        session_seconds: how long a session may last.  A replica that Ray stops waits this long.
        drain_seconds: how long sessions may go on after `draining` was set.
        min_replicas: replicas that always run.
        max_replicas: replicas at most.
        num_cpus: processors that Ray reserves for a replica.
        num_gpus: GPUs, or a share of one, that Ray reserves for a replica.

    """

    backend: str | None = None
    model: str | None = None
    language: str | None = None
    options: tuple[str, ...] = ()
    diarizer: str | None = None
    served_name: str | None = None
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
        Return the settings of *arguments*, whose numbers and lists may be text.

        Lists in text are separated by commas.

        Raises:
            OptionError: an unknown name, or a value of another type or out of range.

        """
        values = dict(arguments)
        for name in ("options", "allow_origins"):
            if isinstance(value := values.get(name), str):
                values[name] = [item.strip() for item in value.split(",") if item.strip()]
        try:
            return msgspec.convert(values, cls, strict=False)
        except msgspec.ValidationError as error:
            reason, _, name = str(error).partition(" - at `$.")
            if not name:
                reason += f"; the arguments are {', '.join(cls.__struct_fields__)}"
            raise OptionError(f"{name.rstrip('`') or 'arguments'}: {reason}") from error
