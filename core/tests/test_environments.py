from __future__ import annotations

import os
from pathlib import Path
import sys

import pytest

from wlk_core.environments import environment_elsewhere, find_pythons
from wlk_core.errors import OptionError


def virtual_environment(folder):
    """Return a folder with the Python of a virtual environment."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return folder


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_python_is_a_program_or_the_folder_of_an_environment(tmp_path):
    """A link stays one, because it decides which packages are found."""
    folder = virtual_environment(tmp_path / "venv")

    found = find_pythons(f"{sys.executable}, {folder}")

    assert [Path(sys.executable), folder / "bin" / "python"] == found


@pytest.mark.parametrize("text", ["", "/no/such/python", __file__, str(Path(__file__).parent)])
def test_anything_else_is_no_python(text):
    """The line shows how one is written."""
    with pytest.raises(OptionError, match="/path/to/venv/bin/python"):
        find_pythons(text)


def test_a_process_elsewhere_gets_no_setting_of_this_one(monkeypatch):
    """Neither its packages nor its options; the rest stays."""
    names = ("PYTHONPATH", "WLK_BACKEND", "WLK_OPTION_PYTHON", "HF_HUB_OFFLINE")
    for name in names:
        monkeypatch.setenv(name, "1")

    environment = environment_elsewhere()

    assert ["HF_HUB_OFFLINE"] == [name for name in names if name in environment]
