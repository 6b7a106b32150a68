"""The words of the project are the field's: docs/glossary.md lists them."""

from __future__ import annotations

import ast
from pathlib import Path
import re

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {"build", "dist", "site", ".nox", ".venv", ".git", ".github", "node_modules"}
# Built from parts, so that this file does not contain what it forbids.
BANNED = (
    *("h" + ending for ending in ("ear", "ears", "eard", "earing", "eed", "eeds", "eeded")),
    *("s" + ending for ending in ("ay", "ays", "aid", "aying")),
    *("t" + ending for ending in ("ell", "ells", "old", "elling")),
    *(start + "body" for start in ("no", "some")),
    *("who" + "ever", "be" + "hind"),
)
WORD = re.compile(rf"(?<![A-Za-z])({'|'.join(BANNED)})(?![A-Za-z])", re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
INVALID = re.compile(r"\bis n" + r"one\b")
# A code of a catalogue, or a numbered decision, that no file of the repository explains.
REFERENCE = re.compile(r"\b(?:defects?|scope|decision|finding) (?:[A-Z]?\d+)\b", re.IGNORECASE)
# Nouns without a type: a reader has to look up what they hold.
VAGUE = {"to" + "ld", "o" + "ne", "pla" + "ce", "as" + "ked", "gi" + "ven", "wan" + "ted"}


def files(*suffixes):
    """Return the files of the project with these suffixes."""
    found = []
    for path in sorted(ROOT.rglob("*")):
        parts = set(path.relative_to(ROOT).parts)
        if path.suffix in suffixes and not parts & SKIPPED and path != Path(__file__):
            found.append(pytest.param(path, id=str(path.relative_to(ROOT))))
    return found


def lines_that_match(path, *patterns):
    """Return the numbered lines of a file in which a pattern occurs."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        f"{number}: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if any(pattern.search(CAMEL.sub("_", line)) for pattern in patterns)
    ]


@pytest.mark.parametrize("path", files(".py", ".pyi", ".md", ".jinja", ".toml", ".html", ".js"))
def test_a_file_uses_the_words_of_the_field(path):
    """Prose and identifiers contain none of the banned words: docs/glossary.md has the others."""
    assert [] == lines_that_match(path, WORD, INVALID)


@pytest.mark.parametrize("path", files(".py", ".pyi", ".md"))
def test_a_file_refers_only_to_what_the_repository_contains(path):
    """A code of a defect, a scope line or a numbered decision can be followed by no reader."""
    assert [] == lines_that_match(path, REFERENCE)


def names_bound_in(tree):
    """Return (line, name) of every variable, parameter, attribute and function a module binds."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            found.append((node.lineno, node.arg))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append((node.lineno, node.name))
    return found


@pytest.mark.parametrize("path", files(".py"))
def test_a_name_is_a_noun_with_a_type(path):
    """A variable is called after what it holds: word, path, index, options."""
    bound = names_bound_in(ast.parse(path.read_text(encoding="utf-8")))

    assert [] == [f"{line}: {name}" for line, name in bound if name.strip("_") in VAGUE]
