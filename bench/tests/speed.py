"""The time of scoring, on an hour of invented speech: ``python bench/tests/speed.py``."""

from __future__ import annotations

from time import perf_counter, process_time

import attrs
import numpy as np

from wlk_bench.events import (
    AudioIn,
    Call,
    Commit,
    End,
    EventLog,
    Header,
    HypothesisShown,
    TimedText,
)
from wlk_bench.reference import Reference, ReferenceSegment, ReferenceWord
from wlk_bench.scoring import score
from wlk_bench.summary import summarise

__all__ = ["Timing", "hour_log", "time_scoring"]

WORDS_A_SECOND = 2.5  # read speech: 9,000 words an hour
WORDS_A_SEGMENT = 12
VOCABULARY = 2500  # spellings in an hour of read speech
ERROR_RATE = 0.06
LETTERS = np.array(list("etaoinshrdlucmfw"))


@attrs.frozen(kw_only=True)
class Timing:
    """Seconds that scoring `audio_seconds` took, on the clock and of the processor."""

    audio_seconds: float
    words: int
    wall_seconds: float
    cpu_seconds: float


def time_scoring(seconds: float = 3600.0) -> Timing:
    """Score one invented stream of that length, summary and intervals included."""
    log = hour_log(seconds)
    score(hour_log(10.0), normaliser_name="basic")  # imports are not counted as scoring
    wall, cpu = perf_counter(), process_time()
    summary = summarise([score(log, normaliser_name="basic")])
    return Timing(
        audio_seconds=seconds,
        words=summary["wer"]["reference_length"],
        wall_seconds=perf_counter() - wall,
        cpu_seconds=process_time() - cpu,
    )


def hour_log(seconds: float = 3600.0, *, seed: int = 0) -> EventLog:
    """Return a stream that was committed a chunk late, with errors; the same for the same seed."""
    rng = np.random.default_rng(seed)
    spellings = ["".join(rng.choice(LETTERS, rng.integers(1, 9))) for _ in range(VOCABULARY)]
    count = int(seconds * WORDS_A_SECOND)
    pace = 1.0 / WORDS_A_SECOND
    reference_words = [spellings[i] for i in rng.integers(0, VOCABULARY, count)]
    is_wrong = rng.random(count) < ERROR_RATE
    other = rng.integers(0, VOCABULARY, count)
    tokens = [
        TimedText(i * pace, (i + 0.9) * pace, f" {spellings[other[i]] if is_wrong[i] else word}")
        for i, word in enumerate(reference_words)
    ]
    events: list[AudioIn | Call | Commit | HypothesisShown | End] = []
    done = 0
    for tick in range(1, int(seconds) + 1):
        time = float(tick)
        reach = int((tick - 1) * WORDS_A_SECOND)
        events += [
            AudioIn(audio_time=time, wall=time),
            _call("process_iter", time, stable=time - 1),
        ]
        if reach > done:
            events.append(Commit(audio_time=time, wall=time + 0.1, tokens=tokens[done:reach]))
            done = reach
        shown = tokens[done : done + 3]
        events.append(HypothesisShown(audio_time=time, wall=time + 0.1, tokens=shown))
    events += [
        _call("finish", seconds, stable=seconds),
        Commit(audio_time=seconds, wall=seconds + 0.2, tokens=tokens[done:]),
        HypothesisShown(audio_time=seconds, wall=seconds + 0.2, tokens=[]),
        End(audio_time=seconds, wall=seconds + 0.2),
    ]
    words = [
        ReferenceWord(word, i * pace, (i + 0.9) * pace) for i, word in enumerate(reference_words)
    ]
    starts = range(0, count, WORDS_A_SEGMENT)
    parts = [words[start : start + WORDS_A_SEGMENT] for start in starts]
    segments = [
        ReferenceSegment(" ".join(w.text for w in part), part[0].start, part[-1].end)
        for part in parts
    ]
    reference = Reference(text=" ".join(reference_words), words=words, segments=segments)
    header = Header(audio="hour", audio_seconds=seconds, backend="none", reference=reference)
    return EventLog(header=header, events=events)


def _call(kind: str, time: float, *, stable: float) -> Call:
    return Call(
        kind=kind,
        audio_time=time,
        wall=time,
        duration=0.1,
        processed_up_to=time,
        stable_up_to=stable,
    )


if __name__ == "__main__":
    timing = time_scoring()
    print(  # noqa: T201 -- a script
        f"scored {timing.audio_seconds:.0f} s of speech, {timing.words} words, in "
        f"{timing.wall_seconds:.2f} s ({timing.cpu_seconds:.2f} s of processor time)"
    )
