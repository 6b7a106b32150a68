"""Convert between samples, mel frames, audio tokens and alignment frames of Qwen3-ASR."""

from __future__ import annotations

from wlk_core.plugins import SAMPLE_RATE

HOP_SAMPLES = 160  # samples between two mel frames: 10 ms
LEAD_SAMPLES = 40  # zeros before an utterance; mel frame 99 reaches 40 samples into the next second
SECOND_MEL_FRAMES = 100  # mel frames per second; the encoder convolves each second alone
TOKEN_MEL_FRAMES = 8  # mel frames of one audio token: 80 ms
SECOND_TOKENS = 13  # audio tokens per second; the last one stands for half a stride, 40 ms

#: An alignment frame of 40 ms: both lengths of an audio token, 80 and 40 ms, are whole frames.
FRAME_SAMPLES = 640
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE
_FRAMES_PER_SECOND = SAMPLE_RATE // FRAME_SAMPLES


def token_count(mel_frames: int) -> int:
    """Return how many audio tokens the encoder emits for *mel_frames* mel frames."""
    seconds, rest = divmod(mel_frames, SECOND_MEL_FRAMES)
    return seconds * SECOND_TOKENS + -(-rest // TOKEN_MEL_FRAMES)


def frame_of_token(token: int) -> int:
    """
    Return the alignment frame at which audio token number *token* of a window begins.

    The result is exact: tokens are 80 ms apart within a second, and every second starts anew.
    """
    second, index = divmod(token, SECOND_TOKENS)
    return second * _FRAMES_PER_SECOND + 2 * index
