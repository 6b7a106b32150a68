"""Encode a growing utterance exactly: convolve each second once, encode closed windows once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_qwen3_simul.engine.frames import HOP_SAMPLES, LEAD_SAMPLES, SECOND_MEL_FRAMES
from wlk_qwen3_simul.engine.mel import DYNAMIC_RANGE, MelStream, normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_qwen3_simul.engine.network import EncodedWindow, Network


@attrs.frozen(kw_only=True, eq=False)
class EncodedAudio:
    """
    The encoder's output for the audio of a buffer.

    Attributes:
        closed: whole windows; the same objects from call to call while their output is unchanged.
        open: the window after them; None if the audio ends with a window.
        frames: mel frames that went through the encoder's layers in this call.  A window counts
            all of its seconds, and a partial second counts as a whole one.

    """

    closed: tuple[EncodedWindow, ...]
    open: EncodedWindow | None
    frames: int

    @property
    def windows(self) -> tuple[EncodedWindow, ...]:
        """All windows, the open one last."""
        return self.closed if self.open is None else (*self.closed, self.open)

    @property
    def tokens(self) -> int:
        """Audio tokens of all windows."""
        return sum(window.tokens for window in self.windows)


@attrs.frozen(eq=False)
class _Second:
    """A second whose frames are final: its quietest bin, and its convolved output for one peak."""

    quietest: float
    peak: float
    output: Any


@attrs.frozen(eq=False)
class _Window:
    """A window, closed or open: the seconds it was encoded from, and its output."""

    seconds: tuple[Any, ...]
    encoded: EncodedWindow


class IncrementalEncoder:
    """
    Encode a growing utterance with the same result as if all of it were encoded at once.

    The encoder convolves each second alone and attends within windows of 8 s.  A second is final
    once its last frame needs no mirrored samples, and a window of final seconds is final too.  Only
    a louder sound changes them later, because the normalisation clips at DYNAMIC_RANGE below the
    loudest bin of the whole utterance, including dropped audio.

    Each utterance is prefixed with LEAD_SAMPLES zeros so that the last mel frame of a second needs
    no later samples; otherwise every second would be convolved twice, and every window encoded
    twice.  The prefix of 2.5 ms is below the 40 ms resolution of the alignment.  If the audio does
    not end with a whole second, its last frame is still mirrored, which changes all but silence.

    A call that fails can be repeated with the same result.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._window_seconds = network.window_frames // SECOND_MEL_FRAMES
        self._mel = MelStream(network.mel_bands)
        self._mel.push(np.zeros(LEAD_SAMPLES, np.float32))
        self._seconds: dict[int, _Second] = {}
        self._windows: dict[int, _Window] = {}
        self._peak = -np.inf  # the loudest bin of the final frames
        self._peak_frames = 0  # number of final frames that _peak covers
        self._latest: tuple[NDArray[np.float32], Any] | None = None  # features and their output
        self._frames = 0  # mel frames through the encoder's layers in this call

    @property
    def nbytes(self) -> int:
        """Bytes of frames, convolved seconds and embeddings held."""
        seconds: int = sum(second.output.nbytes for second in self._seconds.values())
        latest: int = 0 if self._latest is None else sum(part.nbytes for part in self._latest)
        windows = sum(window.encoded.nbytes for window in self._windows.values())
        return self._mel.nbytes + seconds + latest + windows

    def encode(self, audio: NDArray[np.float32], *, first_sample: int) -> EncodedAudio:
        """
        Return the audio tokens of float32[n], the utterance from *first_sample* on.

        Audio received in earlier calls is skipped.

        Raises:
            ValueError: *first_sample* is not a multiple of a window, or received audio is missing.

        """
        width = self._window_seconds
        window_samples = width * SECOND_MEL_FRAMES * HOP_SAMPLES
        first, rest = divmod(first_sample, window_samples)
        received = self._mel.received - LEAD_SAMPLES
        known = received - first_sample
        if rest or not 0 <= known <= len(audio):
            raise ValueError(
                f"expected audio that starts at a multiple of {window_samples} samples and reaches "
                f"sample {received} or later, got {len(audio)} samples from {first_sample} on"
            )
        self._frames = 0
        self._mel.push(audio[known:])
        provisional = self._mel.provisional()
        peak = self._find_peak(provisional)
        self._drop_before(first)
        # After a cut at the very end of the received audio, its last frame is not final yet.
        dropped = max(0, first * width * SECOND_MEL_FRAMES - self._mel.final)
        provisional = provisional[:, dropped:]
        whole = max(self._mel.final // SECOND_MEL_FRAMES, first * width)
        seconds = [self._final_second(number, peak) for number in range(first * width, whole)]
        closed = tuple(
            self._encode_window(first + start // width, tuple(seconds[start : start + width]))
            for start in range(0, len(seconds) - width + 1, width)
        )
        tail = seconds[len(closed) * width :]
        log_mel = self._mel.between(whole * SECOND_MEL_FRAMES, self._mel.final)
        log_mel = np.concatenate([log_mel, provisional], axis=1)
        if log_mel.shape[1]:
            tail.append(self._convolve(log_mel, peak))
        last = self._encode_window(first + len(closed), tuple(tail)) if tail else None
        return EncodedAudio(closed=closed, open=last, frames=self._frames)

    def _find_peak(self, provisional: NDArray[np.float32]) -> float:
        """Return the loudest bin so far; provisional frames count only in this call."""
        final = self._mel.between(max(self._peak_frames, self._mel.start), self._mel.final)
        self._peak = max(self._peak, float(final.max(initial=-np.inf)))
        self._peak_frames = self._mel.final
        return max(self._peak, float(provisional.max(initial=-np.inf)))

    def _drop_before(self, window: int) -> None:
        width = self._window_seconds
        self._mel.drop(min(window * width * SECOND_MEL_FRAMES, self._mel.final))
        for number in [number for number in self._seconds if number < window * width]:
            del self._seconds[number]
        for number in [number for number in self._windows if number < window]:
            del self._windows[number]

    def _final_second(self, number: int, peak: float) -> Any:
        """Return the output of second *number*, convolved again only if its clipping changed."""
        second = self._seconds.get(number)
        if second is not None:
            floors = (second.peak - DYNAMIC_RANGE, peak - DYNAMIC_RANGE)
            if floors[0] == floors[1] or max(floors) <= second.quietest:
                return second.output
        log_mel = self._mel.between(number * SECOND_MEL_FRAMES, (number + 1) * SECOND_MEL_FRAMES)
        output = self._convolve(log_mel, peak)
        self._seconds[number] = _Second(float(log_mel.min()), peak, output)
        return output

    def _convolve(self, log_mel: NDArray[np.float32], peak: float) -> Any:
        """Return the output for *log_mel*; the same object if the latest features were equal."""
        features = normalise(log_mel, peak)
        if self._latest is None or not np.array_equal(self._latest[0], features):
            self._latest = (features, self._network.convolve(features))
        return self._latest[1]

    def _encode_window(self, number: int, seconds: tuple[Any, ...]) -> EncodedWindow:
        """Return window *number*, encoded again only if one of its seconds has changed."""
        window = self._windows.get(number)
        if window is None or not _are_identical(window.seconds, seconds):
            window = _Window(seconds, self._network.encode(seconds))
            self._windows[number] = window
            self._frames += SECOND_MEL_FRAMES * len(seconds)
        return window.encoded


def _are_identical(these: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether both hold the same objects; arrays compare element by element with ==."""
    if len(these) != len(others):
        return False
    return all(this is other for this, other in zip(these, others, strict=True))
