"""The stream clock: sample numbers to seconds, exact across any number of silences."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["Timeline"]


class Timeline:
    """
    Map sample numbers of a stream to stream seconds, silence included.

    Audio is counted in whole samples and silences are exact fractions, because the clock must
    not drift, however many there are.  Every time is rounded once, when it is read.
    The state is one entry for each silence not yet forgotten.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self.samples = 0  #: of audio so far
        self.end = 0.0  #: the stream time now, in seconds: the end of everything appended
        self._silence: Fraction | int = 0  # of all silences so far
        # Sample numbers, each with the silence before that sample.
        self._passed: list[tuple[int, Fraction | int]] = []
        self._floor: Fraction | int = 0  # silence before the oldest entry

    def append_audio(self, samples: int) -> None:
        """Advance the clock by *samples* of audio."""
        self.samples += samples
        self.end = self._seconds(self._silence, self.samples)

    def append_silence(self, seconds: float | Fraction) -> None:
        """Advance the clock by exactly *seconds*, a finite number >= 0."""
        if seconds == 0:
            return
        self._silence += Fraction(seconds)
        self.end = self._seconds(self._silence, self.samples)
        if self._passed and self._passed[-1][0] == self.samples:
            self._passed[-1] = (self.samples, self._silence)
        else:
            self._passed.append((self.samples, self._silence))

    def time_of(self, sample: int, *, before_silence: bool = False) -> float:
        """
        Return the stream time of *sample*.

        A sample directly after a silence has two times.  The later one is returned, or with
        `before_silence` the earlier one, the end of the audio before the silence.

        Raises:
            IndexError: the sample is not appended yet.

        """
        if sample > self.samples:
            raise IndexError(f"sample {sample} is not on the clock yet: {self.samples} are")
        silence = self._floor
        for number, total in self._passed:
            if number > sample or (before_silence and number == sample):
                break
            silence = total
        return self._seconds(silence, sample)

    def _seconds(self, silence: Fraction | int, sample: int) -> float:
        """Return the sum, rounded once: the quotient of two integers is rounded correctly."""
        if not silence:
            return sample / self._rate
        whole = silence.numerator * self._rate + sample * silence.denominator
        return whole / (silence.denominator * self._rate)

    def forget_before(self, sample: int) -> None:
        """Drop what is needed only for samples before *sample*; their times become wrong."""
        while self._passed and self._passed[0][0] < sample:
            self._floor = self._passed.pop(0)[1]
