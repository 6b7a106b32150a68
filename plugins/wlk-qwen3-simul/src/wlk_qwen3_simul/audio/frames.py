"""How samples, mel frames and audio tokens of Qwen3-ASR count against one another."""

from __future__ import annotations

__all__ = [
    "CHUNK_FRAMES",
    "CHUNK_TOKENS",
    "FRAME_SAMPLES",
    "HOP",
    "LEAD_SAMPLES",
    "RATE",
    "STRIDE",
    "token_count",
    "token_frame",
]

RATE = 16_000
HOP = 160  # samples from one mel frame to the next: 10 ms
LEAD_SAMPLES = 40  # of silence in front of a run: frame 99 reaches 40 samples into the next second
CHUNK_FRAMES = 100  # mel frames that are convolved together: one second
STRIDE = 8  # mel frames to one token
CHUNK_TOKENS = 13  # tokens of a chunk; the last one stands for half a stride only

#: The unit in which both a token (80 ms) and the last one of a second (40 ms) are whole.
FRAME_SAMPLES = 640
_FRAMES_A_SECOND = RATE // FRAME_SAMPLES


def token_count(frames: int) -> int:
    """Return how many tokens the encoder makes of so many mel frames."""
    whole, rest = divmod(frames, CHUNK_FRAMES)
    return whole * CHUNK_TOKENS + -(-rest // STRIDE)


def token_frame(token: int) -> int:
    """
    Return where a token begins, in frames of FRAME_SAMPLES from the start of its window.

    Exact: tokens lie 80 ms apart within each second and begin anew with the next.
    """
    second, place = divmod(token, CHUNK_TOKENS)
    return second * _FRAMES_A_SECOND + 2 * place
