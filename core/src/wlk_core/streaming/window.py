"""A bounded buffer of audio and its committed words, for recognizers that decode windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.energy import lowest_energy_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming.words import Word

__all__ = [
    "PROMPT_CHARACTERS",
    "REMAINDER_SECONDS",
    "SEARCH_SECONDS",
    "AudioBuffer",
    "BoundedWindow",
    "last_words",
    "quietest_sample",
    "words_in_order",
]

PROMPT_CHARACTERS = 200  # committed text given to the engine as prompt (whisper_streaming)
QUIET_SECONDS = 3.0  # audio kept when two hypotheses in a row contain no new word
SEARCH_SECONDS = 0.1  # how far from a word boundary the quietest place for a cut may lie
# Samples whose energy is compared to find that place: longer than the closures inside most words
# where the search is long enough, because a closure is as quiet as a pause.
ENERGY_WINDOW = SAMPLE_RATE // 10
SHORT_ENERGY_WINDOW = SAMPLE_RATE // 50
REMAINDER_SECONDS = 0.15  # by which the rest of a committed word may be placed too late
MAX_REMAINDER = 1.0  # seconds; half of a long spoken word, since its middle is before the cut

T = TypeVar("T")


class AudioBuffer:
    """
    A growing array of float32 samples that is trimmed at the front.

    Samples are numbered from 0 in the order of appending, and trimming does not renumber them.
    """

    def __init__(self) -> None:
        self.start = 0  #: number of the first sample still held
        self.end = 0  #: number of the first sample of the next append
        self._pieces: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)]

    def __len__(self) -> int:
        """Count the samples held."""
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        """Bytes of the samples held."""
        return 4 * len(self)

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append a copy of *audio*, float32[n]."""
        self._pieces.append(audio.copy())
        self.end += len(audio)

    def view(self, start: int, end: int) -> NDArray[np.float32]:
        """
        Return samples number *start* up to *end*, read-only.

        Raises:
            IndexError: some of them are not held, or the range runs backwards.

        """
        if not self.start <= start <= end <= self.end:
            raise IndexError(
                f"samples {start} to {end} requested, {self.start} to {self.end} are held"
            )
        window = self._joined()[start - self.start : end - self.start]
        window.flags.writeable = False
        return window

    def trim(self, start: int) -> None:
        """
        Drop the samples before number *start*; a number before the first sample changes nothing.

        Raises:
            IndexError: *start* lies after the last sample.

        """
        if start > self.end:
            raise IndexError(f"cannot trim to sample {start}: only {self.end} were appended")
        if start > self.start:
            # What is dropped stays in memory until the next append is joined to the rest.
            pieces = [self._joined()[start - self.start :]]
            self.start, self._pieces = start, pieces

    def _joined(self) -> NDArray[np.float32]:
        # Joined when they are needed, because a backlog is appended in many pieces.
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]


class BoundedWindow(Generic[T]):
    """
    The audio that a recognizer passes to its engine at every step, and the text around it.

    The window holds audio from `start` on, the committed words whose audio that is (`prefix`), and
    the end of the text before it (`prompt`).  It grows on a grid of `tick_seconds`.  Once it is
    longer than `buffer_seconds` it is cut after a committed word, at the quietest place next to
    the word boundary; the words before the cut become prompt.  `kept_seconds` of audio at least
    stay, because some models need more context than the words to come.  Of audio in which two
    hypotheses in a row contain no new word, only the last QUIET_SECONDS are kept.

    A window about to outgrow `max_seconds`, the engine's limit, is cut in any case.  Words in its
    older half are then committed as they are, because they have been decoded many times.

    Items are the recognizer's own records of words; *word_of* returns the Word of an item, in
    seconds of the utterance.

    Raises:
        ValueError: no cut at a multiple of *cut_samples* could ever be forced, because
            *cut_samples* is more than half of `max_seconds` less a tick.

    """

    prefix: tuple[T, ...]  #: committed words whose audio is in the window
    processed: int  #: sample number up to which the engine has decoded the utterance
    buffer: AudioBuffer  #: the audio; append to it
    overlap_end: float  #: seconds; a word with its middle before this was committed before
    dropped_end: float  #: seconds; where the last word whose audio was dropped ends
    #: Whether the next step ends not at the next tick but at the latest one: of the audio held, or
    #: of what the engine can take.
    skips_ticks: bool = False

    def __init__(
        self,
        word_of: Callable[[T], Word],
        *,
        prefix_is_forced: bool,
        prompt: str,
        tick_seconds: float,
        buffer_seconds: float,
        max_seconds: float,
        kept_seconds: float = 0.0,
        cut_samples: int = 1,
    ) -> None:
        self.word_of = word_of
        # Engines differ in what they do with the prefix, and so does the boundary between old and
        # new words; see _commit_boundary and _cut_boundary.
        self._prefix_is_forced = prefix_is_forced
        # Engines that keep state between calls can be cut between their blocks of audio only.
        self._cut_samples = cut_samples
        self._initial_prompt = prompt
        self._tick = max(1, round(tick_seconds * SAMPLE_RATE))
        self._buffer_samples = round(buffer_seconds * SAMPLE_RATE)
        self._kept_seconds = kept_seconds
        # After a forced cut there is room for another tick.
        self._max_samples = round(max_seconds * SAMPLE_RATE) - self._tick
        # A forced cut lies in the older half, where a multiple of cut_samples has to exist.
        if not 0 < cut_samples <= self._max_samples // 2:
            raise ValueError(
                f"expected cuts at 1 to {self._max_samples // 2} samples, half of {max_seconds:g} "
                f"s less a tick of {tick_seconds:g} s, got {cut_samples}"
            )
        self.reset("")

    @property
    def start(self) -> int:
        """Number of the first sample held; a multiple of `cut_samples`."""
        return self.buffer.start

    @property
    def remainder_samples(self) -> int:
        """Return how many samples from `start` on are the end of a word that became prompt."""
        end = self.dropped_end
        if self.prefix:
            end = min(end, self.word_of(self.prefix[0]).start)
        # A word of twice MAX_REMAINDER is an alignment error, and other words may lie in its time.
        seconds = end - self.start / SAMPLE_RATE
        return round(seconds * SAMPLE_RATE) if 0 < seconds < MAX_REMAINDER else 0

    @property
    def prompt(self) -> str:
        """The text before the window, at most PROMPT_CHARACTERS of whole words."""
        return self._prompt.strip()

    @property
    def nbytes(self) -> int:
        """Bytes of audio and text held, the prompt at its bound."""
        text = sum(len(self.word_of(item).text) for item in self.prefix)
        return self.buffer.nbytes + PROMPT_CHARACTERS + text

    def reset(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript, if there is any, as prompt."""
        self.buffer = AudioBuffer()
        self._prompt = last_words(committed_text or self._initial_prompt)
        self._was_quiet = False  # the last hypothesis contained no new word
        self.prefix = ()
        self.processed = 0
        self.overlap_end = 0.0
        self.dropped_end = 0.0

    def forget_prompt(self) -> None:
        """Drop the text before the window, which is in another language."""
        self._prompt = ""

    def next_stop(self, *, is_last: bool) -> int | None:
        """Return where the next step ends: on the grid or, `is_last`, at the end of the audio."""
        stop = self.processed - self.processed % self._tick + self._tick
        if self.skips_ticks:
            latest = min(self.buffer.end, self.start + self._max_samples + self._tick)
            stop = max(stop, latest - latest % self._tick)
        if stop <= self.buffer.end:
            return stop
        return self.buffer.end if is_last and self.processed < self.buffer.end else None

    def is_on_grid(self, stop: int) -> bool:
        """Return whether a step that ends at sample *stop* is a tick."""
        return stop % self._tick == 0

    def audio(self, stop: int) -> NDArray[np.float32]:
        """Return the audio from `start` to sample *stop*, read-only and valid until append."""
        return self.buffer.view(self.buffer.start, stop)

    def commit(self, items: Sequence[T]) -> None:
        """Append committed words to the prefix."""
        if items:
            self.prefix += tuple(items)
            boundary = self._commit_boundary(self.word_of(items[-1]))
            self.overlap_end = max(self.overlap_end, boundary)

    def retime(self, item: T) -> None:
        """Replace the last committed word by *item*, the same word with newer times."""
        self.prefix = (*self.prefix[:-1], item)
        self.overlap_end = max(self.overlap_end, self._commit_boundary(self.word_of(item)))

    def bound(self, upcoming: Sequence[T], *, is_quiet: bool) -> int:
        """
        Keep the window short, after a step that decoded up to `processed`.

        Args:
            upcoming: the words of the hypothesis that are not committed.
            is_quiet: the hypothesis contained no new word, committed or not.

        Returns:
            How many of *upcoming*, from the first one on, had to be committed for it.

        """
        was_quiet, self._was_quiet = self._was_quiet, is_quiet
        if is_quiet and was_quiet:
            self._trim(self._cut_in_silence(), upcoming)
        if self.processed - self.start > self._buffer_samples and self.prefix:
            self._trim(self._cut_after_prefix(upcoming, kept=self._kept_seconds), upcoming)
        if self.processed - self.start <= self._max_samples:
            return 0
        half = (self.start + self.processed) / 2 / SAMPLE_RATE
        count = sum(self.word_of(item).end <= half for item in upcoming)
        self.commit(upcoming[:count])
        upcoming = upcoming[count:]
        after_prefix = self._cut_after_prefix(upcoming) if self.prefix else 0
        # Up to the next word the engine has recognised nothing more.
        following = self.word_of(upcoming[0]).start if upcoming else half
        self._trim(max(after_prefix, self._forced_cut(following)), upcoming)
        return count

    def _cut_in_silence(self) -> int:
        """Return the sample from which audio is kept when the engine emits no new words."""
        cut = self.processed - round(QUIET_SECONDS * SAMPLE_RATE)
        if self._prefix_is_forced:
            return cut
        # A committed word there is kept whole: an engine that transcribes all of the window could
        # take its rest for a word.
        words = (self.word_of(item) for item in self.prefix)
        word = next((w for w in words if (w.end + SEARCH_SECONDS) * SAMPLE_RATE > cut), None)
        return cut if word is None else min(cut, self._cut_before(word.start))

    def _cut_after_prefix(self, upcoming: Sequence[T], *, kept: float = 0.0) -> int:
        """
        Return the quietest sample between a committed word and what follows it.

        The word is the last one that *kept* seconds of audio follow.
        """
        words = [self.word_of(item) for item in self.prefix]
        following = self.word_of(upcoming[0]).start if upcoming else None
        audio_end = self.processed / SAMPLE_RATE - max(kept, 1.5 * SEARCH_SECONDS)
        # A word up to the end of the audio may go on after it, and counts as what follows.
        while words and words[-1].end > audio_end:
            following = words.pop().start
        if not words:
            return self.start
        last = words[-1]
        if following is None:
            # Next to the end of the word: an engine that ended its text early has not emitted the
            # words of the audio after it.
            first, final = last.end - SEARCH_SECONDS, last.end + SEARCH_SECONDS / 2
        else:
            first = min(last.end, following) - SEARCH_SECONDS
            final = following - SEARCH_SECONDS / 2
        return self._quietest(max(first, last.middle), final)

    def _forced_cut(self, following: float) -> int:
        """Return where a window is cut that would outgrow the engine's limit."""
        # Before the first non-final word, which starts at *following* seconds.  One that spans half
        # of the window is an alignment error.
        middle = (self.start + self.processed) // 2
        cut = self._on_whole_cut(self._cut_before(min(middle / SAMPLE_RATE, following)))
        return cut if self.processed - cut <= self._max_samples else middle

    def _cut_before(self, start: float) -> int:
        """Return the quietest sample shortly before a word that the engine placed at *start*."""
        # The word may begin earlier, because engines place starts too late.
        return self._quietest(start - 1.5 * SEARCH_SECONDS, start - SEARCH_SECONDS / 2)

    def _quietest(self, start: float, end: float) -> int:
        return quietest_sample(self.buffer, start, min(end, self.processed / SAMPLE_RATE))

    def _on_whole_cut(self, sample: int) -> int:
        return sample // self._cut_samples * self._cut_samples

    def _trim(self, sample: int, upcoming: Sequence[T]) -> None:
        """Drop the audio before *sample*; the words that lose theirs become prompt."""
        sample = self._on_whole_cut(max(self.start, sample))
        self.buffer.trim(sample)
        cut = sample / SAMPLE_RATE
        count = sum(self._is_dropped(self.word_of(item), cut) for item in self.prefix)
        if count:
            words = [self.word_of(item) for item in self.prefix[:count]]
            self.prefix = self.prefix[count:]
            self._prompt = last_words(self._prompt + "".join(word.text for word in words))
            following = self.word_of(upcoming[0]) if upcoming else None
            end = words[-1].end if following is None else min(words[-1].end, following.start)
            self.dropped_end = max(cut, end)
            self.overlap_end = self._cut_boundary(cut, following)

    def _is_dropped(self, word: Word, cut: float) -> bool:
        """Return whether a committed word has no audio left after *cut*, or too little."""
        # A decoder can be forced to begin with half a word.  An engine that transcribes all of the
        # window returns a cut word only perhaps, and the next word could be taken for it.
        return (word.middle if self._prefix_is_forced else word.start) < cut

    def _commit_boundary(self, last: Word) -> float:
        """Return the time before which the middle of a word is old, after *last* was committed."""
        # An engine that transcribes all of the window returns the prefix again.  Its words lie
        # before the end of the last one, give or take a little, and the new words after it.
        #
        # A decoder that is forced to begin with the prefix returns new words only, unless its
        # attention jumps back.  The end of the last word is a guess then, and the next word may
        # begin before it; a word with its middle before that of the last one is surely old.
        return last.middle if self._prefix_is_forced else last.end

    def _cut_boundary(self, cut: float, following: Word | None) -> float:
        """Return the time before which the middle of a word is old, after the audio was cut."""
        if self.prefix:
            return self.overlap_end  # the last committed word decides as before
        # A remainder of the last word may lie after the cut, which is not a word.  Its middle is
        # known as well as the end of the word is, which REMAINDER_SECONDS allows for.
        remainder = (cut + self.dropped_end) / 2
        boundary = remainder + REMAINDER_SECONDS
        if following is not None:
            # A boundary nearer to the middle of the next word would hide that word.  One without
            # length was placed inside of the last word, which ends earlier than it seems.
            is_inside = following.end <= self.dropped_end
            middle = (remainder + following.middle) / 2
            boundary = remainder if is_inside else min(boundary, middle)
        return max(self.overlap_end, boundary) if self._prefix_is_forced else boundary


def quietest_sample(audio: AudioBuffer, start: float, end: float) -> int:
    """Return the number of the quietest sample held from *start* to *end*, in seconds."""
    first = min(max(audio.start, round(start * SAMPLE_RATE)), audio.end)
    final = min(max(first, round(end * SAMPLE_RATE)), audio.end)
    samples = audio.view(first, final)
    window = max(SHORT_ENERGY_WINDOW, min(ENERGY_WINDOW, len(samples) // 2))
    return first + lowest_energy_sample(samples, window=window)


def words_in_order(words: Sequence[Word], *, floor: float, limit: float) -> list[Word]:
    """Return *words* with starts that never go back, all times between *floor* and *limit*."""
    ordered: list[Word] = []
    for word in words:
        start = min(max(floor, word.start), limit)
        end = min(max(start, word.end), limit)
        is_same = start == word.start and end == word.end  # as most are
        ordered.append(word if is_same else attrs.evolve(word, start=start, end=end))
        floor = start
    return ordered


def last_words(text: str) -> str:
    """Return the end of *text*, at most PROMPT_CHARACTERS of whole words."""
    if len(text) <= PROMPT_CHARACTERS:
        return text
    tail = text[-PROMPT_CHARACTERS:]
    return tail[tail.find(" ") :] if " " in tail else tail
