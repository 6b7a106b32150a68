"""The exact incremental encoder: seconds are convolved once, closed windows encoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES, HOP, LEAD_SAMPLES
from wlk_qwen3_simul.audio.mel import RANGE as DECADES
from wlk_qwen3_simul.audio.mel import MelStream, normalised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_qwen3_simul.simul.network import Encoded, Network, Stem

__all__ = ["Heard", "IncrementalEncoder"]


@attrs.frozen(kw_only=True, eq=False)
class Heard:
    """
    The audio of a buffer as the decoder takes it.

    Attributes:
        closed: whole windows; the same objects from call to call while nothing about them changed.
        open: what is behind them; None where the audio ends with a window.
        frames: mel frames that went through the encoder's layers for this call, each window counted
            with all its seconds and each second as a whole one.

    """

    closed: tuple[Encoded, ...]
    open: Encoded | None
    frames: int

    @property
    def windows(self) -> tuple[Encoded, ...]:
        """All windows, the open one last."""
        return self.closed if self.open is None else (*self.closed, self.open)

    @property
    def tokens(self) -> int:
        """Audio tokens of all windows."""
        return sum(window.tokens for window in self.windows)


@attrs.frozen(eq=False)
class _Chunk:
    """A second of which every frame is final: its quietest bin, and its stem for one peak."""

    number: int
    quietest: float
    peak: float
    stem: Stem


@attrs.frozen(eq=False)
class _Window:
    """A window, closed or open: the stems it was made of, and what was made of them."""

    stems: tuple[Stem, ...]
    encoded: Encoded


class IncrementalEncoder:
    """
    What the encoder makes of a growing run, exactly as if all of it were encoded at once.

    The encoder convolves every second alone, and its attention does not look beyond windows of 8 s.
    So a second whose last frame is no longer mirrored is convolved for good, and a window of such
    seconds is encoded for good - unless a louder sound raises the floor of the normalisation over
    their quietest bins.  The loudest bin is that of the whole run, also of what was dropped.

    A run is heard behind 2.5 ms of silence, which make the last frame of a second final with the
    last sample of that second.  Without them every second that is heard as it ends would be
    convolved twice, and every such window encoded twice: its last frame would be mirrored first.
    That still happens where audio comes otherwise than by seconds, but not where it ends in
    silence, which looks the same in a mirror.  Nothing moves by it that could be told: attention
    is to frames of 40 ms.

    A call that fails changes nothing that the same call, made again, would not repair.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._wide = network.window_frames // CHUNK_FRAMES  # chunks of a window
        self._mel = MelStream(network.mels)
        self._mel.push(np.zeros(LEAD_SAMPLES, np.float32))
        self._chunks: dict[int, _Chunk] = {}
        self._windows: dict[int, _Window] = {}
        self._peak = -np.inf
        self._peaked = 0  # final frames that were looked at for it
        self._latest: tuple[NDArray[np.float32], Stem] | None = None  # that was convolved
        self._frames = 0  # given to the encoder's layers in this call

    @property
    def nbytes(self) -> int:
        """Bytes of frames, stems and embeddings held."""
        stems = sum(chunk.stem.nbytes for chunk in self._chunks.values())
        latest = 0 if self._latest is None else sum(one.nbytes for one in self._latest)
        windows = sum(one.encoded.nbytes for one in self._windows.values())
        return self._mel.nbytes + stems + latest + windows

    def hear(self, audio: NDArray[np.float32], *, first_sample: int) -> Heard:
        """
        Return the audio tokens of float32[n], the run from *first_sample* on.

        Audio that was heard before is not looked at again.

        Raises:
            ValueError: *first_sample* is no multiple of a window, or audio in between is missing.

        """
        window_samples = self._wide * CHUNK_FRAMES * HOP
        first, rest = divmod(first_sample, window_samples)
        before = self._mel.heard - LEAD_SAMPLES
        known = before - first_sample
        if rest or not 0 <= known <= len(audio):
            raise ValueError(
                f"expected audio from a multiple of {window_samples} samples on that goes on from "
                f"sample {before}, got {len(audio)} samples from {first_sample} on"
            )
        self._frames = 0
        self._mel.push(audio[known:])
        behind = self._mel.provisional()
        peak = self._find_peak(behind)
        self._forget_before(first)
        # A cut may lie at the very end of what was heard, where the last frame is not final yet.
        behind = behind[:, max(0, first * self._wide * CHUNK_FRAMES - self._mel.final) :]
        whole = max(self._mel.final // CHUNK_FRAMES, first * self._wide)
        stems = [self._final_stem(number, peak) for number in range(first * self._wide, whole)]
        closed = tuple(
            self._encode(first + place // self._wide, tuple(stems[place : place + self._wide]))
            for place in range(0, len(stems) - self._wide + 1, self._wide)
        )
        rest_of = stems[len(closed) * self._wide :]
        raw = self._mel.between(whole * CHUNK_FRAMES, self._mel.final)
        raw = np.concatenate([raw, behind], axis=1)
        if raw.shape[1]:
            rest_of.append(self._stem(raw, peak))
        tail = self._encode(first + len(closed), tuple(rest_of)) if rest_of else None
        return Heard(closed=closed, open=tail, frames=self._frames)

    def _find_peak(self, behind: NDArray[np.float32]) -> float:
        """Return the loudest bin so far; that of the provisional frame is of this call alone."""
        final = self._mel.between(max(self._peaked, self._mel.start), self._mel.final)
        self._peak = max(self._peak, float(final.max(initial=-np.inf)))
        self._peaked = self._mel.final
        return max(self._peak, float(behind.max(initial=-np.inf)))

    def _forget_before(self, window: int) -> None:
        self._mel.drop(min(window * self._wide * CHUNK_FRAMES, self._mel.final))
        for number in [number for number in self._chunks if number < window * self._wide]:
            del self._chunks[number]
        for number in [number for number in self._windows if number < window]:
            del self._windows[number]

    def _final_stem(self, number: int, peak: float) -> Stem:
        """Return the stem of second *number*, convolved again only where its floor moved."""
        chunk = self._chunks.get(number)
        if chunk is not None:
            floors = (chunk.peak - DECADES, peak - DECADES)
            if floors[0] == floors[1] or max(floors) <= chunk.quietest:
                return chunk.stem
        raw = self._mel.between(number * CHUNK_FRAMES, (number + 1) * CHUNK_FRAMES)
        stem = self._stem(raw, peak)
        self._chunks[number] = _Chunk(number, float(raw.min()), peak, stem)
        return stem

    def _stem(self, raw: NDArray[np.float32], peak: float) -> Stem:
        """Return what *raw* is convolved to; the same stem where the latest one was of the same."""
        features = normalised(raw, peak)
        if self._latest is None or not np.array_equal(self._latest[0], features):
            self._latest = (features, self._network.convolve(features))
        return self._latest[1]

    def _encode(self, number: int, stems: tuple[Stem, ...]) -> Encoded:
        """Return what window *number* is, encoded again only where a stem is another."""
        window = self._windows.get(number)
        if window is None or [*map(id, window.stems)] != [*map(id, stems)]:
            window = _Window(stems, self._network.encode(stems))
            self._windows[number] = window
            self._frames += CHUNK_FRAMES * len(stems)
        return window.encoded
