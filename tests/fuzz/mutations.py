"""Damage to valid bytes: what a cut, a bad disk or an attacker does to a file."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["damaged"]


class Damaged(bytes):
    """Bytes whose length is shown, because a recording is too long to be printed."""

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
        elif kind == "number":  # fields of sizes, counts and times
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
