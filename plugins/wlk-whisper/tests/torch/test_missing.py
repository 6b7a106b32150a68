"""A broken torch is one line, and the other backends work without it."""

from __future__ import annotations

from importlib.util import find_spec
import subprocess
import sys

import pytest

CODE = """if True:
    from wlk_core import BackendUnavailable, load_backend

    try:
        load_backend("whisper", "digits")
    except BackendUnavailable as error:
        print(error)
    load_backend("faster-whisper", "digits").close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("error", ["OSError", "RuntimeError", "AttributeError"])
def test_a_framework_that_fails_at_import_is_reported_with_a_remedy(tmp_path, monkeypatch, error):
    """A library built for another torch raises anything at import; the line has the reason."""
    if find_spec("torch") is None:
        pytest.skip("torch is missing: there is nothing to be built for another one")
    (tmp_path / "transformers").mkdir()
    text = f"raise {error}('libtorchaudio.so: undefined symbol')"
    (tmp_path / "transformers" / "__init__.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    (line,) = done.stdout.splitlines()
    assert "backend whisper cannot be used" in line
    assert "libtorchaudio.so: undefined symbol" in line
    assert "pip install" in line
