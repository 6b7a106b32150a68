"""The command group and the one place where a failure becomes a line and an exit status."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

import click

from wlk_core.errors import OptionError, WLKError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.registry import Registry

__all__ = ["execute", "main", "prepare_streams", "registry_of", "say"]

FAILED = 1
USAGE = 2

# Each command lives in a module of its own, which is imported when the command is used.
_COMMANDS = {
    "transcribe": ("transcribe", "Write down what is said in recordings."),
    "demo": ("demo", "Hear the bundled sample become timed words, live and offline."),
    "backends": ("listing", "List the backends: models, policies, options, what is missing."),
    "plugins": ("listing", "List the installed plugins, broken ones too."),
    "models": ("models", "List the models and where they are."),
    "pull": ("models", "Fetch a model from its hub."),
    "rm": ("models", "Remove a model that was pulled."),
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


@click.group(cls=_LazyGroup, no_args_is_help=False)
@click.version_option(package_name="wlk-core", message="wlk-core %(version)s")
def main() -> None:
    """
    Streaming speech recognition: one clock, one contract, backends as plugins.

    Results go to standard output.  Exit status: 0 done, 1 something failed, 2 wrong usage.
    """


def execute(arguments: Sequence[str], registry: Registry | None = None) -> int:
    """
    Run one command line and return its exit status.

    Whatever fails is one line on standard error.  `registry` replaces what is installed.
    """
    try:
        status = main.main(list(arguments), "wlk-core", standalone_mode=False, obj=registry)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "wlk-core"
        say(f"{_plain(error.format_message())} (see: {where} --help)")
        return USAGE
    except OptionError as error:
        say(error)
        return USAGE
    except WLKError as error:
        say(error)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted; what was done by then is kept")
    except BrokenPipeError:
        _let_go_of_output()  # whoever read this has seen enough
    except OSError as error:
        say(error)
        _let_go_of_output()
    except Exception as error:
        # The last seam: a defect of ours is still one line, and the traceback for the asking.
        if os.environ.get("WLK_TRACEBACK", "0") not in {"", "0"}:
            raise
        say(f"{type(error).__name__}: {error} (a defect; see where with WLK_TRACEBACK=1)")
    return FAILED


def prepare_streams() -> None:
    """Let results be UTF-8 whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        # Of text that is no Unicode (a file name) the escape is also what JSON would write.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def say(message: object) -> None:
    """Write one line to standard error."""
    click.echo(f"wlk-core: {' '.join(str(message).split())}", err=True)


def registry_of(context: click.Context) -> Registry:
    """
    Return the registry of this run.

    On first use the installed plugins are looked at, and what is logged below an error is hushed:
    of a failure that was overcome nobody needs a line, and of the others there is one already.
    """
    import logging  # noqa: PLC0415 -- as below

    from wlk_core.registry import Registry  # noqa: PLC0415 -- `--help` needs no plugins

    root = context.find_root()
    if root.obj is None:
        logging.basicConfig(format="wlk-core: %(message)s", level=logging.ERROR)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its failures are ours
        root.obj = Registry()
    registry: Registry = root.obj
    return registry


def _plain(message: str) -> str:
    """Return click's message in the style of ours: lower case, no full stop."""
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")


def _let_go_of_output() -> None:
    """Point standard output nowhere, so that the interpreter's last flush cannot fail."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # not a real file: there is nothing that a flush could break
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
