"""
Measure the time to final text of one server after another, for the table of docs/latency.md.

    python benchmarks/final_text.py --models DIR --sentences MANIFEST --output FOLDER \
        [--peer PYTHON] [--row NAME]... [--limit N]

DIR has the folders tiny.en, base, tiny.en-transformers and base-transformers that
`tools/real/weights.py` writes, and MANIFEST is that of `tools/real/sentences.py`.  PYTHON is that
of an environment with whisperlivekit 0.2.26; without it, its rows are left out.  FOLDER receives
the report of wlk-bench agent and the log of the server for each row.  An interrupted run is
continued: rows that are complete are only printed.  Linux only.

Each row has a server process of its own, which gets an unmeasured session first.  Client and server
share the machine, so the last column states how late the client sent its audio.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import attrs
from peer_whisperlivekit import alignment_heads
from serve_load.process import free_port, run_server, wlk_command

PEER = "whisperlivekit"
REALTIME = ("--protocol", "openai-realtime")
NOTICED = ("--silence", "5")  # the server has a detector, but the client ends the utterance
MILLI = 1000.0
HEADING = (
    f"{'':22} sentences  split  last final p50   p95   p99  TTFS p50   p95   p99"
    "  first final p50   p95  commit p50   p95  first word p50   p95"
    "  words wrong  CPU s/min  late p99"
)


@attrs.frozen
class Row:
    """A server, and the arguments of wlk-bench agent."""

    name: str
    backend: str  #: or PEER
    model: str  #: a folder of --models, or "digits", which are then the data too
    client: tuple[str, ...]
    options: tuple[str, ...] = ()  #: of the backend


ROWS = (
    Row("tiny.en", "faster-whisper", "tiny.en", (*REALTIME, "--silence", "0.2")),
    Row("base", "faster-whisper", "base", (*REALTIME, "--silence", "0.2")),
    # A server for several sessions gives a call one thread, unless the operator asks for more.
    Row(
        "tiny.en-2-threads",
        "faster-whisper",
        "tiny.en",
        (*REALTIME, "--silence", "0.2"),
        ("cpu_threads=2",),
    ),
    Row(
        "base-2-threads",
        "faster-whisper",
        "base",
        (*REALTIME, "--silence", "0.2"),
        ("cpu_threads=2",),
    ),
    Row("tiny.en-torch", "whisper", "tiny.en-transformers", (*REALTIME, "--silence", "0.2")),
    Row(
        "tiny.en-4-sessions",
        "faster-whisper",
        "tiny.en",
        (*REALTIME, "--silence", "0.2", "--sessions", "4"),
    ),
    Row("sherpa-digits", "sherpa", "digits", (*REALTIME, "--silence", "0.2")),
    Row("nemotron-digits", "nemotron", "digits", (*REALTIME, "--silence", "0.2")),
    Row("voxtral-hf-digits", "voxtral-hf", "digits", (*REALTIME, "--silence", "0.2")),
    Row("commit-0.2", "faster-whisper", "tiny.en", (*REALTIME, *NOTICED, "--commit", "0.2")),
    # A client whose own Silero waits for 0.2 s commits about then.
    Row("commit-0.3", "faster-whisper", "tiny.en", (*REALTIME, *NOTICED, "--commit", "0.3")),
    Row(
        "finalize-0.2",
        "faster-whisper",
        "tiny.en",
        ("--protocol", "deepgram", *NOTICED, "--commit", "0.2"),
    ),
    Row("commit-0", "faster-whisper", "tiny.en", (*REALTIME, *NOTICED, "--commit", "0")),
    Row("asr", "faster-whisper", "tiny.en", ("--protocol", PEER)),
    Row(f"{PEER}-localagreement", PEER, "tiny.en", ("--protocol", PEER)),
    Row(f"{PEER}-alignatt", PEER, "tiny.en", ("--protocol", PEER)),
    Row("deepgram", "faster-whisper", "tiny.en", ("--protocol", "deepgram", "--silence", "0.3")),
    Row("deepgram-flux", "faster-whisper", "tiny.en", ("--protocol", "deepgram-flux")),
    Row(
        "vllm-0.2",
        "faster-whisper",
        "tiny.en",
        ("--protocol", "vllm", "--model", "tiny.en", "--commit", "0.2"),
    ),
    Row("base-torch", "whisper", "base-transformers", (*REALTIME, "--silence", "0.2")),
    Row("tiny.en-0.5", "faster-whisper", "tiny.en", (*REALTIME, "--silence", "0.5")),
)


def server_command(row: Row, arguments: argparse.Namespace, port: int) -> list[str]:
    """Return the command that starts the server of *row*."""
    if row.backend != PEER:
        model = row.model if row.model == "digits" else str(arguments.models / row.model)
        language = "en" if row.model != "digits" else ""
        return wlk_command(port, row.backend, model, [*row.options], language)
    ctranslate2 = arguments.models / row.model
    command = [str(arguments.peer), "-m", "whisperlivekit.basic_server", "--port", str(port)]
    command += ["--pcm-input", "--lan", "en", "--warmup-file", "", "--log-level", "WARNING"]
    if "localagreement" in row.name:
        policy = ("--backend-policy", "localagreement", "--backend", "faster-whisper")
        return [*command, *policy, "--model-path", str(ctranslate2)]
    # It takes a model for English if the name of its folder ends in .en.
    transformers = arguments.models / f"{row.model}-transformers"
    named = arguments.output / "transformers" / row.model
    named.parent.mkdir(exist_ok=True)
    named.unlink(missing_ok=True)
    named.symlink_to(transformers.resolve())
    heads = ("--custom-alignment-heads", alignment_heads(transformers))
    encoder = ("--encoder-model-path", str(ctranslate2))
    return [*command, "--model-path", str(named), *encoder, *heads]


def data_of(row: Row, arguments: argparse.Namespace) -> str:
    """Return what is spoken to the server of *row*, as --data of wlk-bench."""
    return "digits" if row.model == "digits" else f"manifest:{arguments.sentences}"


def client_command(row: Row, arguments: argparse.Namespace, address: str) -> list[str]:
    """Return the command that measures the server of *row* at *address*."""
    data = data_of(row, arguments)
    url = f"{address}/vllm" if "vllm" in row.client else address
    command = [sys.executable, "-m", "wlk_bench", "agent", url, *row.client, "--data", data]
    return [*command, *(("--limit", str(arguments.limit)) if arguments.limit else ())]


def measure(row: Row, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the report of a row, and write it once it is complete."""
    path = arguments.output / f"{row.name}.json"
    wanted = {
        "backend": row.backend,
        "options": list(row.options),
        "client": list(row.client),
        "model": row.model,
        "data": data_of(row, arguments),
        "limit": arguments.limit,
    }
    if path.exists():
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if report["row"] == wanted:
            return report
    port = free_port()
    part = path.with_suffix(".part")
    with (
        path.with_suffix(".log").open("w") as log,
        run_server(server_command(row, arguments, port), port, core=None, output=log) as server,
    ):
        client = client_command(row, arguments, server.address)
        warm = [*client, "--limit", "1"]
        warm[warm.index("--data") + 1] = "digits"
        subprocess.run(warm, check=True, capture_output=True)  # noqa: S603 -- the command above
        cpu = server.cpu_seconds
        measured = [*client, "--output", str(part)]
        subprocess.run(measured, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 -- as above
        cpu = server.cpu_seconds - cpu
    report = json.loads(part.read_text(encoding="utf-8"))
    minutes = report["setup"]["audio_seconds"] / 60
    report |= {"row": wanted, "server": {"cpu_per_minute": cpu / minutes}}
    path.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")
    part.unlink()
    return report


def line(row: Row, report: dict[str, Any]) -> str:
    """Return the figures of a row, in milliseconds."""
    figures = report["summary"]

    def spread(name: str, *ranks: int, widths: tuple[int, ...]) -> str:
        values = [(figures[name] or {}).get(f"p{rank}") for rank in ranks]
        shown = ["-" if value is None else f"{MILLI * value:.0f}" for value in values]
        return "".join(f"{text:>{width}}" for text, width in zip(shown, widths, strict=True))

    sentences = f"{figures['sentences']}"
    if figures["without_final"]:
        sentences += f" - {figures['without_final']}"
    return (
        f"{row.name:22} {sentences:>9}  {figures['split']:5}  "
        + spread("final", 50, 95, 99, widths=(14, 6, 6))
        + spread("ttfs", 50, 95, 99, widths=(10, 6, 6))
        + spread("first_final", 50, 95, widths=(17, 6))
        + spread("after_commit", 50, 95, widths=(12, 6))
        + spread("first_word", 50, 95, widths=(16, 6))
        + f"{100 * figures['wer']:11.1f} %{report['server']['cpu_per_minute']:11.1f}"
        + spread("lateness", 99, widths=(10,))
    )


def main() -> None:
    """Measure the rows that are not complete, and print all of them."""
    parser = argparse.ArgumentParser(description="time to final text of one server after another")
    parser.add_argument("--models", type=Path, required=True, help="folders of published weights")
    parser.add_argument("--sentences", type=Path, required=True, help="a manifest")
    parser.add_argument("--output", type=Path, required=True, help="a folder")
    parser.add_argument("--peer", type=Path, help=f"the Python of an environment with {PEER}")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], dest="names")
    parser.add_argument("--limit", type=int, help="sentences of each row")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    print(HEADING)
    failed = []
    for row in ROWS:
        if row.name not in (arguments.names or [row.name]):
            continue
        if row.backend == PEER and arguments.peer is None:
            print(f"{row.name:22} left out: expected --peer PYTHON")
            continue
        try:
            print(line(row, measure(row, arguments)), flush=True)
        except (subprocess.CalledProcessError, SystemExit) as error:
            failed.append(row.name)
            print(f"{row.name:22} {error}; see {arguments.output / row.name}.log", flush=True)
    if failed:
        raise SystemExit(f"{', '.join(failed)}: not measured; run the same command again")


if __name__ == "__main__":
    main()
