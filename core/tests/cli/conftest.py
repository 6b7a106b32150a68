"""A command line over one installed backend, which reads coded audio, and recordings for it."""

from __future__ import annotations

from importlib import metadata
import os
from pathlib import Path
import signal
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import wlk_core
from wlk_core.cli.main import execute
from wlk_core.registry import Registry
from wlk_core.testing import CodedToken, encode

PLUGIN = """
import attrs
from wlk_core import hookimpl
from wlk_core.testing.scripted_spec import SCRIPTED_SPEC

@hookimpl
def wlk_backends():
    yield attrs.evolve(SCRIPTED_SPEC, name="toy", preference=1)
"""


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Site:
    """A folder of installed plugins."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, distribution, name, code):
        """Install a plugin of one module."""
        module = f"{distribution.replace('-', '_')}_cli_plugin"
        (self.folder / f"{module}.py").write_text(code, encoding="utf-8")
        info = self.folder / f"{distribution.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[wlk.plugins]\n{name} = {module}\n", encoding="utf-8"
        )

    def registry(self):
        """Return a registry that sees these plugins and no other."""
        found = metadata.distributions(path=[str(self.folder)])
        return Registry(point for one in found for point in one.entry_points)

    @property
    def environment(self):
        """The environment of a process that sees these plugins too."""
        source = Path(wlk_core.__file__).parents[1]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), str(source)])}


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch, tmp_path):
    """Keep the caches and switches of whoever runs the tests out of them."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "wlk"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("HF_HUB_OFFLINE", "WLK_STRICT_PLUGINS", "WLK_TRACEBACK"):
        monkeypatch.setenv(name, "")  # so that it is restored, whoever sets it


@pytest.fixture
def empty_site(tmp_path, monkeypatch):
    """Return a site without plugins."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if name.endswith("_cli_plugin"):
            del sys.modules[name]


@pytest.fixture
def site(empty_site):
    """Return a site with the backend "toy"."""
    empty_site.install("wlk-toy", "toy", PLUGIN)
    return empty_site


@pytest.fixture
def command(site, capsys):
    """Return a function that runs one command line in this process."""

    def run(*arguments):
        capsys.readouterr()
        status = execute([str(argument) for argument in arguments], site.registry())
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def spawn(site):
    """Return a function that starts one command line in a process of its own."""
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "wlk_core", *map(str, arguments)],
            env=site.environment,
            stdin=subprocess.PIPE,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            # A shell's background jobs ignore Ctrl-C, and so would their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def said():
    """Return a function that codes digits of 0.24 s, the first at 0.08 s, then every 0.48 s."""

    def code(*digits):
        tokens = [CodedToken(digit + 1, 1 + 6 * place) for place, digit in enumerate(digits)]
        return encode(tokens, cells=6 * len(digits) + 1)

    return code


@pytest.fixture
def wav():
    """Return a function that puts float32 samples into the bytes of a wav file, bit for bit."""

    def pack(audio):
        data = np.asarray(audio, dtype="<f4").tobytes()
        head = b"fmt " + (16).to_bytes(4, "little")
        head += np.array([3, 1], "<u2").tobytes() + np.array([16000, 64000], "<u4").tobytes()
        head += np.array([4, 32], "<u2").tobytes() + b"data" + len(data).to_bytes(4, "little")
        return b"RIFF" + (4 + len(head) + len(data)).to_bytes(4, "little") + b"WAVE" + head + data

    return pack


@pytest.fixture
def save(tmp_path, wav):
    """Return a function that writes pieces of audio as one recording and returns its path."""

    def write(name, *pieces):
        path = tmp_path / name
        path.write_bytes(wav(np.concatenate(pieces)))
        return path

    return write


@pytest.fixture
def recording(save, said):
    """Return a function that writes a recording of digits and returns its path."""
    return lambda name, *digits: save(name, said(*digits))
