"""The pages install the packages in one style, and what they say works as a reader types it."""

from __future__ import annotations

import os
from pathlib import Path
import re
import shlex
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ("README.md", "docs/first-transcript.md", "docs/first-service.md")
PAGES = (
    *TUTORIALS,
    *sorted({f"docs/{path.name}" for path in ROOT.glob("docs/*.md")} - {*TUTORIALS}),
    "CONTRIBUTING.md",
)
READMES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*/README.md", "plugins/*/README.md", "examples/*/README.md")
    for path in ROOT.glob(pattern)
)
PROJECTS = {
    path.parent.relative_to(ROOT).as_posix(): tomllib.loads(path.read_text("utf-8"))["project"]
    for pattern in ("*/pyproject.toml", "plugins/*/pyproject.toml")
    for path in sorted(ROOT.glob(pattern))
}
DISTRIBUTIONS = {project["name"]: project for project in PROJECTS.values()}
OLDEST_PIP = "23.2.1"  # that of Python 3.11
# Packages that take long to install, and those that bring such packages.
LARGE = {"mlx-qwen3-asr", "mlx-whisper", "peft", "ray", "torch", "transformers", "voxmlx"}
LARGE |= {"matplotlib", "scipy"}

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# Variables that would change what pip installs and what the commands do.
FOREIGN = {"PIP_FIND_LINKS", "PIP_CONSTRAINT", "PYTHONPATH", "VIRTUAL_ENV"}
INSTALL = re.compile(r"\bpip install [^`\"\n|]+")


def read(page):
    """Return the text of a page, with continued lines joined."""
    return (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")


def blocks(page):
    """Return the code blocks of a page: the comment before each, its language, its text."""
    return [block.group("mark", "kind", "text") for block in BLOCK.finditer(read(page))]


def installs(page):
    """Return what follows each `pip install` of a page, in blocks and in sentences."""
    return [found.removeprefix("pip install ").strip() for found in INSTALL.findall(read(page))]


def requirements(arguments):
    """Return what the arguments of `pip install` request, without options and ordinary words."""
    words = shlex.split(arguments, comments=True)
    return [Requirement(word) for word in words if re.match(r"wlk-[a-z0-9-]+(\[|$)", word)]


def brings_large_packages(requirement, seen=frozenset()):
    """Return whether a requirement brings any of LARGE, through other distributions too."""
    if requirement.name in LARGE:
        return True
    project = DISTRIBUTIONS.get(requirement.name)
    if project is None or str(requirement) in seen:
        return False
    extras = project.get("optional-dependencies", {})
    declared = [*project["dependencies"]]
    declared += [each for extra in requirement.extras for each in extras[extra]]
    seen = seen | {str(requirement)}
    return any(brings_large_packages(Requirement(each), seen) for each in declared)


@pytest.mark.parametrize("page", [*PAGES, *READMES])
def test_a_page_installs_by_name(page):
    """No page has a constraint, or the folder of a distribution where users install."""
    text = read(page)

    assert "constraint" not in "".join(installs(page))
    assert "PIP_CONSTRAINT" not in text
    for arguments in installs(page):
        words = shlex.split(arguments, comments=True)
        is_editable = page == "CONTRIBUTING.md" and "-e" in words
        folders = {word.removeprefix("./").partition("[")[0].rstrip("/") for word in words}
        assert is_editable or not folders & {*PROJECTS}, arguments


@pytest.mark.parametrize("page", [*PAGES, *READMES])
def test_a_page_names_packages_and_extras_that_exist(page):
    """A misspelt name or extra of this project would be found by no other test."""
    for arguments in installs(page):
        for requirement in requirements(arguments):
            if requirement.name != "wlk-parakeet":  # the example of docs/writing-a-backend.md
                assert requirement.name in DISTRIBUTIONS, arguments
                extras = DISTRIBUTIONS[requirement.name].get("optional-dependencies", {})
                assert requirement.extras <= {*extras}, arguments


@pytest.mark.parametrize("page", [*PAGES, *READMES])
def test_a_line_can_be_typed_in_zsh(page):
    """Extras are quoted and lines have no comments: zsh expands brackets and passes comments on."""
    unquoted = [a for a in installs(page) if re.search(r"(?:^|\s)[\w-]+\[", a)]
    typed = "".join(text for _, kind, text in blocks(page) if kind in {"sh", "console"})
    lines = [*typed.splitlines(), *installs(page)]
    commented = [line for line in lines if re.search(r"(^|\s)#", line)]

    assert unquoted == []
    assert commented == []


def test_the_wheels_of_every_distribution_are_built():
    """The lines before the first install are the same on both pages, and name every folder."""
    pages = ("README.md", "docs/install.md")
    before = [text for page in pages for _, _, text in blocks(page) if "pip wheel" in text]
    (command,) = (line for line in before[0].splitlines() if line.startswith("pip wheel"))
    folders = [word for word in shlex.split(command) if word.startswith("./")]

    assert before == [before[0]] * len(pages)
    named = {path for folder in folders for path in ROOT.glob(f"{folder}/pyproject.toml")}
    assert named == {ROOT / folder / "pyproject.toml" for folder in PROJECTS}


def typed_commands(page):
    """Return the commands of a page that need no more than the package index, in order."""
    commands = []
    for mark, kind, text in blocks(page):
        if mark not in {None, "needs: the plugin above"}:
            continue
        if kind == "sh":
            # docs/tests runs what the other pages have besides.
            is_wanted = page in TUTORIALS or mark is not None
            starts = ("",) if is_wanted else ("pip install", "copier")
            commands += [line for line in text.splitlines() if line.startswith(starts)]
        elif kind == "console" and page in TUTORIALS:  # a command that fails, and its answer
            command = text.splitlines()[0].removeprefix("$ ")
            commands.append(f"{{ {command} || echo status $?; }} > answer.txt 2>&1")
        elif kind == "python" and page in TUTORIALS:
            commands.append(f"python - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK")
    return [command for command in commands if not is_large(command)]


def is_large(command):
    """Return whether a command installs packages that are too large for this test."""
    is_install = command.startswith("pip install")
    return is_install and any(map(brings_large_packages, requirements(command)))


@pytest.fixture
def checkout(tmp_path):
    """Return a folder with links to what a reader uses of a checkout, and nothing built in it."""
    for folder in ("examples", *PROJECTS):
        link = tmp_path / "checkout" / folder
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(ROOT / folder, target_is_directory=True)
    return tmp_path / "checkout"


@pytest.fixture
def environment(tmp_path):
    """Return the variables of a new shell, in which python3 is that of the tests."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(Path(sys.executable).resolve())
    own = {
        "PATH": f"{tmp_path / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "WLK_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",  # no command that is typed needs a model of the hub
        "OMP_NUM_THREADS": "1",
        "PIP_NO_COMPILE": "1",  # most of what is installed is never imported
        "PIP_QUIET": "1",
    }
    return {name: value for name, value in os.environ.items() if name not in FOREIGN} | own


@pytest.mark.slow
def test_the_pages_work_as_a_reader_types_them(checkout, environment):
    """The commands of all pages work in their order in one shell, with the oldest pip."""
    script = ["set -e", "exec < /dev/null"]
    for page in (page for page in PAGES if page not in {"docs/install.md", "CONTRIBUTING.md"}):
        for command in typed_commands(page):
            if command in script and page not in TUTORIALS:
                continue  # many pages begin with the same packages
            script += [f"echo {shlex.quote(f'{page}: {command}')}", command]
            if "activate" in command:  # the first line of the first page
                script += [f".venv/bin/python -m pip install -q pip=={OLDEST_PIP}", "hash -r"]

    done = subprocess.run(
        ["/bin/bash", "-c", "\n".join(script)],
        cwd=checkout, env=environment, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip

    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    (answer,) = (text for _, kind, text in blocks("README.md") if kind == "console")
    expected = answer.splitlines()[1:]
    assert (checkout / "answer.txt").read_text("utf-8").splitlines() == [*expected, "status 2"]
