"""A damaged model directory is refused in one line by every backend, before it builds anything."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
import json
import math
import os
from pathlib import Path
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from model_attacks import TARGETS, attacks, copied, set_value

from wlk_core import BackendUnavailable, ModelNotFoundError, WLKError, load_backend
from wlk_core.registry import Registry, missing_requirements
from wlk_frameworks.memory import physical_memory
from wlk_live import transcribe

IS_FULL = os.environ.get("WLK_FULL") == "1"  # nox -s full
EXAMPLES = 300 if IS_FULL else 8
SLOW_CONTENTS = ("50 MB", "30 MB of lists")  # the tests of the reader have them too
SMALL_BYTES = 30_000  # a larger JSON file is a tokenizer
SECOND = np.zeros(16_000, dtype=np.float32)
MUTATIONS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 4000)
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.lists(st.integers(0, 9), max_size=3)
    | st.dictionaries(st.sampled_from(["type", "rope_type", "factor"]), st.integers(), max_size=2)
)


@cache
def is_installed(target):
    """Return whether the backend, its framework and its digits model are installed."""
    if find_spec(target.package) is None:
        return False
    specs = {spec.name: spec for spec in Registry().specs()}
    return target.backend in specs and not missing_requirements(specs[target.backend])


@pytest.fixture
def directory(target, tmp_path):
    """Return a copy of the model directory of a backend; skip if it is not installed."""
    if not is_installed(target):
        pytest.skip(f"{target.backend} is not installed")
    return copied(target, tmp_path / "model")


every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
every_attack = pytest.mark.parametrize(
    ("target", "attack"),
    [
        pytest.param(target, attack, id=f"{target.backend}: {attack.name}")
        for target in TARGETS.values()
        for attack in attacks(target)
        if IS_FULL or not any(name in attack.name for name in SLOW_CONTENTS)
    ],
)


@every_attack
def test_a_damaged_directory_is_refused_in_one_line(target, attack, directory):
    """The line names the file; if a size contradicts the weights, also the key and both sizes."""
    attack.damage(directory)

    with pytest.raises(ModelNotFoundError) as caught:
        load_backend(target.backend, str(directory))
    for part in attack.expected:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@every_target
def test_weights_larger_than_the_memory_are_refused_by_their_header(target, directory):
    """The weights are not read: the file is sparse and takes no space on the disk."""
    if target.weights == "model.bin":
        pytest.skip("its weights have another format")
    path = directory / target.weights
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:start]), content[start:]
    shape = [8, physical_memory() >> 20, 2**20]
    end = len(data) + math.prod(shape)
    header["more"] = {"dtype": "U8", "shape": shape, "data_offsets": [len(data), end]}
    path.unlink()
    packed = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(packed).to_bytes(8, "little") + packed + data)
        file.truncate(8 + len(packed) + end)

    with pytest.raises(BackendUnavailable, match=r"needs .* GB of memory, and cpu has .*; choose"):
        load_backend(target.backend, str(directory), device="cpu")


@pytest.mark.slow
@every_target
def test_any_change_of_a_file_is_a_model_or_an_error_in_one_line(target, directory):
    """No value causes an error of a framework, and none fails only after the model was loaded."""
    load_backend(target.backend, str(directory)).close()  # the unchanged copy is a sound model
    tables = tables_of(directory)
    changes = [(file, path) for file, table in tables.items() for path in paths_of(table)]

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=not IS_FULL)
    @given(st.sampled_from(changes), st.booleans(), MUTATIONS)
    def load(change, is_deletion, value):
        file, path = change
        table = json.loads(json.dumps(tables[file]))
        if is_deletion:
            delete_value(table, path)
        else:
            set_value(table, path, value)
        (directory / file).write_text(json.dumps(table), encoding="utf-8")
        try:
            backend = load_backend(target.backend, str(directory))
        except WLKError as error:
            assert "\n" not in str(error)
        else:
            with backend:
                transcribe(backend, SECOND)
        finally:
            (directory / file).write_text(json.dumps(tables[file]), encoding="utf-8")

    load()


def tables_of(directory):
    """Return the tables in the small JSON files of a directory, by file name."""
    return {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("*.json"))
        if path.stat().st_size < SMALL_BYTES and path.read_bytes().startswith(b"{")
    }


def paths_of(table, prefix=""):
    """Generate the dotted paths of all keys of a table, including those of nested tables."""
    for key, value in table.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from paths_of(value, f"{prefix}{key}.")


def delete_value(table, path):
    """Remove the value at the dotted *path* of a table."""
    *parents, key = path.split(".")
    for parent in parents:
        table = table[parent]
    del table[key]
