"""A plugin loads a model of transformers without output, and leaves its switches as they were."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", exc_type=ImportError)

from transformers.utils import logging

from wlk_frameworks.transformers import quiet_loading


@pytest.mark.parametrize("has_bars", [True, False])
def test_bars_and_logs_are_off_while_a_model_is_loaded(*, has_bars: bool) -> None:
    """Both are restored even if loading fails."""
    had_bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    (logging.enable_progress_bar if has_bars else logging.disable_progress_bar)()
    logging.set_verbosity_info()
    try:
        with pytest.raises(RuntimeError, match="damaged"), quiet_loading():
            during = logging.is_progress_bar_enabled(), logging.get_verbosity()
            raise RuntimeError("damaged")
        after = logging.is_progress_bar_enabled(), logging.get_verbosity()
    finally:
        (logging.enable_progress_bar if had_bars else logging.disable_progress_bar)()
        logging.set_verbosity(level)

    assert during == (False, logging.ERROR)
    assert after == (has_bars, logging.INFO)
