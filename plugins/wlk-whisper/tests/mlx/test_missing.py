"""A missing or broken MLX is one line, and the other backends work without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """if True:
    from wlk_core import BackendUnavailable, load_backend

    try:
        load_backend("mlx-whisper", "digits")
    except BackendUnavailable as error:
        print(error)
    load_backend("faster-whisper", "digits").close()
"""


@pytest.mark.slow
def test_a_wheel_of_mlx_without_a_back_end_is_reported_with_a_remedy(tmp_path, monkeypatch):
    """On Linux the bare wheel of mlx fails at import: the line has the reason and the command."""
    (tmp_path / "mlx").mkdir()
    reason = "libmlx.so: cannot open shared object file: No such file or directory"
    for name in ("core", "nn", "utils"):
        text = f"raise ImportError({reason!r})"
        (tmp_path / "mlx" / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "mlx" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    (line,) = done.stdout.splitlines()
    assert "mlx-whisper cannot be used: " + reason in line
    assert "pip install 'wlk-whisper[mlx]'" in line
