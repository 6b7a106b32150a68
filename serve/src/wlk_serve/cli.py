"""The command ``wlk-core serve``, also installed as ``wlk-serve``."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
import gc
import json
import logging
import math
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wlk_core.cli.main import registry_of, run_program
from wlk_core.cli.options import backend_option
from wlk_core.errors import OptionError
from wlk_core.options import parse_pairs
from wlk_core.untrusted import printable_formatter
from wlk_frameworks.servers import is_loopback
from wlk_live.cli.options import (
    filter_options,
    model_option,
    pairs_option,
    parse_names,
    speaker_names_option,
    translator_options,
)
from wlk_live.whisperlivekit import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wlk_core.annotators import AnnotatorKind
    from wlk_serve.app import Server
    from wlk_serve.models.service import Service
    from wlk_serve.protocols.routes import ProtocolRoute

F = TypeVar("F", bound="Callable[..., Any]")

_PROGRAM = "wlk-serve"
_PORTS = 65_536
_MEGABYTE = 1_000_000
_WATCH_SECONDS = 2.0
_EXIT_SECONDS = 34.0  # after the drain: 30 to deliver the last words, the rest to join threads
_LOGGER = logging.getLogger(__name__)


def _number(name: str, default: float | None, about: str, lowest: float = 1) -> Callable[[F], F]:
    """Return a numeric option: an integer unless *default* is a float; None means no limit."""
    type_ = click.FloatRange(lowest) if isinstance(default, float) else click.IntRange(int(lowest))
    return click.option(name, type=type_, metavar="N", default=default, help=about)


def _parse_listens(
    _context: click.Context, _parameter: click.Parameter, listens: tuple[str, ...]
) -> dict[str, int]:
    ports: dict[str, int] = {}
    for listen in listens:
        name, _, port = listen.partition("=")
        if not (port.isascii() and port.isdigit() and int(port) < _PORTS):
            raise click.BadParameter(f"expected NAME=PORT such as wyoming=10300, got {listen!r}")
        ports[name] = int(port)
    return ports


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N", default=8000, help="Port; 0 picks one."
)
@backend_option(help="Backend to use; see: wlk-core backends.")
@model_option(help="Model to load; see: wlk-core models.")
@click.option("--language", metavar="CODE|auto", help="Language unless a client names one.")
@click.option("--option", "pairs", metavar="KEY=VALUE", multiple=True, help="Backend option.")
@click.option("--diarizer", metavar="NAME[=MODEL]", help="Find speakers with this plugin.")
@pairs_option("--diarizer-option", "diarizer_pairs", "Option of the diarizer")
@speaker_names_option
@click.option("--turn-detector", metavar="NAME[=MODEL]", help="End turns with this plugin.")
@pairs_option("--turn-detector-option", "turn_detector_pairs", "Option of the turn detector")
@translator_options
@filter_options
@click.option(
    "--served-name",
    "served_names",
    metavar="NAME",
    multiple=True,
    help="Model name that clients see, such as whisper-1, instead of its own.",
)
@click.option(
    "--api-key-env",
    metavar="NAME",
    help="Environment variable that holds the clients' keys, separated by commas.",
)
@click.option(
    "--allow-origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Website whose pages may use the server, such as https://captions.example.",
)
@click.option(
    "--listen",
    "listens",
    metavar="NAME=PORT",
    multiple=True,
    callback=_parse_listens,
    help="Serve a protocol on its own port, such as wyoming=10300.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Serve https and wss with this certificate and its chain, in PEM.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Key of the certificate, unless its file has the key too.",
)
@_number("--max-sessions", 100, "Maximum number of concurrent sockets and requests.")
@_number("--max-sessions-per-key", None, "Maximum number of sockets and requests per key at once.")
@_number("--max-upload-mb", 1000, "Maximum size of an uploaded recording.")
@_number("--max-audio-seconds", 43_200, "Maximum length of an uploaded recording.")
@_number("--max-session-seconds", 21_600, "Maximum length of a session over a socket.")
@_number("--idle-seconds", 600, "How long a client may send nothing over its socket.")
@_number("--drain-seconds", 20.0, "How long sessions may continue after SIGTERM.", lowest=0)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Log format on standard error.",
)
@click.version_option(package_name="wlk-serve", message="wlk-serve %(version)s")
def serve(
    *,
    host: str,
    port: int,
    backend: str | None,
    model: str | None,
    language: str | None,
    pairs: tuple[str, ...],
    diarizer: str | None,
    diarizer_pairs: tuple[str, ...],
    speaker_names: str | None,
    turn_detector: str | None,
    turn_detector_pairs: tuple[str, ...],
    translate_to: str | None,
    translator: str | None,
    translator_pairs: tuple[str, ...],
    filters: tuple[str, ...],
    filter_pairs: tuple[str, ...],
    served_names: tuple[str, ...],
    api_key_env: str | None,
    origins: tuple[str, ...],
    listens: dict[str, int],
    tls_certificate: str | None,
    tls_key: str | None,
    max_upload_mb: int,
    drain_seconds: float,
    log_format: str,
    **limits: Any,
) -> int:
    """Serve one model to the clients of OpenAI's audio API."""
    # Before numpy is imported.  Its threads gain nothing in features of a few seconds, and spin for
    # tens of milliseconds after each product, on the processors of engines and of the event loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from wlk_live.config import choose_settings  # noqa: PLC0415 -- not for --help
    from wlk_live.filter_choice import FilterChoice  # noqa: PLC0415 -- as above
    from wlk_live.translator_choice import TranslatorChoice  # noqa: PLC0415 -- as above
    from wlk_serve.admission import Admission, Limits, read_keys  # noqa: PLC0415 -- as above

    annotators: dict[AnnotatorKind, tuple[str, dict[str, str]]] = {}
    _add_annotator(annotators, "diarizer", diarizer, diarizer_pairs)
    _add_annotator(annotators, "turn-detector", turn_detector, turn_detector_pairs)
    if diarizer is None and speaker_names is not None:
        raise click.UsageError("--speaker-names needs a diarizer: --diarizer NAME")
    names = parse_names(speaker_names)
    keys = read_keys(api_key_env)
    is_local = is_loopback(host)
    if not keys and not is_local:
        raise OptionError(
            f"without keys the server listens on this machine only, not on {host}; "
            "put a key into an environment variable and name it with --api-key-env"
        )
    registry = registry_of()
    settings = choose_settings(
        registry, backend=backend, model=model, language=language, pairs=pairs
    )
    translation = TranslatorChoice.of(
        registry,
        {
            "translate_to": translate_to,
            "translator": translator,
            "translator_pairs": translator_pairs,
        },
    )
    filter_choice = FilterChoice.of(registry, {"filters": filters, "filter_pairs": filter_pairs})
    admission = Admission.of(keys, origins, is_local=is_local)

    from wlk_serve.app import Server  # noqa: PLC0415 -- brings numpy and starlette
    from wlk_serve.models.service import loaded_service  # noqa: PLC0415 -- as above
    from wlk_serve.protocols.installed import installed_routes  # noqa: PLC0415 -- as above
    from wlk_serve.server import DrainingServer, bound_sockets, tls_context  # noqa: PLC0415 -- uvicorn

    routes = installed_routes(registry)
    _check_listens(listens, routes)
    if tls_key and not tls_certificate:
        raise click.UsageError("--tls-key needs a certificate: --tls-certificate FILE")
    tls = tls_context(tls_certificate, tls_key) if tls_certificate else None
    chosen_limits = {name: value for name, value in limits.items() if value is not None}
    allowed = Limits(max_upload_bytes=max_upload_mb * _MEGABYTE, **chosen_limits)
    with (
        bound_sockets(host, port) as sockets,
        ExitStack() as stack,
        loaded_service(
            registry,
            settings,
            max_sessions=allowed.max_sessions,
            annotators=annotators,
            speaker_names=names,
            translation=translation,
            filters=filter_choice,
            served_names=served_names,
        ) as service,
    ):

        def on_ready(bound: int) -> None:
            _favour_the_event_loop()
            url_host = f"[{host}]" if ":" in host else host
            model_name = f"{settings.spec.name}, {service.card.name}"
            scheme = "http" if tls is None else "https"
            ready = f"ready on {scheme}://{url_host}:{bound} ({model_name})"
            if log_format == "json":
                _LOGGER.info("%s", ready)
            else:
                click.echo(f"{_PROGRAM}: {ready}", err=True)

        listeners = {
            name: stack.enter_context(bound_sockets(host, number))
            for name, number in listens.items()
        }
        _log_to_stderr(is_json=log_format == "json")
        server = Server(service, admission=admission, limits=allowed, routes=routes)
        threading.Thread(target=_watch, args=(server, service, drain_seconds), daemon=True).start()
        DrainingServer(
            server,
            drain_seconds=drain_seconds,
            listeners=listeners,
            on_ready=on_ready,
            tls=tls,
        ).run(sockets)
    return 0


def _add_annotator(
    annotators: dict[AnnotatorKind, tuple[str, dict[str, str]]],
    kind: AnnotatorKind,
    name: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Add the annotator that the flags choose, if any."""
    options = parse_pairs(pairs)
    if name is not None:
        annotators[kind] = name, options
    elif options:
        raise click.UsageError(f"--{kind}-option needs a {kind}: --{kind} NAME")


def _check_listens(listens: dict[str, int], routes: Iterable[ProtocolRoute]) -> None:
    """Raise OptionError if --listen names a protocol without a port of its own."""
    from wlk_serve.protocols.routes import TcpRoute  # noqa: PLC0415 -- not for --help

    known = sorted(route.protocol for route in routes if isinstance(route, TcpRoute))
    if unknown := sorted(listens.keys() - set(known)):
        raise OptionError(
            f"no protocol with its own port is called {unknown[0]!r}; "
            f"installed: {', '.join(known) or 'none'}"
        )


def _favour_the_event_loop() -> None:
    """Shorten what holds up the event loop: garbage collection, and threads with the GIL."""
    # Without this, each full garbage collection scans every object of the libraries and stops all
    # sessions for 30 ms.
    gc.collect()
    gc.freeze()
    # By default, each system call of the event loop can wait 5 ms for a thread that steps.
    sys.setswitchinterval(0.001)


def run() -> None:
    """Run the command as the program ``wlk-serve`` and exit with its status."""
    run_program(serve, _PROGRAM)


def _watch(server: Server, service: Service, drain_seconds: float) -> None:
    # A thread inside an engine call cannot be interrupted, and an orderly shutdown would wait for
    # it.  So the process exits, and a service manager can start another one.
    deadline = math.inf
    hung_checks = 0  # two in a row: a process that was frozen looks hung once
    while True:
        time.sleep(_WATCH_SECONDS)
        hung_checks = hung_checks + 1 if service.is_hung else 0
        if server.sessions.is_draining:
            deadline = min(deadline, time.monotonic() + drain_seconds + _EXIT_SECONDS)
        if hung_checks > 1 or time.monotonic() > deadline:
            _LOGGER.critical("an engine call does not return: exiting with status 1")
            os._exit(1)


class _JsonFormatter(logging.Formatter):
    """Records as JSON objects, with the time in UTC and what a record has in `extra["fields"]`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": super().format(record),
        }
        return json.dumps(line | getattr(record, "fields", {}))


def _log_to_stderr(*, is_json: bool) -> None:
    """Log life-cycle events, the end of each session and failures to standard error."""
    plain = printable_formatter(f"%(asctime)s {_PROGRAM}: %(message)s")
    for handler in logging.getLogger().handlers:  # the program's, which also log for plugins
        handler.setFormatter(_JsonFormatter() if is_json else plain)
    logging.getLogger("wlk_serve").setLevel(logging.INFO)
    # The parser warns about every malformed form, although the client gets a 400.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
