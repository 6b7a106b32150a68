"""Side effects of a backend on its process: standard output, child processes and the network."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
import io
import os
import socket
import sys
import tempfile
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STDOUT = 1  # the file descriptor
#: Parts of the command lines of processes that Python and its frameworks start once and keep.
KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "resource_tracker import",
        "torch/_inductor/compile_worker")  # fmt: skip
GRACE = 1.0  # seconds for a child or thread to end after its owner was closed
BRIEF_GRACE = 0.1  # the same once a backend has leaked one, because every later check waits
TICK = 0.02  # seconds between two checks
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@contextmanager
def standard_output() -> Iterator[Callable[[], str]]:
    """Capture standard output; yields a function that returns the text after the block."""
    python = io.StringIO()
    text: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(STDOUT)
        os.dup2(file.fileno(), STDOUT)
        try:
            with redirect_stdout(python):
                yield lambda: "".join(text)
        finally:
            os.dup2(before, STDOUT)
            os.close(before)
            file.seek(0)
            text += [python.getvalue(), file.read().decode(errors="replace")]


def children() -> frozenset[psutil.Process]:
    """Return the running children of this process, which must end their own children."""
    if hasattr(os, "waitid"):  # psutil would read every process of the machine
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # there is none
            return frozenset()
    return frozenset(child for child in psutil.Process().children() if _runs(child))


def remaining(before: frozenset[psutil.Process], *, grace: float = GRACE) -> list[psutil.Process]:
    """Return the children that are new since *before* and still run after *grace* seconds."""
    limit = monotonic() + grace
    while new := children() - before:  # psutil.wait_procs would reap children
        if monotonic() > limit:
            return sorted(new, key=lambda child: child.pid)
        sleep(TICK)
    return []


def end_children(leaked: Iterable[psutil.Process]) -> str:
    """Kill the processes, so that none outlives the run; return the message of LIFE-10."""
    names = [f"{_command(child)[:60]!r} (process {child.pid})" for child in leaked]
    for child in leaked:
        with suppress(psutil.NoSuchProcess):
            child.kill()
            child.wait()
    return f"child processes still run after the backend was closed: {', '.join(names)}"


def _runs(child: psutil.Process) -> bool:
    """Return whether *child* has not ended and is not one of KEPT."""
    try:
        is_over = child.status() == psutil.STATUS_ZOMBIE  # ended, but not waited for
    except psutil.NoSuchProcess:
        return False
    command = _command(child)
    return not is_over and not any(part in command for part in KEPT)


def _command(child: psutil.Process) -> str:
    try:
        return " ".join(child.cmdline())
    except psutil.Error:
        return ""  # it has ended, or the system denies access


@contextmanager
def network_blocked(*, is_lost: bool = False) -> Iterator[list[str]]:
    """Refuse name lookups and connections, even open ones if `is_lost`; yields the attempts."""
    attempts: list[str] = []

    def refuse(*args: Any, **_kwargs: Any) -> NoReturn:
        target = [str(arg) for arg in args if not isinstance(arg, socket.socket)]
        attempts.append(" ".join(target) or "a connection")
        raise ConnectionError(f"the network is blocked by this rule: {attempts[-1]}")

    def lose(name: str) -> Callable[..., Any]:
        call = getattr(socket.socket, name)

        def refusing(connection: socket.socket, *args: Any) -> Any:
            # Event loops wake themselves through pairs of local sockets.
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return call(connection, *args)
            refuse(name)

        return refusing

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, OFFLINE))
        for owner, name in (
            (socket.socket, "connect"),
            (socket.socket, "connect_ex"),
            (socket, "create_connection"),
            (socket, "getaddrinfo"),
        ):
            stack.enter_context(mock.patch.object(owner, name, refuse))
        if is_lost:
            for name in ("send", "sendall", "recv", "recv_into"):
                stack.enter_context(mock.patch.object(socket.socket, name, lose(name)))
        yield attempts
