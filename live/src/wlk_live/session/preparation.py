"""Bound the work of decoding ends of utterances in advance."""

from __future__ import annotations

from wlk_core.processor import SAMPLE_RATE

# A preparation costs what a tick of a policy costs, of which Whisper has 120 a minute by default:
# the bound is a tenth of the calls.  In 40 sentences, preparations added 4 % (silence of 0.2 s) to
# 5 % (0.5 s) of the encoder's frames.
_SECONDS_EACH = 5.0  # of the stream, for each preparation in vain
_MAX_ALLOWED = 2.0  # preparations in vain in a row
# The shares of the silence after which few preparations are in vain, the second one after a pause
# that is long for the inside of a sentence: Flux ends turns eagerly some time before the silence is
# certain, and needs their words by then.
_NEAR, _NEAR_LONG = 0.6, 0.5
_LONG_PAUSE = 0.4  # seconds


class Preparation:
    """
    Decide in which quiets the end of an utterance is decoded in advance.

    That is in the first moments of a quiet, unless too much of this work was in vain lately,
    because speech went on; then it waits until the silence is likely.
    Positions are samples: those that the session received, and those that its processor was given.
    """

    def __init__(self) -> None:
        self._allowed = _MAX_ALLOWED
        self._received = 0
        self._prepared: int | None = None  # the processor's position when it last prepared a flush
        self._cost = 0.0  # what that took of the allowance

    def is_due(
        self, position: int, received: int, *, quiet: float, quiet_share: float, is_likely: bool
    ) -> bool:
        """
        Return whether to decode now, after *quiet* seconds, *quiet_share* of the silence.

        With *is_likely* the quiet is probably an end, and the work is done in any case.  The
        allowance grows with the audio received since the call before.
        """
        seconds = (received - self._received) / SAMPLE_RATE
        self._allowed = min(_MAX_ALLOWED, self._allowed + seconds / _SECONDS_EACH)
        self._received = received
        near = _NEAR_LONG if quiet >= _LONG_PAUSE else _NEAR
        is_near = is_likely or quiet_share >= near
        return self._prepared != position and (is_near or self._allowed >= 1)

    def begin(self, position: int) -> None:
        """Count a preparation as in vain until its flush comes."""
        self._prepared = position
        self._cost = min(1.0, self._allowed)
        self._allowed -= self._cost

    def flush(self, position: int) -> None:
        """Take back that the preparation was in vain, if this flush had one."""
        if self._prepared == position:
            self._allowed += self._cost
        self._prepared = None
