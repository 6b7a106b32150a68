"""Side effects of a backend: standard output, processes, the network, and state of its process."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
import gc
import io
import locale
import logging
import os
from pathlib import Path
import pickle
import random
import signal
import socket
import sys
import tempfile
import threading
from time import sleep
import tracemalloc
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

import numpy as np
import psutil

from wlk_conformance.stalls import ends_in_time, has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

STDOUT = 1  # the file descriptor
#: Parts of the command lines of processes that Python and its frameworks start once and keep.
KEPT = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "resource_tracker import",
        "torch/_inductor/compile_worker")  # fmt: skip
GRACE = 1.0  # seconds for a child or thread to end after its owner was closed
BRIEF_GRACE = 0.1  # the same once a backend has leaked one, because every later check waits
TICK = 0.02  # seconds between two checks
VARIABLE = " in the environment"
IMPORTED = ("TORCHINDUCTOR_", "KMP_")  # variables that frameworks set when they are imported
FILES = Path("/proc/self/fd")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def process_state() -> dict[str, object]:
    """Return the state that all parts of a process share, by what it is called in a message."""
    root = logging.getLogger()
    state: dict[str, object] = {
        "the working directory": _working_directory(),
        "the level of the root logger": root.level,
        "the handlers of the root logger": [*root.handlers],
        "the level below which logging is disabled": logging.root.manager.disable,
        "the default timeout of sockets": socket.getdefaulttimeout(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "how numpy treats floating-point errors": np.geterr(),
        "whether garbage is collected": gc.isenabled(),
        "the recursion limit": sys.getrecursionlimit(),
        "the switch interval of threads": sys.getswitchinterval(),
        "the stack size of new threads": threading.stack_size(),
        "sys.excepthook": sys.excepthook,
        "threading.excepthook": threading.excepthook,
    }
    for number in sorted(signal.valid_signals()):
        state[f"the handler of signal {int(number)}"] = signal.getsignal(number)
    for name, value in os.environ.items():
        state[name + VARIABLE] = value
    if (torch := sys.modules.get("torch")) is not None:
        state["the number of threads of torch"] = torch.get_num_threads()
        state["the default dtype of torch"] = torch.get_default_dtype()
        state["whether torch records gradients"] = torch.is_grad_enabled()
        state["the default device of torch"] = str(torch.get_default_device())
        state["how precisely torch multiplies"] = torch.get_float32_matmul_precision()
    return state


@contextmanager
def unusual_process() -> Iterator[None]:
    """Change what a backend may put back to a default instead of to what it was."""
    root = logging.getLogger()
    with ExitStack() as restored, np.errstate(under="warn"):
        restored.callback(socket.setdefaulttimeout, socket.getdefaulttimeout())
        socket.setdefaulttimeout(3600.0)
        restored.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        restored.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(sys.getswitchinterval() / 2)
        restored.callback(root.setLevel, root.level)
        root.setLevel(logging.CRITICAL - 1)
        yield


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "one that does not exist any more"


def changed_state(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """
    Return what is another in *after* than in *before*, with both values.

    State of a framework that was imported between is not compared, nor are the variables IMPORTED,
    because both come with the import.
    """
    changes = []
    for name in {**before, **after}:
        was, now = before.get(name), after.get(name)
        is_added = name not in before
        if is_added and (not name.endswith(VARIABLE) or name.startswith(IMPORTED)):
            continue
        if now != was:
            changes.append(f"{name} was {was!r}, and is {now!r}")
    return changes


#: Global generators of random numbers: how to seed, save and restore each.
GENERATORS: dict[str, tuple[Any, Any, Any]] = {
    "random": (random.seed, random.getstate, random.setstate),
    "numpy.random": (np.random.seed, np.random.get_state, np.random.set_state),
}


def seeded_by(call: Callable[[], object]) -> list[str]:
    """
    Return the global generators of random numbers that *call* seeds; it is made twice.

    Drawing numbers is allowed, seeding is not, because the program draws from the same generators.
    A generator was seeded if it ends in the same state whatever state it began in.
    """
    generators = dict(GENERATORS)
    if (torch := sys.modules.get("torch")) is not None:
        generators["torch"] = (torch.manual_seed, torch.get_rng_state, torch.set_rng_state)
    saved = {name: save() for name, (_, save, _) in generators.items()}
    ends: list[dict[str, bytes]] = []
    try:
        for number in (1, 2):
            for seed, _, _ in generators.values():
                seed(number)
            call()
            ends.append({name: pickle.dumps(save()) for name, (_, save, _) in generators.items()})
    finally:
        for name, (_, _, restore) in generators.items():
            restore(saved[name])
    return [name for name in generators if ends[0][name] == ends[1][name]]


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

    def ended(seconds: float) -> bool:  # psutil.wait_procs would reap children
        if children() <= before:
            return True
        sleep(min(TICK, seconds))
        return False

    is_over = ends_in_time(grace, ended)
    return [] if is_over else sorted(children() - before, key=lambda child: child.pid)


def end_children(leaked: Iterable[psutil.Process]) -> str:
    """Kill the processes, so that none outlives the run; return the message of LIFE-10."""
    names = [f"{_command(child)[:60]!r} (process {child.pid})" for child in leaked]
    for child in leaked:
        with suppress(psutil.NoSuchProcess):
            child.kill()
            child.wait()
    return f"child processes still run after the backend was closed: {', '.join(names)}"


def remaining_threads(before: set[threading.Thread], *, grace: float = GRACE) -> list[str]:
    """Return the names of the threads that are new since *before* and alive after *grace* s."""
    new = set(threading.enumerate()) - before
    ends_in_time(grace, lambda seconds: all(has_ended(each, seconds) for each in new))
    return sorted(thread.name for thread in set(threading.enumerate()) - before)


@contextmanager
def memory_traced() -> Iterator[Callable[[], int]]:
    """Trace the memory of Python; yields a function that returns the bytes in use."""

    def in_use() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    gc.freeze()  # else each collection searches everything that a framework imported
    tracemalloc.start(1)
    try:
        yield in_use
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def open_files() -> int:
    """Return the number of files that this process has open, 0 where the system does not tell."""
    return len(list(FILES.iterdir())) if FILES.is_dir() else 0


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
def _offline() -> Iterator[None]:
    """Set OFFLINE, and put back nothing else: another variable that is changed is a finding."""
    before = {name: os.environ.get(name) for name in OFFLINE}
    os.environ.update(OFFLINE)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


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
        stack.enter_context(_offline())
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
