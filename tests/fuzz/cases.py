"""
How many cases a target is tried with: a profile of hypothesis, named by WLK_FUZZ.

`ci`, the default, tries the same 300 for each target on every run.  `dev` tries a few.  `full`
tries WLK_FUZZ_CASES new ones for each target, a million together by default, and keeps those that
failed in .nox/fuzz until they pass.  What it finds is committed as an `@example` of its target.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

__all__ = ["FULL_CASES", "cases"]

FULL_CASES = 1_000_000  # of all targets together
TARGETS = sum(
    path.read_text(encoding="utf-8").count("\n@cases\n")
    for path in Path(__file__).parent.glob("test_*.py")
)
KEPT = Path(__file__).resolve().parents[2] / ".nox/fuzz"

# A case may take as long as a busy machine needs, and recordings are large.
_ALL = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip
settings.register_profile("fuzz-dev", _ALL, max_examples=25, derandomize=True, database=None)
settings.register_profile("fuzz-ci", _ALL, max_examples=300, derandomize=True, database=None)
settings.register_profile(
    "fuzz-full",
    _ALL,
    max_examples=int(os.environ.get("WLK_FUZZ_CASES", FULL_CASES // TARGETS)),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(KEPT),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)

#: The decorator of a target.
cases = settings(settings.get_profile(f"fuzz-{os.environ.get('WLK_FUZZ', 'ci')}"))
