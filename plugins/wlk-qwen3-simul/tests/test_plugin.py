"""The plugin's declarations are consistent, and importing them is cheap."""

from __future__ import annotations

from importlib.util import find_spec
import subprocess
import sys

import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError, load_backend
from wlk_qwen3_simul.plugin import wlk_backends

NAMES = ["qwen3-mlx-simul", "qwen3-simul"]


def test_both_backends_have_the_same_options():
    """They differ only in the devices and number formats of their frameworks."""
    mlx, torch = wlk_backends()
    shared = [
        [option for option in spec.all_options if option.name not in ("device", "dtype")]
        for spec in (mlx, torch)
    ]

    assert NAMES == [mlx.name, torch.name]
    assert shared[0] == shared[1]
    assert mlx.models == torch.models
    assert 30 == len(torch.languages)
    assert ("alignatt", "local-agreement") == torch.policies == mlx.policies


@pytest.mark.parametrize("spec", wlk_backends(), ids=NAMES)
def test_an_unknown_language_is_refused_with_the_list(spec):
    """Codes must be those declared; similar codes are not guessed."""
    for wrong in ("en-US", "EN", "uk", "english"):
        with pytest.raises(OptionError, match=r"expected one of: ar, cs, .* yue, zh"):
            spec.check_language(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_size_is_refused_with_the_list(name):
    """No similar model is loaded instead, and no network is used."""
    with pytest.raises((ModelNotFoundError, BackendUnavailable), match=r"0\.6b|pip install"):
        load_backend(name, "0.5b")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package", "error"),
    [
        ("qwen3-simul", "transformers", "ImportError"),
        ("qwen3-simul", "torch", "OSError"),
        ("qwen3-mlx-simul", "mlx_qwen3_asr", "RuntimeError"),
    ],
)
def test_a_broken_framework_is_reported_with_what_installs_it(
    name, package, error, tmp_path, monkeypatch
):
    """The message is one line with the reason and the command, whatever the import raises."""
    framework = {"transformers": "torch", "mlx_qwen3_asr": "mlx"}.get(package)
    if framework is not None and find_spec(framework) is None:
        pytest.skip(f"{framework} is missing, and its import fails before that of {package}")
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(
        f"raise {error}('broken wheel')", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = f"""if True:
        from wlk_core import BackendUnavailable, load_backend
        try:
            load_backend({name!r}, "digits")
        except BackendUnavailable as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    (line,) = done.stdout.splitlines()
    assert "broken wheel" in line
    assert "pip install 'wlk-qwen3-simul[" in line
