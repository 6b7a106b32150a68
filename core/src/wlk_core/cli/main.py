"""The command group, and the conversion of every failure into a line and an exit status."""

from __future__ import annotations

from contextlib import suppress
import difflib
import importlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.foreign import watched
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.errors import OptionError, WLKError
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.registry import Registry

__all__ = [
    "execute",
    "main",
    "prepare_streams",
    "print_error",
    "registry_of",
    "run_program",
    "usage_line",
]

PROGRAM = "wlk-core"
FAILED = 1
USAGE = 2
_INTERRUPTED = 130  # the status of a program that Ctrl-C ended
_STANDARD_DESCRIPTORS = (0, 1, 2)
_BROKEN_PIPE = 128 + 13  # SIGPIPE, which ends most programs whose reader has left

# Each command lives in a module of its own, which is imported when the command is used.
_COMMANDS = {
    "transcribe": ("transcribe", "Transcribe recordings and pipes, words as they are final."),
    "listen": ("listen", "Transcribe a microphone, words as they are spoken."),
    "demo": ("demo", "Transcribe the bundled sample live, without a download."),
    "doctor": ("doctor", "Report what is installed, what works, and what to type next."),
    "backends": ("backends", "List the backends, or one with its models and options."),
    "plugins": ("plugins", "List the installed plugins, broken ones too."),
    "models": ("models", "List the models and where each is."),
    "pull": ("models", "Fetch a model into the Hugging Face cache."),
    "rm": ("models", "Remove a model that was pulled."),
    "config": ("configure", "Show or change the defaults in config.toml."),
}

# Commands of other distributions of this project, and how to install each.
_INSTALLABLE = {"serve": "pip install wlk-serve"}


class _ReaderLeft(Exception):  # noqa: N818 -- nothing is wrong
    """The reader of standard output closed the pipe, which click turns into an exit with 1."""


class _LazyGroup(click.Group):
    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments; those such as --help write."""
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError as error:
            raise _ReaderLeft from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderLeft from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of this distribution's own commands, in the order of the help."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; one of a plugin may not have the name of one of ours."""
        if cmd_name not in _COMMANDS:
            found: click.Command | None = registry_of(ctx).load_command(cmd_name)
            return found
        module = importlib.import_module(f"wlk_core.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the message about an unknown one has what to type instead."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            message = error.message.rstrip(".") + self._hint(ctx, args[0])
            raise click.UsageError(message, error.ctx) from error

    def _hint(self, ctx: click.Context, name: str) -> str:
        if name in _INSTALLABLE:
            return f"; install it with: {_INSTALLABLE[name]}"
        names = [*_COMMANDS, *registry_of(ctx).commands()]
        close = difflib.get_close_matches(name, names, n=1)
        return f" (did you mean {close[0]}?)" if close else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        rows = {name: about for name, (_, about) in _COMMANDS.items()}
        for name, about in registry_of(ctx).commands().items():
            rows.setdefault(name, about)
        with formatter.section("Commands"):
            formatter.write_dl(list(rows.items()))


@click.group(
    cls=_LazyGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="wlk-core", message="wlk-core %(version)s")
def main() -> None:
    """
    Streaming speech recognition: one clock, one contract, backends as plugins.

    Results go to standard output.  Exit status: 0 done, 1 something failed, 2 wrong usage; 128 and
    the number of a signal that ended it, such as 130 for Ctrl-C.
    """


def run_program(command: click.Command = main, name: str = PROGRAM) -> None:
    """Run the command line of this process as the program *name* and exit with its status."""
    prepare_streams()
    STOPS.install()
    status = execute(sys.argv[1:], command=command, name=name)
    if status == _INTERRUPTED:
        # Python ends by SIGINT itself then: the status is 130 all the same, and a loop of a shell
        # ends too, which it does not after an exit with 130.
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    sys.exit(status)


def execute(
    arguments: Sequence[str],
    registry: Registry | None = None,
    *,
    command: click.Command = main,
    name: str = PROGRAM,
) -> int:
    """
    Run one command line and return its exit status.

    Each failure is one line on standard error, which begins with the *name* of the program.
    `registry` replaces what is installed.
    """
    STOPS.reset()

    def report(message: object) -> None:
        print_error(message, name)

    if sys.stdout is None:  # the descriptor was closed before this program began
        report("standard output is closed; send it to a file or a pipe")
        return FAILED
    status = FAILED
    try:
        result = command.main(list(arguments), name, standalone_mode=False, obj=registry)
        status = result if isinstance(result, int) else 0
        _flush_results(is_known_to_fail=status != 0)
    except (click.UsageError, OptionError) as error:
        report(usage_line(error) if isinstance(error, click.UsageError) else error)
        status = USAGE
    except WLKError as error:
        report(error)
    except (click.Abort, KeyboardInterrupt) as error:
        report("interrupted; what was done by then is kept")
        status = _signal_status(error)
    except (_ReaderLeft, BrokenPipeError):
        _detach_standard_output()  # the reader has closed the pipe: it needs no more
        status = _BROKEN_PIPE
    except OSError as error:
        report(error)
        _detach_standard_output()
    except BaseException as error:
        # The last seam: a defect of ours is still one line, with a traceback on request.
        if os.environ.get("WLK_TRACEBACK", "0") not in {"", "0"}:
            raise
        report(_unexpected(error))
    return status


def _flush_results(*, is_known_to_fail: bool) -> None:
    """Write what is pending; a failure that has its line already gets no other one."""
    try:
        sys.stdout.flush()
    except OSError:
        if not is_known_to_fail:
            raise
        _detach_standard_output()


def prepare_streams() -> None:
    """
    Let results be UTF-8 in every locale, and keep standard output for them alone.

    What libraries and plugins write to its descriptor goes to standard error.  Descriptors that
    were closed before this program began lead to the null device, because the next file that is
    opened would get their number, and the errors of a library with it.
    """
    for descriptor in _STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 -- until the end
    output, error = _STANDARD_DESCRIPTORS[1:]
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        results = os.dup(output)
        os.dup2(error, output)
        sys.stdout = open(results, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Of text that is no Unicode (a file name) the escape is also what JSON would write.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def print_error(message: object, name: str = PROGRAM) -> None:
    """Write one line to standard error; control characters become escapes."""
    with suppress(OSError):  # there is no other stream for what this one does not take
        click.echo(f"{name}: {printable(' '.join(str(message).split()))}", err=True)


def usage_line(error: click.UsageError) -> str:
    """Return the message of a wrong command line in one line, with the help to read."""
    command = error.ctx.command_path if error.ctx else PROGRAM
    return f"{_plain(error.format_message())} (see: {command} --help)"


def registry_of(context: click.Context) -> Registry:
    """
    Return the registry of this run.

    The first call finds the installed plugins.  From then on only errors are logged, because a
    recovered failure is not worth a line and any other is printed by the command itself.
    """
    import logging  # noqa: PLC0415 -- as below

    from wlk_core.cli.terminal import PrintableFormatter  # noqa: PLC0415 -- as below
    from wlk_core.registry import Registry  # noqa: PLC0415 -- `--help` needs no plugins

    root = context.find_root()
    if root.obj is None:
        handler = logging.StreamHandler()
        handler.setFormatter(PrintableFormatter("wlk-core: %(message)s"))
        logging.basicConfig(handlers=[handler], level=logging.ERROR)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its failures are raised
        logging.getLogger("wlk_core.audio").setLevel(logging.WARNING)  # channels that cancel
        root.obj = Registry()
    registry: Registry = root.obj
    registry.watch = lambda plugin: watched(plugin, print_error)
    return registry


def _unexpected(error: BaseException) -> str:
    """Describe what no command expected; only foreign code ends the program by an exception."""
    from wlk_core.untrusted import reason  # noqa: PLC0415 -- `--help` needs no plugins

    description = ", ".join([reason(error), *getattr(error, "__notes__", ())])
    if not isinstance(error, Exception):
        return f"code of a plugin tried to end this program ({description})"
    return f"{description} (a defect; get the traceback with WLK_TRACEBACK=1)"


def _plain(message: str) -> str:
    """Return click's message in the style of ours: lower case, no full stop."""
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")


def _signal_status(error: BaseException) -> int:
    """Return the exit status of a run that a signal ended, or an answer that never came."""
    cause = error if isinstance(error, KeyboardInterrupt) else error.__cause__
    if isinstance(cause, Stopped):
        return cause.status
    return FAILED if isinstance(cause, EOFError) else 128 + signal.SIGINT


def _detach_standard_output() -> None:
    """Point standard output at the null device, so that the interpreter's last flush succeeds."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # not a real file: there is nothing that a flush could break
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
