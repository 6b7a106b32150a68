"""Results of whisperlivekit's benchmarks are read, and never taken for comparable ones."""

from __future__ import annotations

import json

import pytest

from wlk_bench import plots
from wlk_bench.compare import compare
from wlk_bench.errors import NotComparable, ResultError
from wlk_bench.results import read_result, read_results

from .conftest import run_command


def sample(name, reference, hypothesis):
    """Return a sample as its LibriSpeech benchmark wrote it."""
    return {
        "id": name,
        "ref": reference.upper(),
        "hyp": hypothesis,
        "ref_norm": reference,
        "hyp_norm": hypothesis,
        "duration_s": 2.0,
        "infer_time_s": 0.5,
        "rtf": 0.25,
        "wer": 0.1,
    }


def benchmark(folder, name, *hypotheses):
    """Write the result of a run over two utterances."""
    references = ["one two three", "four five"]
    table = {
        "model": "Qwen3-ASR-0.6B",
        "backend": "mlx-simul-streaming",
        "mode": "simul-streaming",
        "platform": "Apple M5 (32GB)",
        "config": {"border_fraction": 0.25, "chunk_seconds": 2.0},
        "wer": 0.2,
        "rtf": 0.25,
        "per_sample": [
            sample(str(index), reference, hypothesis)
            for index, (reference, hypothesis) in enumerate(
                zip(references, hypotheses, strict=True)
            )
        ],
    }
    path = folder / name
    path.write_text(json.dumps(table))
    return path


TABLES = {
    "models": {"0.6b": {"wer": 3.3, "rtf": 0.263}, "1.7b": {"wer": 4.07, "rtf": 0.944}},
    "librispeech_clean": {"systems": {"0.6b": {"wer": 6.44, "rtf": 0.109}}},
}


def test_a_run_with_samples_is_compared_with_another_one(tmp_path):
    """Errors are counted from the texts of its samples."""
    a = read_result(benchmark(tmp_path, "a.json", "one two three", "four"))
    b = read_result(benchmark(tmp_path, "b.json", "one three", "four nine"))

    assert a["summary"]["wer"]["rate"] == pytest.approx(1 / 5)
    assert compare(a, b).wer.difference == pytest.approx(1 / 5)
    assert compare(a, b).rtf_ratio == 1.0


def test_a_table_of_systems_has_fractions_and_no_samples(tmp_path):
    """Its percentages become fractions; a comparison is refused with the command that works."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"models": TABLES["models"]}))
    results = read_results(path)

    assert [result["setup"]["model"] for result in results] == ["0.6b", "1.7b"]
    assert [result["summary"]["wer"]["rate"] for result in results] == [
        pytest.approx(0.033),
        pytest.approx(0.0407),
    ]
    with pytest.raises(ResultError, match=r"table of 2 in .*results\.json.*: wlk-bench plot"):
        read_result(path)


def test_results_of_the_two_programs_are_not_comparable(tmp_path):
    """Data, mode and normaliser differ even if both read the same recordings."""
    theirs = read_result(benchmark(tmp_path, "a.json", "one two three", "four"))
    ours = json.loads(json.dumps(theirs))
    ours["setup"].update(data="librispeech:test-clean", mode="utterance", normaliser="english")

    with pytest.raises(NotComparable, match="measured by whisperlivekit"):
        compare(ours, theirs)


def test_a_damaged_file_is_named(tmp_path):
    """The message names the file and the missing figure."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"models": {"0.6b": {"wer": 3.3}}}))

    with pytest.raises(ResultError, match=r"results\.json has the form of .*KeyError: 'rtf'"):
        read_results(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_a_plot_draws_them_hollow_and_leaves_out_empty_panels(tmp_path, kind):
    """None of them has latencies or figures over time, so one panel is left."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({kind: TABLES[kind]}))
    figure = plots.draw(read_results(path))

    assert [axes.get_title() for axes in figure.axes] == ["Error against cost"]
    markers = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert {line.get_markerfacecolor() for line in markers} == {"none"}
    assert run_command(["plot", str(path), "--output", str(tmp_path / "x.png")]) == 0
