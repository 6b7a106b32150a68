from __future__ import annotations

import pytest

from wlk_bench import plots
from wlk_bench.results import read_result

from .conftest import coded_manifest, run_command

pytestmark = pytest.mark.usefixtures("scripted")


def run(tmp_path, name="out", *arguments):
    """Measure the scripted backend on coded recordings."""
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    if not (data / "coded.jsonl").exists():
        coded_manifest(data)
    output = tmp_path / name
    where = ["--data", f"manifest:{data / 'coded.jsonl'}", "--output", str(output)]
    return run_command(["run", "scripted", "--language", "en", *where, *arguments]), output


def test_run_writes_a_result_and_prints_a_table(tmp_path, capsys):
    """Figures go to standard output; without a terminal nothing goes to standard error."""
    status, output = run(tmp_path, "out", "--option", "tick_seconds=0.5")

    printed = capsys.readouterr()
    assert status == 0
    assert "WER [95 %]" in printed.out
    assert printed.err == ""
    assert read_result(output)["setup"]["stream_options"]["tick_seconds"] == 0.5


def test_compare_shows_the_differences_of_two_results_or_why_there_are_none(tmp_path, capsys):
    """Error rates are compared in pairs, costs as a ratio; a refusal is one line."""
    _, a = run(tmp_path, "a")
    _, b = run(tmp_path, "b")
    _, c = run(tmp_path, "c", "--normaliser", "english")
    capsys.readouterr()

    assert run_command(["compare", str(a), str(b)]) == 0
    assert "RTF, B / A" in capsys.readouterr().out
    assert run_command(["compare", str(a), str(c)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("wlk-bench: the error rates are not comparable: ")
    assert printed.err.count("\n") == 1


@pytest.mark.slow
def test_plot_draws_several_results_and_marks_what_is_not_comparable(tmp_path):
    """The figure is a PNG, drawn without a display; the legend gives the reason."""
    _, a = run(tmp_path, "a")
    _, b = run(tmp_path, "b", "--normaliser", "english")

    status = run_command(["plot", str(a), str(b), "--output", str(tmp_path / "x.png")])
    wrong = run_command(["plot", str(a), "--output", str(tmp_path / "x.pgn")])
    figure = plots.draw([read_result(a), read_result(b)])

    assert (status, wrong) == (0, 2)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("not comparable: normaliser basic and english" in name for name in names)
    assert not all("not comparable" in name for name in names)


@pytest.mark.parametrize(
    "command", [["plot", "."], ["capacity", "scripted"], ["annotator", "who", "."]], ids=" ".join
)
@pytest.mark.parametrize("folder", ["absent", __file__])
def test_a_missing_folder_of_the_output_is_refused_before_the_work(command, folder, capsys):
    """One line names the folder."""
    assert run_command([*command, "--output", f"{folder}/x.json"]) == 2
    assert capsys.readouterr().err == (
        f"wlk-bench: invalid value for '--output': cannot write into the directory {folder} "
        f"(see: wlk-bench {command[0]} --help)\n"
    )


def test_the_selftest_passes(capsys):
    """The exit status is 0 if every case is correct."""
    assert run_command(["selftest"]) == 0
    printed = capsys.readouterr().out
    assert "cases are correct" in printed
    assert "WRONG" not in printed


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["run", "scripted"], 2),
        (["run", "scripted", "--output", "x", "--option", "colour"], 2),
        ([], 2),
        (["dance"], 2),
        (["compare", "nowhere", "nowhere"], 2),
        (["run", "scripted", "--output", "x", "--data", "music"], 1),
        (["run", "scripted", "--output", "x", "--policy", "guess"], 2),
        (["--help"], 0),
        (["--version"], 0),
    ],
)
def test_the_status_gives_the_kind_of_end(arguments, status, tmp_path, monkeypatch, capsys):
    """0 means done, 1 that something failed, and 2 a usage error."""
    monkeypatch.chdir(tmp_path)

    assert run_command(arguments) == status
    lines = capsys.readouterr().err.splitlines()
    assert (status != 0) == len(lines)
    assert all(line.startswith("wlk-bench: ") for line in lines)
