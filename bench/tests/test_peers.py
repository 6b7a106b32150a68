from __future__ import annotations

import json
from statistics import mean

import pytest

from wlk_bench.metrics.emitted import committed_words
from wlk_bench.metrics.lagging import long_yaal
from wlk_bench.metrics.segmentation import soft_segments

from .conftest import random_log

reading, scoring, resegmenting, aligning = (
    pytest.importorskip(f"omnisteval.{part}", reason="runs in: nox -s 'clients(peers)'")
    for part in ("io", "scoring", "resegment", "alignment")
)
SEEDS = range(40)


def write_for_omnisteval(logs, folder):
    """Write hypotheses, segments and references in OmniSTEval's long form, in milliseconds."""
    hypotheses, segments, references = [], [], []
    for log in logs:
        name, words = f"{log.header.audio}.wav", committed_words(log)
        hypotheses.append(
            {
                "source": name,
                "prediction": " ".join(word.text for word in words),
                "delays": [1000 * word.audio_time for word in words],
                "elapsed": [1000 * word.wall for word in words],
                "source_length": 1000 * log.header.audio_seconds,
            }
        )
        for segment in log.header.reference.segments:
            segments.append(
                {"wav": name, "offset": segment.start, "duration": segment.end - segment.start}
            )
            references.append(segment.text)
    paths = [folder / name for name in ("hypothesis.jsonl", "segments.json", "references.txt")]
    texts = ["\n".join(map(json.dumps, hypotheses)), json.dumps(segments), "\n".join(references)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(f"{text}\n", encoding="utf-8")
    return map(str, paths)


@pytest.mark.parametrize(("kind", "is_aware"), [("unaware", False), ("aware", True)])
def test_long_yaal_is_omnistevals(tmp_path, kind, is_aware):
    """LongYAAL is within a millisecond of OmniSTEval's on the exported logs."""
    logs = [random_log(seed) for seed in SEEDS]
    hypothesis, segments, references = write_for_omnisteval(logs, tmp_path)
    words, hypotheses, segmentation, sentences = reading.load_resegmentation_inputs(
        segments, None, references, hypothesis
    )

    instances, _ = resegmenting.resegment(words, hypotheses, segmentation, sentences)
    theirs = scoring.YAALScorer(computation_aware=is_aware, is_longform=True)(instances)

    lags = [
        getattr(lag, kind)
        for log in logs
        for lag in long_yaal(log.header.reference, committed_words(log), log.header.audio_seconds)
    ]
    ours = mean(lag for lag in lags if lag is not None)
    assert ours == pytest.approx(theirs / 1000, abs=0.001)


@pytest.mark.parametrize("seed", SEEDS)
def test_soft_segments_are_omnistevals(seed):
    """Every word belongs to the segment that OmniSTEval assigns, ties and gaps included."""
    log = random_log(seed)
    segments = [segment.text.split() for segment in log.header.reference.segments]
    words = [word.text for word in committed_words(log)]
    expected = [
        aligning.Word(word, seq_id=i) for i, segment in enumerate(segments) for word in segment
    ]
    emitted = [aligning.Word(word, original=i) for i, word in enumerate(words)]

    theirs = [[] for _ in segments]
    aligned = aligning.align_sequences(expected, emitted, char_level=False)
    for word in aligning.process_alignment(*aligned, char_level=False):
        theirs[word.seq_id].append(word.original)

    assert soft_segments(segments, words) == theirs
