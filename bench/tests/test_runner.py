from __future__ import annotations

import json

import attrs
import pytest

from wlk_bench.compare import compare
from wlk_bench.config import prepare
from wlk_bench.errors import DataError, NotComparable, ResultError
from wlk_bench.events import read_log
from wlk_bench.results import read_result
from wlk_bench.runner import run_benchmark
from wlk_bench.scoring import score
from wlk_bench.summary import summarise
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.errors import OptionError

from .conftest import FakeRegistry, coded_dataset


def measured(output, *, count=3, backend=None, dataset=None, observe=None, **conditions):
    """Measure the scripted backend."""
    dataset = dataset or coded_dataset(count)
    config, _ = prepare(dataset, "scripted", registry=FakeRegistry(), **conditions)
    watch = {} if observe is None else {"observe": observe}
    opened = backend or ScriptedBackend()
    return run_benchmark(dataset, config, lambda: opened, output, **watch)


def test_a_perfect_backend_has_no_errors_and_its_result_names_its_conditions(tmp_path):
    """Coded audio is recognised exactly, and the output has a log for each sample."""
    result = measured(tmp_path)
    summary, setup = result["summary"], result["setup"]

    assert summary["wer"]["rate"] == summary["cer"]["rate"] == 0.0
    assert summary["latency"]["coverage"] == 1.0
    assert summary["flushes"]["missing_words"] == 0
    assert summary["word_times"]["aas"] == pytest.approx(0.0, abs=1e-6)
    assert (setup["normaliser"], setup["unit"]) == ("basic", "word")
    assert setup["stream_options"]["policy"] == "local-agreement"
    assert "wlk-core" in result["versions"]
    assert result["platform"]["python"].startswith("3.")
    assert [sample["id"] for sample in result["samples"]] == ["sample-0", "sample-1", "sample-2"]
    assert len(list((tmp_path / "logs").glob("*.jsonl"))) == 3
    assert read_result(tmp_path) == json.loads(json.dumps(result))


def test_a_result_names_missing_recordings_and_what_auto_stood_for(tmp_path, monkeypatch):
    """Facts of the engine are kept when a finished run is repeated without loading it."""
    backend = ScriptedBackend()
    monkeypatch.setattr(type(backend.engine), "facts", {"alignment_heads": 20}, raising=False)
    dataset = attrs.evolve(coded_dataset(1), missing=("sample-9",))
    first = measured(tmp_path, dataset=dataset, backend=backend)
    again = measured(tmp_path, dataset=dataset)

    assert first["missing"] == ["sample-9"]
    assert first["engine"] == again["engine"] == {"alignment_heads": 20}


def test_a_log_has_everything_its_score_needs(tmp_path):
    """Scoring the file again gives the same figures, to the last digit."""
    result = measured(tmp_path, count=1)

    again = score(read_log(tmp_path / "logs" / "sample-0.jsonl"), normaliser_name="basic")

    assert json.loads(json.dumps(again.to_json())) == json.loads(json.dumps(result["samples"][0]))
    assert summarise([again]) == result["summary"]


def test_an_interrupted_run_is_continued_and_a_finished_one_opens_no_backend(tmp_path):
    """Recorded streams are not run again, and the result contains all of them."""
    broken = ScriptedBackend(fail_before=range(12, 999))
    with pytest.raises(Exception, match="failed on request"):
        measured(tmp_path, backend=broken)
    kept = len(list((tmp_path / "logs").glob("*.jsonl")))

    result = measured(tmp_path)

    assert 0 < kept < 3
    assert result["session"]["samples"] == 3 - kept
    assert result["session"]["load_seconds"] >= 0
    assert result["summary"]["samples"] == 3
    dataset = coded_dataset()
    config, _ = prepare(dataset, "scripted", registry=FakeRegistry())
    again = run_benchmark(dataset, config, lambda: pytest.fail("opened"), tmp_path)
    assert again["session"] is None
    assert result["summary"]["wer"] == again["summary"]["wer"]


def test_a_directory_belongs_to_one_setup(tmp_path):
    """Logs of different setups are never mixed."""
    measured(tmp_path)

    with pytest.raises(ResultError, match=r"got chunk_seconds 1\.0 there and 0\.5 here"):
        measured(tmp_path, chunk_seconds=0.5)
    (tmp_path / "setup.json").write_text("{", encoding="utf-8")
    with pytest.raises(ResultError, match="expected a setup in"):
        measured(tmp_path)


def test_streams_at_a_time_give_the_same_texts(tmp_path):
    """Threads change times only."""
    alone = measured(tmp_path / "alone")
    together = measured(tmp_path / "together", streams=3)

    assert [s["hypothesis"] for s in together["samples"]] == [
        s["hypothesis"] for s in alone["samples"]
    ]
    assert together["session"]["streams"] == 3


def test_a_single_shot_is_one_chunk(tmp_path):
    """The whole utterance is inserted at once, so there is one tick."""
    dataset = attrs.evolve(coded_dataset(1), mode="single-shot")

    result = measured(tmp_path, dataset=dataset)

    assert result["setup"]["chunk_seconds"] is None
    assert result["summary"]["real_time"]["tick_rtf"]["count"] == 1


def test_ids_that_are_not_file_names_are_kept_apart(tmp_path):
    """Two samples whose long names differ in slashes have two logs."""
    first, second = coded_dataset(2).samples
    samples = (attrs.evolve(first, id="/" * 300), attrs.evolve(second, id="_" * 300))

    measured(tmp_path, dataset=attrs.evolve(coded_dataset(2), samples=samples))

    assert len(list((tmp_path / "logs").glob("*.jsonl"))) == 2


@pytest.mark.parametrize(
    ("conditions", "error", "message"),
    [
        ({"chunk_seconds": 0.0}, DataError, "--chunk-seconds above 0"),
        ({"streams": 0}, DataError, "--streams of at least 1"),
        ({"normaliser_name": "own"}, DataError, "one of english, basic, raw"),
        ({"options": ["colour=red"]}, OptionError, "no option is called 'colour'"),
        ({"language": "xx"}, OptionError, "does not support the language"),
    ],
)
def test_a_setup_is_checked_before_anything_runs(tmp_path, conditions, error, message):
    """A mistake is reported at once and leaves no directory."""
    with pytest.raises(error, match=message):
        measured(tmp_path / "new", **conditions)

    assert not (tmp_path / "new").exists()


def test_a_default_is_recorded_and_not_passed_on():
    """A policy can refuse the options of another, even at their default values."""
    explicit, default = (
        prepare(coded_dataset(1), "scripted", options=options, registry=FakeRegistry())[0]
        for options in (["policy=local-agreement"], [])
    )

    assert explicit.stream_arguments == {"policy": "local-agreement"}
    assert default.stream_arguments == {}
    assert explicit.load_arguments == {}
    assert "tick_seconds" in explicit.stream_options
    assert explicit.to_json() == default.to_json()


def test_runs_are_compared_where_they_have_the_same_references(tmp_path):
    """Runs of one backend differ only in time, and times of two machines are not comparable."""
    a, b = measured(tmp_path / "a"), measured(tmp_path / "b")

    found = compare(a, b)

    assert found.wer is not None
    assert found.wer.difference == 0.0
    assert not found.wer.is_significant
    assert found.rtf_ratio > 0
    b["platform"]["processor"] = "another"
    assert compare(a, b).notes == ("the machines differ: times are not comparable",)
    del b["samples"][-1]  # as when another data set has the same name
    with pytest.raises(NotComparable, match="different references"):
        compare(a, b)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "wlk-bench-result/0"}'])
def test_a_file_that_is_not_a_result_is_refused(tmp_path, text):
    """The message names the command that writes a result."""
    (tmp_path / "result.json").write_text(text, encoding="utf-8")

    with pytest.raises(ResultError, match="run"):
        read_result(tmp_path)
