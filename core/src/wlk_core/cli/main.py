"""The command group, and the conversion of every failure into a line and an exit status."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

import click

from wlk_core.cli.tables import printable
from wlk_core.errors import OptionError, WLKError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.registry import Registry

__all__ = ["execute", "main", "prepare_streams", "print_error", "registry_of"]

FAILED = 1
USAGE = 2

# Each command lives in a module of its own, which is imported when the command is used.
_COMMANDS = {
    "transcribe": ("transcribe", "Transcribe recordings and pipes, words as they are final."),
    "demo": ("demo", "Transcribe the bundled sample live, without a download."),
    "doctor": ("doctor", "Report what is installed, what works, and what to type next."),
    "backends": ("backends", "List the backends, or one with its models and options."),
    "plugins": ("plugins", "List the installed plugins, broken ones too."),
    "models": ("models", "List the models and where each is."),
    "pull": ("models", "Fetch a model into the Hugging Face cache."),
    "rm": ("models", "Remove a model that was pulled."),
    "config": ("configure", "Show or change the defaults in config.toml."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"wlk_core.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="wlk-core", message="wlk-core %(version)s")
def main() -> None:
    """
    Streaming speech recognition: one clock, one contract, backends as plugins.

    Results go to standard output.  Exit status: 0 done, 1 something failed, 2 wrong usage.
    """


def execute(arguments: Sequence[str], registry: Registry | None = None) -> int:
    """
    Run one command line and return its exit status.

    Each failure is one line on standard error.  `registry` replaces what is installed.
    """
    if sys.stdout is None:  # the descriptor was closed before this program began
        print_error("standard output is closed; send it to a file or a pipe")
        return FAILED
    try:
        status = main.main(list(arguments), "wlk-core", standalone_mode=False, obj=registry)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "wlk-core"
        print_error(f"{_plain(error.format_message())} (see: {command} --help)")
        return USAGE
    except OptionError as error:
        print_error(error)
        return USAGE
    except WLKError as error:
        print_error(error)
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted; what was done by then is kept")
    except BrokenPipeError:
        _detach_standard_output()  # the reader has closed the pipe: it needs no more
    except OSError as error:
        print_error(error)
        _detach_standard_output()
    except Exception as error:
        # The last seam: a defect of ours is still one line, with a traceback on request.
        if os.environ.get("WLK_TRACEBACK", "0") not in {"", "0"}:
            raise
        print_error(
            f"{type(error).__name__}: {error} (a defect; get the traceback with WLK_TRACEBACK=1)"
        )
    return FAILED


def prepare_streams() -> None:
    """Let results be UTF-8 in every locale."""
    for stream in (sys.stdout, sys.stderr):
        # Of text that is no Unicode (a file name) the escape is also what JSON would write.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def print_error(message: object) -> None:
    """Write one line to standard error; control characters become escapes."""
    click.echo(f"wlk-core: {printable(' '.join(str(message).split()))}", err=True)


def registry_of(context: click.Context) -> Registry:
    """
    Return the registry of this run.

    The first call finds the installed plugins.  From then on only errors are logged, because a
    recovered failure is not worth a line and any other is printed by the command itself.
    """
    import logging  # noqa: PLC0415 -- as below

    from wlk_core.registry import Registry  # noqa: PLC0415 -- `--help` needs no plugins

    root = context.find_root()
    if root.obj is None:
        logging.basicConfig(format="wlk-core: %(message)s", level=logging.ERROR)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its failures are raised
        logging.getLogger("wlk_core.audio").setLevel(logging.WARNING)  # a file that may be cut
        root.obj = Registry()
    registry: Registry = root.obj
    return registry


def _plain(message: str) -> str:
    """Return click's message in the style of ours: lower case, no full stop."""
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")


def _detach_standard_output() -> None:
    """Point standard output at the null device, so that the interpreter's last flush succeeds."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # not a real file: there is nothing that a flush could break
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
