"""A recognizer on a grid of frames decodes each frame once, however its audio was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.plugins import Word, WorkCounters
from wlk_frameworks.grid import FrameGrid, GridRecognizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.plugins import Step

GRIDS = [
    FrameGrid(frame_samples=10),
    FrameGrid(frame_samples=10, chunk_frames=3, max_call_frames=7, has_few_shapes=True),
    FrameGrid(frame_samples=10, first_frame=-1, before_samples=4, after_samples=13, tail_frames=2),
]
IDS = ["bare", "in chunks", "with margins"]


@attrs.frozen
class State:
    """How many frames of an utterance are decoded."""

    frames: int
    nbytes: int = 8


class Emitted(int):
    """The number of a frame, and the sum of the audio that it was decoded from."""

    loudness = 0.0


@attrs.define
class Model:
    """A model that emits the numbers of its frames, and keeps the audio that it reads."""

    grid: FrameGrid
    calls: list[tuple[int, int]] = attrs.field(factory=list)  #: first frame and frames of each
    frames: list[NDArray[np.float32]] = attrs.field(factory=list)  #: audio, with its margins
    failures: int = 0

    def __call__(
        self, audio: NDArray[np.float32], state: Any, *, first_frame: int
    ) -> tuple[Sequence[Emitted], State, WorkCounters]:
        """Decode the frames of *audio*."""
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the device is busy")
        grid = self.grid
        margins = grid.before_samples + grid.after_samples
        count, rest = divmod(len(audio) - margins, grid.frame_samples)
        assert rest == 0
        assert (state.frames if state else grid.first_frame) == first_frame
        self.calls.append((first_frame, count))
        tokens = [Emitted(first_frame + index) for index in range(count)]
        for index, token in enumerate(tokens):
            start = index * grid.frame_samples
            self.frames.append(audio[start : start + grid.frame_samples + margins].copy())
            token.loudness = float(self.frames[-1].sum())
        return tokens, State(first_frame + count), WorkCounters(decoder_positions=count)


@attrs.define
class Numbers:
    """Words that are the numbers of frames; one is emitted until frame `emits_until`."""

    emits_until: int = 0
    audio: list[NDArray[np.float32]] = attrs.field(factory=list)
    hypothesis: tuple[Word, ...] = ()
    language: str | None = None
    nbytes: int = 0

    def start_utterance(self) -> None:
        """Begin an utterance."""
        self.hypothesis = ()

    def is_emitting(self, tokens: Sequence[Emitted]) -> bool:
        """Return whether the last frame is one in which a word goes on."""
        return tokens[-1] < self.emits_until

    def push(
        self,
        tokens: Sequence[Emitted],
        audio: NDArray[np.float32],
        *,
        end_frame: int,
        is_last: bool,
    ) -> list[Word]:
        """Return a word for each frame, which ends later the louder its audio is."""
        del is_last
        self.audio = [*self.audio, audio.copy()]
        assert list(tokens[-1:]) in ([], [end_frame - 1])
        return [Word(0.0, token.loudness, str(int(token))) for token in tokens]


def run(recognizer: GridRecognizer[Emitted], *, is_last: bool = False) -> list[str]:
    """Run all steps, repeating those that fail; return the text of the committed words."""
    texts: list[str] = []
    while True:
        try:
            step = recognizer.step(is_last=is_last)
        except RuntimeError:
            continue
        if step is None:
            return texts
        texts += [word.text for word in step.committed]


def expected_frames(audio: NDArray[np.float32], grid: FrameGrid, count: int) -> list[list[float]]:
    """Return frames with their margins, cut from the whole utterance between zeros."""
    room = 10 * grid.frame_samples * (count + 2)
    whole = np.concatenate([np.zeros(room, np.float32), audio, np.zeros(room, np.float32)])
    starts = [room + (grid.first_frame + k) * grid.frame_samples for k in range(count)]
    return [
        whole[s - grid.before_samples : s + grid.frame_samples + grid.after_samples].tolist()
        for s in starts
    ]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    cuts=st.lists(st.integers(0, 60), min_size=1, max_size=8),
    failures=st.integers(0, 3),
    grid=st.sampled_from(GRIDS),
)
def test_every_frame_is_decoded_once_however_the_audio_was_cut(
    cuts: list[int], failures: int, grid: FrameGrid
) -> None:
    """Frames, audio and words equal those cut from the whole utterance; failed steps repeat."""
    audio = np.random.default_rng(1).uniform(-1, 1, sum(cuts)).astype(np.float32)
    model, words = Model(grid, failures=failures), Numbers()
    recognizer = GridRecognizer(model, words, grid)
    texts: list[str] = []
    for piece in np.split(audio, np.cumsum(cuts)[:-1]):
        recognizer.feed(piece)
        texts += run(recognizer)
    texts += run(recognizer, is_last=True)
    least = -(-len(audio) // grid.frame_samples) + grid.tail_frames - grid.first_frame
    count = -(-least // grid.chunk_frames) * grid.chunk_frames

    assert [frame.tolist() for frame in model.frames] == expected_frames(audio, grid, count)
    assert texts == [str(grid.first_frame + k) for k in range(count)]
    assert np.concatenate([*words.audio, audio[:0]]).tolist() == audio.tolist()
    assert (recognizer.work.decoder_positions or 0) == count
    assert recognizer.step(is_last=True) is None


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=8),
    emits_until=st.integers(0, 9),
    grid=st.sampled_from([*GRIDS, attrs.evolve(GRIDS[2], max_extra_frames=5)]),
)
def test_a_prepared_flush_is_that_flush(
    pieces: list[tuple[int, bool]], emits_until: int, grid: FrameGrid
) -> None:
    """Wherever flushes are prepared, in vain or not, steps and audio are those without them."""
    steps: list[list[Step | None]] = []
    audio: list[list[NDArray[np.float32]]] = []
    for prepares in (False, True):
        words = Numbers(emits_until)
        recognizer = GridRecognizer(Model(grid), words, grid)
        steps.append([])
        for samples, is_end in [*pieces, (30, True)]:
            recognizer.feed(np.ones(samples, dtype=np.float32))
            if prepares:
                recognizer.prepare_flush()  # a step that is due makes it useless
            while (step := recognizer.step(is_last=False)) is not None:
                steps[-1].append(step)
            prepared = recognizer.prepare_flush() if prepares else None
            if is_end:
                last = recognizer.step(is_last=True)
                assert prepared is None or last is None or prepared == last.committed
                steps[-1].append(last)
                recognizer.start_utterance("")
        audio.append(words.audio)

    assert steps[1] == steps[0]
    assert [each.tolist() for each in audio[1]] == [each.tolist() for each in audio[0]]


def test_a_prepared_flush_runs_the_model_once_and_before_it() -> None:
    """Its answer is counted when it is made, held beside the state, and shown by the flush only."""
    grid = GRIDS[2]
    model = Model(grid)
    recognizer = GridRecognizer(model, Numbers(), grid)
    recognizer.feed(np.ones(95, dtype=np.float32))
    run(recognizer)
    before, frames = recognizer.state_bytes, recognizer.work.decoder_positions

    recognizer.prepare_flush()
    recognizer.prepare_flush()
    calls = len(model.calls)
    prepared = recognizer.state_bytes
    texts = run(recognizer, is_last=True)

    assert prepared == before + State(0).nbytes
    assert len(model.calls) == calls
    assert frames is not None
    assert recognizer.work.decoder_positions == frames + len(texts)


def test_audio_after_a_prepared_flush_is_decoded_as_if_none_had_been() -> None:
    """The answer is dropped with its state; the work stays counted."""
    grid = GRIDS[2]
    model = Model(grid)
    recognizer = GridRecognizer(model, Numbers(), grid)
    recognizer.feed(np.ones(95, dtype=np.float32))
    run(recognizer)
    recognizer.prepare_flush()
    first_frame, in_vain = model.calls[-1]
    recognizer.feed(np.ones(5, dtype=np.float32))
    texts = run(recognizer, is_last=True)

    assert texts[0] == str(first_frame)
    assert recognizer.work.decoder_positions == sum(frames for _, frames in model.calls)
    assert in_vain > 0


def test_nothing_is_prepared_without_audio_or_after_the_flush() -> None:
    """A pause costs nothing, however often a flush is prepared in it."""
    grid = GRIDS[2]
    model = Model(grid)
    recognizer = GridRecognizer(model, Numbers(), grid)
    recognizer.prepare_flush()
    assert model.calls == []

    recognizer.feed(np.ones(95, dtype=np.float32))
    run(recognizer, is_last=True)
    calls = len(model.calls)
    recognizer.prepare_flush()

    assert len(model.calls) == calls


def test_words_that_cannot_be_read_are_decoded_anew_by_the_retry() -> None:
    """Such an answer is not kept, so that it breaks no stream."""
    failures = ["not a word"]

    class Unreadable(Numbers):
        def push(self, *arguments: Any, **options: Any) -> list[Word]:
            if failures:
                raise RuntimeError(failures.pop())
            return super().push(*arguments, **options)

    grid = GRIDS[0]
    model = Model(grid)
    recognizer = GridRecognizer(model, Unreadable(), grid)
    recognizer.feed(np.ones(5, dtype=np.float32))
    with pytest.raises(RuntimeError, match="not a word"):
        recognizer.prepare_flush()
    texts = run(recognizer, is_last=True)

    assert texts == ["0"]
    assert len(model.calls) == 2


@pytest.mark.parametrize("grid", GRIDS, ids=IDS)
def test_consumed_samples_are_those_of_whole_frames(grid: FrameGrid) -> None:
    """Samples after the last complete frame are consumed only at the end of the utterance."""
    recognizer = GridRecognizer(Model(grid), Numbers(), grid)
    recognizer.feed(np.zeros(95, dtype=np.float32))
    consumed = []
    while step := recognizer.step(is_last=False):
        consumed.append(step.consumed_samples)
    last = recognizer.step(is_last=True)

    frames = (95 - grid.after_samples) // grid.frame_samples
    assert consumed[-1] == frames // grid.chunk_frames * grid.chunk_frames * grid.frame_samples
    assert last is not None
    assert last.consumed_samples == 95


def test_calls_of_few_shapes_have_1_2_or_4_chunks() -> None:
    """An engine compiles or batches each shape once; the rest of an utterance is an exception."""
    grid = FrameGrid(frame_samples=10, chunk_frames=2, max_call_frames=13, has_few_shapes=True)
    model = Model(grid)
    recognizer = GridRecognizer(model, Numbers(), grid)
    recognizer.feed(np.zeros(19 * 20, dtype=np.float32))
    run(recognizer)

    assert [frames for _, frames in model.calls] == [8, 8, 8, 8, 4, 2]


@pytest.mark.parametrize(("emits_until", "frames"), [(0, 4), (5, 6), (99, 8)])
def test_silence_goes_on_while_a_word_does(emits_until: int, frames: int) -> None:
    """The tail is extended frame by frame, up to a limit, and in one step."""
    grid = FrameGrid(frame_samples=10, tail_frames=2, max_extra_frames=4)
    recognizer = GridRecognizer(Model(grid), Numbers(emits_until), grid)
    recognizer.feed(np.zeros(15, dtype=np.float32))
    run(recognizer)
    step = recognizer.step(is_last=True)

    assert step is not None
    assert step.committed[-1].text == str(frames - 1)


def test_an_utterance_and_its_end_release_audio_and_state() -> None:
    """Only the samples before the next frame stay, and nothing after `close`."""
    grid = GRIDS[2]
    recognizer = GridRecognizer(Model(grid), Numbers(), grid)
    recognizer.feed(np.ones(100, dtype=np.float32))
    run(recognizer)

    assert recognizer.state_bytes == 4 * (100 - (80 - 4)) + 8
    recognizer.close()
    assert recognizer.state_bytes == 0
