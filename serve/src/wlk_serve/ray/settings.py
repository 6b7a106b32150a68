"""The settings of an application on Ray Serve, from a command line or a YAML file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ReplicaSettings"]


def _number(default: float, *, is_positive: bool = True) -> Any:
    """Return the field of a finite number, above 0 or not below it."""

    def check(_settings: object, attribute: attrs.Attribute[Any], value: float) -> None:
        if not (value > 0 if is_positive else value >= 0) or value == math.inf:
            expected = "a number above 0" if is_positive else "0 or more"
            raise OptionError(f"expected {expected} for {attribute.name}, got {value}")

    return attrs.field(default=default, validator=check)


@attrs.frozen(kw_only=True)
class ReplicaSettings:
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

    Raises:
        OptionError: a value is out of range.

    """

    backend: str | None = None
    model: str | None = None
    language: str | None = None
    options: tuple[str, ...] = ()
    diarizer: str | None = None
    served_name: str | None = None
    api_key_env: str | None = None
    allow_origins: tuple[str, ...] = ()
    max_sessions: int = _number(20)
    session_seconds: float = _number(3600.0)
    drain_seconds: float = _number(20.0, is_positive=False)
    min_replicas: int = _number(1)
    max_replicas: int = _number(1)
    num_cpus: float = _number(1.0, is_positive=False)
    num_gpus: float = _number(0.0, is_positive=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings against each other."""
        if self.max_replicas < self.min_replicas:
            raise OptionError(
                f"expected max_replicas of at least min_replicas ({self.min_replicas}), "
                f"got {self.max_replicas}"
            )

    @classmethod
    def parse(cls, arguments: Mapping[str, Any]) -> ReplicaSettings:
        """
        Return the settings of *arguments*, whose numbers and lists may be text.

        Lists in text are separated by commas.

        Raises:
            OptionError: an unknown name, or a value of another type.

        """
        fields = attrs.fields_dict(cls)
        if unknown := sorted(set(arguments) - set(fields)):
            raise OptionError(f"unknown argument {unknown[0]}; expected one of {', '.join(fields)}")
        values: dict[str, Any] = {
            name: _value(name, fields[name], arguments[name]) for name in arguments
        }
        return cls(**values)


def _value(name: str, field: attrs.Attribute[Any], value: object) -> object:
    """Return the argument *name* as its field needs it."""
    if isinstance(field.default, tuple):
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(item.strip() for item in items if item.strip())
        raise OptionError(f"expected a list of strings for {name}, got {value!r}")
    if field.default is None:
        if value is None or isinstance(value, str):
            return value or None
        raise OptionError(f"expected a string for {name}, got {value!r}")
    kind = type(field.default)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = kind(value)
        except (ValueError, OverflowError):  # not a number, or one out of range
            pass
        else:
            if isinstance(value, str) or number == value:
                return number
    expected = "a whole number" if kind is int else "a number"
    raise OptionError(f"expected {expected} for {name}, got {value!r}")
