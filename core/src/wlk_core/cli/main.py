"""The command group, which turns every failure into one line and an exit status."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout, suppress
import importlib
import io
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, TextIO

import click

from wlk_core.cli.signals import SIGNALS, SignalReceived
from wlk_core.cli.terminal import echo, print_error, usage_line
from wlk_core.errors import BackendUnavailable, OptionError, WLKError
from wlk_core.untrusted import printable_formatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.registry import Registry

_INTERRUPTED = "interrupted; everything done so far is kept"
_BROKEN_PIPE = 128 + 13  # SIGPIPE, which ends most programs whose reader has left

# The module and summary of each command of this distribution; the module is imported when the
# command is used.
_COMMANDS = {
    "backends": ("backends", "List the backends, or one with its models and options."),
    "plugins": ("backends", "List the installed plugins, including broken ones."),
    "models": ("models", "List the models and where each is."),
    "pull": ("models", "Fetch a model into the Hugging Face cache."),
    "rm": ("models", "Remove a model that was pulled."),
}
# Commands of this project's other distributions, each with its distribution and summary.
_OTHER_COMMANDS = {
    "transcribe": ("wlk-live", "Transcribe recordings and pipes, text as soon as it is final."),
    "listen": ("wlk-live", "Transcribe a microphone, words as they are spoken."),
    "demo": ("wlk-live", "Transcribe the bundled sample live, without a download."),
    "doctor": ("wlk-live", "Report what is installed, what works, and what to type next."),
    "config": ("wlk-live", "Show or change the defaults in config.toml."),
    "serve": ("wlk-serve", "Serve a model to OpenAI's own clients and others."),
}

# In a distribution's entry_points.txt, the group of plugins and the commands in it; in its
# METADATA, the summary.
_PLUGINS = re.compile(r"^\[wlk\.plugins\]$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^command\.([a-z][a-z0-9-]*) *=", re.MULTILINE)
_SUMMARY = re.compile(r"^Summary: *(.*)", re.MULTILINE)


class _LazyGroup(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return our own commands in the order of the help, and those of plugins."""
        return list(_installed_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; a plugin cannot replace one of ours."""
        if cmd_name in _COMMANDS:
            module = importlib.import_module(f"wlk_core.cli.{_COMMANDS[cmd_name][0]}")
            command: click.Command | None = getattr(module, cmd_name)
        else:
            try:
                command = registry_of(ctx).load_command(cmd_name, click.Command)
            except BackendUnavailable as error:
                raise click.UsageError(str(error), ctx) from error
        if command is None and not ctx.resilient_parsing:  # which is set during shell completion
            if cmd_name in _OTHER_COMMANDS:
                install = f"pip install {_OTHER_COMMANDS[cmd_name][0]}"
                raise click.UsageError(
                    f"the command {cmd_name!r} is not installed; install it with: {install}", ctx
                )
            raise click.exceptions.NoSuchCommand(
                cmd_name, possibilities={**_installed_commands(), **_OTHER_COMMANDS}, ctx=ctx
            )
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        installed = _installed_commands()
        absent: dict[str, list[str]] = {}
        for name, (distribution, _) in _OTHER_COMMANDS.items():
            if name not in installed:
                absent.setdefault(f"pip install {distribution}", []).append(name)
        with formatter.section("Commands"):
            formatter.write_dl(list(installed.items()))
        if absent:
            with formatter.section("Not installed"):
                formatter.write_dl([(", ".join(names), line) for line, names in absent.items()])


def _installed_commands() -> dict[str, str]:
    # Importing importlib.metadata and reading entry points with it would take as long as the rest
    # of --help.
    listed = {name: about for name, (_, about) in _COMMANDS.items()}
    for folder in dict.fromkeys(sys.path):
        with suppress(OSError):  # not a folder
            for name in sorted(os.listdir(folder or ".")):  # noqa: PTH208 -- pathlib takes 3 ms
                if name.endswith(".dist-info"):
                    group = _PLUGINS.search(_text_of(folder, name, "entry_points.txt"))
                    for command in _COMMAND.findall(group[1]) if group else ():
                        listed.setdefault(command, _summary(command, folder, name))
    order = [*_OTHER_COMMANDS, *listed]  # what most people look for comes first
    return {name: listed[name] for name in dict.fromkeys(order) if name in listed}


def _summary(command: str, folder: str, distribution: str) -> str:
    if command in _OTHER_COMMANDS:
        return _OTHER_COMMANDS[command][1]
    found = _SUMMARY.search(_text_of(folder, distribution, "METADATA"))
    return found[1] if found else ""


def _text_of(*path: str) -> str:
    with suppress(OSError), open("/".join(path), encoding="utf-8", errors="replace") as file:  # noqa: PTH123 -- as above
        return file.read()
    return ""


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wlk-core", message="wlk-core %(version)s")
def main() -> None:
    """
    Streaming speech recognition: one clock, one contract, backends as plugins.

    Results go to standard output.  Exit status: 0 done, 1 something failed, 2 wrong usage; 128 plus
    the number of the signal that ended the run, such as 130 for Ctrl-C.
    """


def run_program(
    command: click.Command = main, name: str = "wlk-core", interrupted: str = _INTERRUPTED
) -> None:
    """Run *command* as the program *name*, which prints *interrupted* after Ctrl-C, and exit."""
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    if instruction := os.environ.get(variable):  # a shell asks for what TAB can complete
        from click.shell_completion import shell_complete  # noqa: PLC0415 -- only then

        # While the user types, print nothing else; `bash_source` may report what a shell lacks.
        errors = io.StringIO() if instruction.endswith("_complete") else sys.stderr
        with redirect_stderr(errors), suppress(WLKError):
            sys.exit(shell_complete(command, {}, name, variable, instruction))
        sys.exit()
    _prepare_streams()
    SIGNALS.install()
    if command is not main:  # which calls this once it needs plugins
        show_warnings(name)
    status = execute(sys.argv[1:], command=command, name=name, interrupted=interrupted)
    try:
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            status = _BROKEN_PIPE
        elif status == 0:  # otherwise the failure has been reported in its one line
            print_error(error, name)
            status = 1
        # At exit the interpreter would flush what is pending, fail too and print its own message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if status == 128 + signal.SIGINT:
        # Python then kills itself with SIGINT: the status is still 130, and a shell loop around the
        # command ends too, which it would not after exit(130).  Other signals use exit, because the
        # first process of a container cannot kill itself with a signal.
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    sys.exit(status)


def execute(
    arguments: Sequence[str],
    registry: Registry | None = None,
    *,
    command: click.Command = main,
    name: str = "wlk-core",
    interrupted: str = _INTERRUPTED,
) -> int:
    """Run one command line, by default with the installed plugins; return its exit status."""
    SIGNALS.reset()
    if registry is not None:
        registry.guard = _prints_to_stderr
    status = 1
    try:
        # Not with click's `main`, which exits with 1 after a broken pipe.
        try:
            with command.make_context(name, list(arguments), obj=registry) as context:
                result = command.invoke(context)
            status = result if isinstance(result, int) else 0
        except click.exceptions.NoArgsIsHelpError as error:
            echo(error.format_message())
            status = 0
    except click.exceptions.Exit as error:  # for example after --help
        status = error.exit_code
    except (click.UsageError, OptionError) as error:
        print_error(usage_line(error) if isinstance(error, click.UsageError) else error, name)
        status = 2
    except (click.Abort, KeyboardInterrupt) as error:
        print_error(interrupted, name)
        status = error.status if isinstance(error, SignalReceived) else 128 + signal.SIGINT
    except BrokenPipeError:
        status = _BROKEN_PIPE  # no line: the reader has closed the pipe on purpose
    except (WLKError, OSError) as error:
        print_error(error, name)
    except BaseException as error:
        # Even a defect of ours is reported in one line, with a traceback on request.
        if os.environ.get("WLK_TRACEBACK", "0") not in {"", "0"}:
            raise
        notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        print_error(f"{reason}{notes} (a defect; get the traceback with WLK_TRACEBACK=1)", name)
    return status


def _prepare_streams() -> None:
    # A stream that was closed before this program began is replaced by the null device.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    # Standard output is for results only.  C libraries bypass Python's streams and write to its
    # descriptor, and one such line would corrupt JSON: the descriptor becomes standard error.
    results = os.dup(1)
    os.dup2(2, 1)
    # Results are UTF-8 in every locale.  What is not valid Unicode, for example in a file name, is
    # escaped as in JSON.
    sys.stdout = open(  # noqa: SIM115
        results, "w", encoding="utf-8", errors="backslashreplace", closefd=False
    )


def registry_of(context: click.Context | None = None) -> Registry:
    """Return the registry of this command line; the first call finds the installed plugins."""
    from wlk_core.registry import Registry  # noqa: PLC0415 -- not every command needs plugins

    root = (context or click.get_current_context()).find_root()
    if root.obj is None:
        show_warnings(str(root.info_name))
        root.obj = Registry(guard=_prints_to_stderr)
    registry: Registry = root.obj
    return registry


def _prints_to_stderr() -> redirect_stdout[TextIO]:
    # Standard output is for results, not for what a plugin prints.
    return redirect_stdout(sys.stderr)


def show_warnings(name: str) -> None:
    """Log errors, and the warnings of wlk packages, to standard error as the program *name*."""
    import logging  # noqa: PLC0415 -- not for `wlk-core --help`

    handler = logging.StreamHandler()
    handler.setFormatter(printable_formatter(f"{name}: %(message)s"))
    # Warnings of this project concern the user; those of other libraries rarely do.
    handler.addFilter(lambda line: line.levelno > logging.WARNING or line.name[:4] == "wlk_")
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its failures are raised
