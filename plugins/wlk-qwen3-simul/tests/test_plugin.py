"""The plugin's declarations are consistent, and importing them is cheap."""

from __future__ import annotations

from wlk_qwen3_simul.languages import LANGUAGES, code_of
from wlk_qwen3_simul.plugin import wlk_backends


def test_both_backends_have_the_same_options():
    """They differ only in the devices and number formats of their frameworks."""
    mlx, torch = wlk_backends()
    shared = [
        [option for option in spec.all_options if option.name not in ("device", "dtype")]
        for spec in (mlx, torch)
    ]

    assert ["qwen3-mlx-simul", "qwen3-simul"] == [mlx.name, torch.name]
    assert shared[0] == shared[1]
    assert mlx.models == torch.models
    assert ("alignatt", "local-agreement") == torch.policies == mlx.policies


def test_there_are_thirty_languages_and_every_name_has_one_code():
    """The names are those of the model card."""
    assert 30 == len(LANGUAGES) == len(set(LANGUAGES.values()))
    assert all(code == code_of(name) for code, name in LANGUAGES.items())
    assert "fil" == code_of(" filipino ")
    assert code_of("None") is None
