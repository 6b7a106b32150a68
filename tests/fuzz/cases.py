"""
A strategy that damages valid bytes, and the number of cases per target: a profile, WLK_FUZZ.

`ci`, the default, tries the same 300 cases for each target on every run.  `full` tries
WLK_FUZZ_CASES new ones for each target, by default about a million in total, and keeps those that
failed in .nox/fuzz until they pass.  Failures are committed as an `@example` of their target.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

KEPT = Path(__file__).resolve().parents[2] / ".nox/fuzz"

# No deadline, because machines can be busy; no health checks of size, because recordings are large.
_ALL = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip
settings.register_profile("fuzz-ci", _ALL, max_examples=300, derandomize=True, database=None)
settings.register_profile(
    "fuzz-full",
    _ALL,
    max_examples=int(os.environ.get("WLK_FUZZ_CASES", "80000")),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(KEPT),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)

#: Decorates every target.
cases = settings(settings.get_profile(f"fuzz-{os.environ.get('WLK_FUZZ', 'ci')}"))


class Damaged(bytes):
    """Bytes that print as their length, because a recording is too long to print."""

    def __repr__(self):
        """Return the length; the blob that hypothesis prints has the content."""
        return f"<{len(self)} bytes>"


@st.composite
def damaged(draw, originals):
    """Draw one of *originals* with up to six places changed, removed, repeated or cut off."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 6))):
        if not data:
            break
        first = draw(st.integers(0, len(data) - 1))
        length = draw(st.integers(0, 64))
        kind = draw(st.sampled_from(["change", "number", "remove", "repeat", "insert", "cut"]))
        if kind == "change":
            data[first] ^= 1 << draw(st.integers(0, 7))
        elif kind == "number":  # for fields of sizes, counts and times
            value = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            data[first : first + 4] = bytes([value]) * 4
        elif kind == "remove":
            del data[first : first + length]
        elif kind == "repeat":
            data[first:first] = data[first : first + length] * draw(st.integers(1, 8))
        elif kind == "insert":
            data[first:first] = draw(st.binary(max_size=16))
        else:
            del data[first:]
    return Damaged(data)
