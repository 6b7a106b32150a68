"""Every plugin is laid out after one plan: see docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path
import tomllib

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "__init__.py",
    "plugin.py",  # the specs and the hook: constant data
    "options.py",  # options that are the plugin's own
    "models.py",  # size aliases
    "languages.py",  # language codes
    "checkpoint.py",  # what a checkpoint declares
    "backend.py",  # from engine and stream config to a recognizer
    "py.typed",
}
ROOMS = {
    "engine",  # decoding without a framework
    "torch",
    "mlx",
    "ctranslate2",
    "openai_api",
    "digits",  # the bundled checkpoint
    "heads",  # published alignment heads
    "detect_heads",  # a command of wlk-qwen3-simul
    "realtime",  # clients of servers
}
FRAMEWORKS = ("torch", "mlx", "transformers", "ctranslate2", "faster_whisper", "openai", "numpy")
LIGHT = {"plugin.py", "options.py", "models.py", "languages.py"}
SHARED = {"wlk-voxtral", "wlk-whisper-digits"}  # no plugins: parts and data that plugins depend on


def packages():
    """Return the import package of every plugin distribution."""
    found = [path for path in sorted(ROOT.glob("plugins/*/src/*")) if path.is_dir()]
    return [
        pytest.param(path, id=path.parents[1].name)
        for path in found
        if not path.name.endswith(".egg-info")
    ]


def plugins():
    """Return the packages that offer backends."""
    others = {*SHARED, *(package.id for package in protocols())}
    return [package for package in packages() if package.id not in others]


def protocols():
    """Return the packages that offer protocols of wlk-serve."""
    return [package for package in packages() if package.id.startswith("wlk-protocol-")]


def imports_of(path):
    """Return the modules a file imports, at any depth, types-only imports left out."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


@pytest.mark.parametrize("package", plugins())
def test_a_plugin_has_the_files_and_folders_of_the_plan(package):
    """A reader who knows one plugin finds every part of another."""
    entries = [entry for entry in package.iterdir() if entry.name != "__pycache__"]
    files = {entry.name for entry in entries if entry.is_file()}
    rooms = {entry.name for entry in entries if entry.is_dir()}

    assert set() == files - FILES
    assert set() == rooms - ROOMS
    assert {"__init__.py", "plugin.py", "py.typed"} <= files


@pytest.mark.parametrize("package", protocols())
def test_the_hook_of_a_protocol_is_in_its_routes(package):
    """What its clients send and receive is in files beside it."""
    files = {entry.name for entry in package.iterdir() if entry.is_file()}
    project = tomllib.loads((package.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

    assert {"__init__.py", "py.typed", "routes.py"} < files
    points = project["project"]["entry-points"]["wlk.protocols"]
    assert {f"{package.name}.routes"} == set(points.values())


@pytest.mark.parametrize("package", plugins())
def test_the_declaration_of_a_plugin_imports_nothing_heavy(package):
    """plugin.py and the constants beside it import the core's names for authors and each other."""
    own = {f"{package.name}.{name.removesuffix('.py')}" for name in LIGHT}
    allowed = {"__future__", "collections.abc", "platform", "typing", "wlk_core.plugins", "attrs"}
    allowed |= own | {package.name, "wlk_core.languages", "wlk_voxtral.specs"}
    for name in sorted(LIGHT):
        if (package / name).is_file():
            assert set() == set(imports_of(package / name)) - allowed, name


@pytest.mark.parametrize("package", plugins())
def test_a_framework_is_imported_in_its_folder_only(package):
    """The engine room of a plugin runs on any framework: each of these has a folder of its own."""
    heavy = set(FRAMEWORKS) - {"numpy"}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        if room in {"torch", "mlx", "ctranslate2", "openai_api", "detect_heads"}:
            continue
        found = {name.split(".")[0] for name in imports_of(path)}
        assert set() == found & heavy, path


def test_a_plugin_installs_by_name_from_the_checkout():
    """constraints.txt names the folder of every distribution, so that pip needs no siblings."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    named = {line.split(" @ file:./")[0]: line.split(" @ file:./")[1] for line in lines[2:]}
    folders = [path.parent for path in ROOT.glob("*/pyproject.toml")]
    folders += [path.parent for path in ROOT.glob("plugins/*/pyproject.toml")]

    assert named == {
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "name"
        ]: folder.relative_to(ROOT).as_posix()
        for folder in folders
    }
