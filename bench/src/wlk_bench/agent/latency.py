"""From what a session received to the latencies of its sentences, and those of all sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.error_rate import ErrorCounts, word_edits
from wlk_bench.metrics.normalise import normaliser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_bench.agent.conversation import Conversation, Sentence
    from wlk_bench.agent.session import Heard, TimedAnswer

PERCENTILES = (50, 95, 99)


@attrs.frozen(kw_only=True)
class SentenceLatency:
    """
    The latencies of a sentence in seconds; None if its text never came.

    Attributes:
        id: the recording.
        final: from its end to the last final segment with a word of it.
        ttfs: the same from its end as Silero detects it.
        first_final: from its end to the first such segment that arrives after the end.
        after_commit: from the client's commit, if it sends any, to the last final segment.
        first_partial: from its start to the first text, final or not.
        first_word: from the end of its first word, if known, to that text.
        words: for each word with a time, from its end to the first text, final or not, with it.
        segments: the number of final segments with a word of it.
        errors: words wrong, where text of two sentences in one segment is split by alignment.

    """

    id: str
    final: float | None
    ttfs: float | None
    first_final: float | None
    after_commit: float | None
    first_partial: float | None
    first_word: float | None
    words: tuple[float, ...]
    segments: int
    errors: ErrorCounts


@attrs.frozen(kw_only=True)
class _Segment:
    """A final segment: when it arrived, its words, and when each word was first shown."""

    time: float
    words: tuple[str, ...]
    shown: tuple[float, ...]


def sentence_latencies(
    conversation: Conversation, heard: Heard, *, normaliser_name: str
) -> list[SentenceLatency]:
    """Return the latencies of each sentence of a session."""
    segments = _segments(heard.answers)
    hypothesis = [word for segment in segments for word in segment.words]
    segment_of = [index for index, segment in enumerate(segments) for _ in segment.words]
    shown = [time for segment in segments for time in segment.shown]
    reference = [sentence.text.split() for sentence in conversation.sentences]
    sentence_of = [index for index, words in enumerate(reference) for _ in words]
    first_of = np.cumsum([0, *(len(words) for words in reference)])
    alignment = align_words([word for words in reference for word in words], hypothesis)
    aligned = {
        j: sentence_of[i]
        for i, j in (*alignment.equal, *alignment.substituted)
        # Text cannot be that of a sentence that has not begun.
        if segments[segment_of[j]].time > conversation.sentences[sentence_of[i]].start
    }
    owners = _owners(aligned, len(hypothesis))
    first_shown = {i: shown[j] for i, j in alignment.equal}
    normalise = normaliser(normaliser_name)
    latencies: list[SentenceLatency] = []
    for index, sentence in enumerate(conversation.sentences):
        first_text = _first_text(sentence, heard.answers)
        own = [number for number, owner in enumerate(owners) if owner == index]
        times = [segments[number].time for number in sorted({segment_of[n] for n in own})]
        after = [time for time in times if time >= sentence.end]
        text = " ".join(hypothesis[number] for number in own)
        latencies.append(
            SentenceLatency(
                id=sentence.id,
                final=max(times) - sentence.end if times else None,
                ttfs=(
                    max(times) - sentence.detected_end
                    if times and sentence.detected_end is not None
                    else None
                ),
                first_final=min(after) - sentence.end if after else None,
                after_commit=max(times) - heard.commits[index] if times and heard.commits else None,
                first_partial=None if first_text is None else first_text - sentence.start,
                first_word=(
                    first_text - sentence.words[0].end
                    if sentence.words and first_text is not None
                    else None
                ),
                words=tuple(
                    first_shown[first_of[index] + n] - word.end
                    for n, word in enumerate(sentence.words)
                    if first_of[index] + n in first_shown
                ),
                segments=len(times),
                errors=word_edits(normalise(sentence.text), normalise(text)).counts,
            )
        )
    return latencies


def summarise_latencies(
    latencies: Sequence[SentenceLatency], *, lateness: Sequence[float]
) -> dict[str, Any]:
    """
    Return the figures of all sentences: percentiles in seconds, words wrong as a fraction.

    *lateness* is how late chunks of audio were sent; all latencies include it.
    """
    errors = ErrorCounts.total(latency.errors for latency in latencies)
    return {
        "sentences": len(latencies),
        "without_final": sum(latency.final is None for latency in latencies),
        "split": sum(latency.segments > 1 for latency in latencies),
        "final": _percentiles(latency.final for latency in latencies),
        "ttfs": _percentiles(latency.ttfs for latency in latencies),
        "first_final": _percentiles(latency.first_final for latency in latencies),
        "after_commit": _percentiles(latency.after_commit for latency in latencies),
        "first_partial": _percentiles(latency.first_partial for latency in latencies),
        "first_word": _percentiles(latency.first_word for latency in latencies),
        "word": _percentiles(time for latency in latencies for time in latency.words),
        "lateness": _percentiles(lateness),
        "wer": errors.rate,
        "errors": errors.errors,
        "words": errors.reference_length,
    }


def _segments(answers: Iterable[TimedAnswer]) -> list[_Segment]:
    """Return the final segments that have words."""
    segments: list[_Segment] = []
    partials: list[tuple[float, list[str]]] = []
    for timed in answers:
        words = timed.answer.text.split()
        if not timed.answer.is_final:
            partials.append((timed.time, words))
            continue
        shown = [timed.time] * len(words)
        for time, partial in reversed(partials):
            for i, _ in align_words(words, partial).equal:
                shown[i] = time
        if words:
            segments.append(_Segment(time=timed.time, words=tuple(words), shown=tuple(shown)))
            partials = []
    return segments


def _owners(aligned: dict[int, int], count: int) -> list[int]:
    """Return the sentence of each word; an inserted one belongs to that of the word before it."""
    owners: list[int] = []
    owner = min(aligned.values(), default=0)
    for number in range(count):
        owner = aligned.get(number, owner)
        owners.append(owner)
    return owners


def _first_text(sentence: Sentence, answers: Iterable[TimedAnswer]) -> float | None:
    for timed in answers:
        if timed.time > sentence.start and timed.answer.text.strip():
            return timed.time
    return None


def _percentiles(values: Iterable[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    found = np.percentile(known, PERCENTILES)
    return {f"p{rank}": float(value) for rank, value in zip(PERCENTILES, found, strict=True)}
