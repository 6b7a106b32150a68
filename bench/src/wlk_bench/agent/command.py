"""The command `wlk-bench agent`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_bench.agent.protocols import PROTOCOLS, SessionSettings
from wlk_bench.errors import BenchError, extra
from wlk_bench.options import FiniteRange, output_option
from wlk_bench.report import grid, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT_SCHEMA = "wlk-bench-agent/1"
_LATE_SECONDS = 0.02  # the length of a chunk: a later one is late because of this machine
_MILLI = 1000.0


@click.command()
@click.argument("url")
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), required=True,
              help="What the server at URL speaks.")  # fmt: skip
@click.option("--model", help="Model that the client names.")
@click.option("--language", help="Language code that the client names.")
@click.option("--silence", "silence_seconds", type=FiniteRange(0.01, 60),
              help="Seconds of silence that end an utterance; else the server's.")  # fmt: skip
@click.option("--commit", "commit_seconds", type=FiniteRange(0, 60),
              help="Seconds after a sentence at which the client ends the utterance.")  # fmt: skip
@click.option("--data", default="digits", show_default=True, metavar="NAME",
              help="Sentences; see wlk-bench run.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1),
              help="Use at most this many sentences, taken from the speakers in turn.")  # fmt: skip
@click.option("--sessions", type=click.IntRange(min=1), default=1, show_default=True,
              help="Concurrent sessions; each speaks its share of the sentences.")  # fmt: skip
@click.option("--gap", "gap_seconds", type=FiniteRange(0.1, 60), default=2.0, show_default=True,
              help="Seconds of quiet between sentences.")  # fmt: skip
@click.option("--key-variable", metavar="NAME",
              help="Environment variable with the key that the server requires.")  # fmt: skip
@output_option(help="Write the report to this file, as JSON.")
def agent(
    *,
    url: str,
    protocol: str,
    data: str,
    limit: int | None,
    sessions: int,
    gap_seconds: float,
    key_variable: str | None,
    output: Path | None,
    **wanted: Any,
) -> None:
    """
    Measure how soon the server at URL has the final text after a person stops speaking.

    URL is the base address of the server, such as ws://127.0.0.1:8000.  Sentences are spoken in
    real time.
    """
    import asyncio  # noqa: PLC0415 -- `--help` needs none of these

    with extra("agent"):
        from websockets.asyncio.client import connect  # noqa: PLC0415 -- an extra
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 -- as above
    from wlk_bench.agent.conversation import compose  # noqa: PLC0415 -- imports numpy
    from wlk_bench.agent.latency import sentence_latencies, summarise_latencies  # noqa: PLC0415
    from wlk_bench.agent.session import speak_together  # noqa: PLC0415 -- as above
    from wlk_bench.data import load_dataset  # noqa: PLC0415 -- as above
    from wlk_bench.environment import describe_platform, detect_versions  # noqa: PLC0415

    kind = PROTOCOLS[protocol]
    commit_seconds = wanted["commit_seconds"]
    if commit_seconds is not None and commit_seconds >= gap_seconds:
        raise click.BadParameter(
            f"expected less than the gap of {gap_seconds:g} s", param_hint="--commit"
        )
    settings = SessionSettings(**wanted)
    kind(settings)  # a setting that the protocol does not have is refused at once
    headers = {"Authorization": f"{kind.key_scheme} {_key(key_variable)}"} if key_variable else {}
    dataset = load_dataset(data, limit=limit)
    count = min(sessions, len(dataset.samples))
    conversations = [
        compose(dataset.samples[number::count], gap_seconds=gap_seconds) for number in range(count)
    ]
    seconds = [conversation.seconds for conversation in conversations]
    click.echo(f"{count} sessions in real time: about {max(seconds) / 60:.1f} min", err=True)
    speaking = speak_together(
        conversations,
        lambda: kind(settings),
        lambda address: connect(address, additional_headers=headers, compression=None),
        url.rstrip("/"),
        commit_seconds=commit_seconds,
    )
    try:
        heard = asyncio.run(speaking)
    except (OSError, WebSocketException) as error:
        raise BenchError(f"{url} could not be measured: {error}") from error
    pairs = list(zip(conversations, heard, strict=True))
    latencies = [
        latency
        for conversation, each in pairs
        for latency in sentence_latencies(conversation, each, normaliser_name=dataset.normaliser)
    ]
    figures = summarise_latencies(latencies, lateness=[t for each in heard for t in each.lateness])
    if figures["lateness"]["p99"] > _LATE_SECONDS:
        click.echo(
            f"1 % of chunks were sent {_MILLI * figures['lateness']['p99']:.0f} ms late or more, "
            "which the latencies include; repeat the command on a quiet machine",
            err=True,
        )
    print_table(grid(f"{protocol}, {dataset.name}, {count} sessions", _rows(figures)))
    if output is not None:
        setup = {"url": url, "protocol": protocol, "data": dataset.name, "gap_seconds": gap_seconds}
        report = {
            "schema": AGENT_SCHEMA,
            "setup": {
                **setup,
                **wanted,
                "sessions": count,
                "audio_seconds": round(sum(seconds), 3),
                "normaliser": dataset.normaliser,
            },
            "platform": describe_platform(),
            "versions": detect_versions(["websockets"]),
            "summary": figures,
            "sentences": [attrs.asdict(latency) for latency in latencies],
        }
        output.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")


def _key(variable: str) -> str:
    key = os.environ.get(variable)
    if not key:
        raise click.BadParameter(f"{variable} is not set", param_hint="--key-variable")
    return key


def _rows(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    split, missing = figures["split"], figures["without_final"]
    yield "sentences", f"{figures['sentences']}, {missing} without a final, {split} in several"
    for label, name in (
        ("end of speech to last final", "final"),
        ("the same from the end that Silero detects", "ttfs"),
        ("end of speech to first final after it", "first_final"),
        ("commit to last final", "after_commit"),
        ("start of speech to first text", "first_partial"),
        ("end of first word to first text", "first_word"),
        ("end of a word to first text with it", "word"),
        ("chunks sent late by", "lateness"),
    ):
        if (spread := figures[name]) is not None:
            shown = ", ".join(f"{rank} {_MILLI * value:.0f}" for rank, value in spread.items())
            yield label, f"{shown} ms"
    if figures["wer"] is not None:
        counts = f"{figures['errors']} of {figures['words']}"
        yield "words wrong", f"{counts}, {100 * figures['wer']:.2f} %"
