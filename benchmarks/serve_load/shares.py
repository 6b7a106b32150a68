"""What used the cores while a server was measured, and how long its threads waited for one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from wlk_bench.environment import machine_cpu_seconds

if TYPE_CHECKING:
    from serve_load.process import Process

__all__ = ["Reading", "Shares", "read_clocks"]


@attrs.frozen(kw_only=True)
class Shares:
    """
    Mean numbers of cores: of the server, of this process, which speaks, and of all others.

    `waiting` is how many threads of the server had work and no core, on the average.
    """

    server: float
    generator: float
    others: float
    waiting: float


@attrs.frozen(kw_only=True)
class Reading:
    """The clocks at one moment, in seconds; all but `wall` are processor time."""

    wall: float
    server: float
    waiting: float  # for a core
    generator: float
    machine: float

    def since(self, first: Reading) -> Shares:
        """Return the shares of the time from *first* to this reading."""
        seconds = self.wall - first.wall
        server, generator = self.server - first.server, self.generator - first.generator
        others = self.machine - first.machine - server - generator
        return Shares(
            server=server / seconds,
            generator=generator / seconds,
            others=max(0.0, others / seconds),
            waiting=max(0.0, (self.waiting - first.waiting) / seconds),
        )


def read_clocks(process: Process) -> Reading:
    """Read the clocks of this process, which speaks, of the server and of the machine."""
    return Reading(
        wall=time.monotonic(),
        server=process.cpu_seconds,
        waiting=process.waiting_seconds,
        generator=time.process_time(),
        machine=machine_cpu_seconds() or 0.0,
    )
