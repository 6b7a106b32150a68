"""What plugins and their libraries print and raise while a command transcribes."""

from __future__ import annotations

import json

import pytest


def noisy(site, folder="wlk_toy_plugin.py"):
    """Make the plugin and the engine of the site print."""
    for name in (folder, "toy_engine.py"):
        path = site.folder / name
        code = path.read_text()
        code = code.replace("from __future__ import annotations\n", "")
        code = code.replace("def wlk_backends():", "def wlk_backends():\n    print('in the hook')")
        code = code.replace(
            "def load(spec, model):", "def load(spec, model):\n    print('in load')"
        )
        code = code.replace("        del prompt\n", "        print('in the engine')\n")
        path.write_text("from __future__ import annotations\nprint('at import')\n" + code)


def test_what_a_plugin_prints_is_not_part_of_the_result(site, command, recording):
    """JSON on standard output is JSON, whatever a plugin prints and when."""
    noisy(site)

    done = command("transcribe", "--no-vad", recording("a.wav", 1, 2), "--format", "json")

    assert json.loads(done.out)["text"] == "one two"
    for text in ("at import", "in the hook", "in load", "in the engine"):
        assert text in done.err


@pytest.mark.slow
def test_what_a_library_writes_to_the_descriptor_is_not_part_of_the_result(site, spawn, recording):
    """C libraries, and programs that a plugin starts, bypass Python's streams."""
    path = site.folder / "toy_engine.py"
    code = path.read_text().replace(
        "        del prompt\n", "        import os\n        os.write(1, b'in C\\n')\n"
    )
    path.write_text(code)

    process = spawn("transcribe", "--no-vad", "--backend", "toy", recording("a.wav", 1, 2))
    out, err = process.communicate()

    assert (process.returncode, out) == (0, b"one two\n")
    assert b"in C" in err


def test_an_error_of_a_loader_names_its_plugin(site, command, recording):
    """A defect in a plugin is not mistaken for a defect in wlk-core."""
    path = site.folder / "toy_engine.py"
    path.write_text(path.read_text().replace(
        'if model != "digits":', 'raise RuntimeError("damaged")\n    if model != "digits":'
    ))  # fmt: skip

    done = command("transcribe", "--no-vad", recording("a.wav", 1))

    assert done.err == (
        "wlk-core: RuntimeError: damaged, raised by the loader of backend toy of wlk-toy "
        "(a defect; get the traceback with WLK_TRACEBACK=1)\n"
    )
