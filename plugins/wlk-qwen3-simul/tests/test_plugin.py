"""The plugin's declarations are consistent, and importing them is cheap."""

from __future__ import annotations

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
