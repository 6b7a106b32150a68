from __future__ import annotations

from argparse import Namespace
from statistics import mean

import pytest

from wlk_bench.metrics.emitted import committed_words, displayed_words, screens
from wlk_bench.metrics.lagging import long_yaal, stream_laal
from wlk_bench.metrics.segmentation import mwer_segments, soft_segments
from wlk_bench.metrics.stability import Erasure, erasure

from .conftest import random_log
from .peer_formats import omnisteval, simulstream

pytestmark = pytest.mark.peers
REASON = "compares with a package of the dependency group `peers`, which is not installed"

SEEDS = range(40)


def streams():
    """Return logs that both sides score."""
    return [random_log(seed) for seed in SEEDS]


def lags(measure, words, logs, kind):
    """Return the mean over all segments of all streams."""
    values = [
        getattr(lag, kind)
        for log in logs
        for lag in measure(log.header.reference, words(log), log.header.audio_seconds)
    ]
    return mean(value for value in values if value is not None)


@pytest.mark.parametrize(("kind", "is_aware"), [("unaware", False), ("aware", True)])
def test_long_yaal_is_omnistevals(tmp_path, kind, is_aware):
    """LongYAAL is within a millisecond of OmniSTEval's on the exported logs."""
    peer = pytest.importorskip("omnisteval.io", reason=REASON)
    alignment = pytest.importorskip("omnisteval.alignment", reason=REASON)
    scoring = pytest.importorskip("omnisteval.scoring", reason=REASON)
    resegment = pytest.importorskip("omnisteval.resegment", reason=REASON).resegment
    logs = streams()
    hypothesis, segments, references = omnisteval(logs, tmp_path)
    words, hypotheses, segmentation, sentences = peer.load_resegmentation_inputs(
        str(segments), None, str(references), str(hypothesis)
    )

    instances, _ = resegment(words, hypotheses, segmentation, sentences)
    theirs = scoring.YAALScorer(computation_aware=is_aware, is_longform=True)(instances)

    assert alignment is not None
    assert lags(long_yaal, committed_words, logs, kind) == pytest.approx(theirs / 1000, abs=0.001)


@pytest.mark.parametrize("is_displayed", [True, False], ids=["displayed", "committed"])
def test_stream_laal_is_simulstreams(tmp_path, is_displayed):
    """StreamLAAL equals simulstream's, of the text on the screen and of committed text."""
    readers = pytest.importorskip("simulstream.metrics.readers", reason=REASON)
    latency = pytest.importorskip("simulstream.metrics.scorers.latency", reason=REASON)
    scorer = pytest.importorskip("simulstream.metrics.scorers.latency.stream_laal", reason=REASON)
    logs = streams()
    reader, segments, references = read_by_simulstream(tmp_path, logs, is_displayed=is_displayed)
    sentences = readers.YamlReferenceReader(str(segments), str(references)).references

    theirs = scorer.StreamLaal(Namespace(latency_unit="word")).score(
        [
            latency.LatencyScoringSample(name, output, sentences[name])
            for name, output in reader.final_outputs_and_latencies().items()
        ]
    )

    words = (lambda log: displayed_words(screens(log))) if is_displayed else committed_words
    assert lags(stream_laal, words, logs, "unaware") == pytest.approx(theirs.ideal_latency)


@pytest.mark.parametrize("seed", range(40))
def test_soft_segments_are_omnistevals(seed):
    """Every word belongs to the segment that OmniSTEval assigns, ties and gaps included."""
    peer = pytest.importorskip("omnisteval.alignment", reason=REASON)
    segments, words = segments_and_words(seed)
    expected = [peer.Word(word, seq_id=i) for i, segment in enumerate(segments) for word in segment]
    emitted = [peer.Word(word, original=i) for i, word in enumerate(words)]

    theirs = [[] for _ in segments]
    aligned = peer.align_sequences(expected, emitted, char_level=False)
    for word in peer.process_alignment(*aligned, char_level=False):
        theirs[word.seq_id].append(word.original)

    assert theirs == soft_segments(segments, words)


@pytest.mark.parametrize("seed", range(40))
def test_mwer_segments_are_mweraligns(seed):
    """The stream is cut where mweralign cuts it, ties included."""
    peer = pytest.importorskip("mweralign", reason=REASON)
    segments, words = segments_and_words(seed)

    theirs = peer.align_texts("\n".join(map(" ".join, segments)), " ".join(words)).split("\n")

    ours = mwer_segments(segments, words)
    assert [line.split() for line in theirs] == [words[own.start : own.stop] for own in ours]


def segments_and_words(seed):
    """Return the reference segments of a stream and its committed words."""
    log = random_log(seed)
    segments = [segment.text.split() for segment in log.header.reference.segments]
    return segments, [word.text for word in committed_words(log)]


def test_erasure_is_simulstreams(tmp_path):
    """Normalised erasure equals simulstream's."""
    stats = pytest.importorskip("simulstream.metrics.stats", reason=REASON)
    logs = streams()
    reader, *_ = read_by_simulstream(tmp_path, logs, is_displayed=True)

    theirs = stats.NormalizedErasure().compute(reader)

    ours = sum((erasure(screens(log)) for log in logs), Erasure())
    assert ours.erased > 0
    assert ours.normalised == pytest.approx(theirs)


def read_by_simulstream(folder, logs, *, is_displayed):
    """Export logs and open them with simulstream's own reader."""
    config = pytest.importorskip("simulstream.config", reason=REASON)
    readers = pytest.importorskip("simulstream.metrics.readers", reason=REASON)
    log, settings, segments, references = simulstream(logs, folder, is_displayed=is_displayed)
    return readers.LogReader(config.yaml_config(str(settings)), str(log)), segments, references
