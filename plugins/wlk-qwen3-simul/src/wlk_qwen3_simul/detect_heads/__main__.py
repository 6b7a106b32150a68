"""Entry point of `python -m wlk_qwen3_simul.detect_heads`."""

from __future__ import annotations

from wlk_qwen3_simul.detect_heads.command import main

raise SystemExit(main())
