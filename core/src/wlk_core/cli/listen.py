"""The command ``listen``: a microphone to text, while the words are spoken."""

from __future__ import annotations

from collections import deque
from contextlib import closing
import os
import signal
import sys
from time import perf_counter
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core.cli.locks import locked
from wlk_core.cli.main import print_error, registry_of
from wlk_core.cli.options import BackendCommand, live_options
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.config import choose_settings
from wlk_core.errors import AudioDeviceError, AudioFormatError, WLKError

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.cli.live_source import LiveSource
    from wlk_core.cli.live_view import View
    from wlk_core.cli.saves import Save
    from wlk_core.cli.serialize import Outcome
    from wlk_core.cli.writers import Writer
    from wlk_core.config import Settings
    from wlk_core.microphone import Captured
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session import Session
    from wlk_core.session.events import Event

__all__ = ["listen"]

_WAIT_SECONDS = 0.1
_MOST_WAITING_SECONDS = 30.0  # in the session, which reports them as lag
_BAR = 10  # characters of the level meter
_BAR_FLOOR = -60.0  # decibels


@click.command(cls=BackendCommand, short_help="Transcribe a microphone.")
@click.option("--device", metavar="NAME", help="Microphone: its number or a part of its name.")
@click.option("--list-devices", is_flag=True, help="List the microphones and exit.")
@click.option("--input", "file", metavar="FILE", help="Play a recording in real time instead.")
@click.option(
    "--save",
    "saves",
    metavar="PATH",
    multiple=True,
    help="Keep the result in a file ending with .txt, .srt, .vtt, .json or .wav; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@live_options
@click.pass_context
def listen(
    context: click.Context,
    *,
    device: str | None,
    list_devices: bool,
    file: str | None,
    saves: tuple[str, ...],
    force: bool,
    backend: str | None,
    model: str | None,
    language: str | None,
    task: str,
    policy: str | None,
    pairs: tuple[str, ...],
    no_vad: bool,
    offline: bool,
) -> int:
    """
    Transcribe a microphone until Ctrl-C, with words as soon as they are final.

    The files of --save are kept up to date, and nothing that was committed is lost when the run
    ends.  A microphone needs the package sounddevice: pip install 'wlk-core[mic]'.
    """
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_source import FileSource  # noqa: PLC0415 -- brings numpy and av
    from wlk_core.cli.live_view import loading, open_live_view  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.saves import check_saves, open_save  # noqa: PLC0415 -- brings numpy
    from wlk_core.microphone import (  # noqa: PLC0415 -- only where it is used
        NO_DEVICE,
        Microphone,
        SoundDevice,
        choose_device,
    )

    if list_devices:
        devices = SoundDevice().devices()
        if not devices:
            raise AudioDeviceError(NO_DEVICE)
        for found in devices:
            mark = "*" if found.is_default else " "
            click.echo(f"{mark} {found.index:3} {found.name}  ({found.rate} Hz)")
        return 0
    if device is not None and file is not None:
        raise click.UsageError("--device and --input exclude each other; choose one")
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the frameworks under the backends read it too
    paths = check_saves(saves, is_forced=force, recording=file)
    registry = registry_of(context)
    settings = choose_settings(
        registry, backend=backend, model=model, language=language, policy=policy, pairs=pairs
    )
    settings.spec.check_task(task)
    if file is None:  # what is absent is reported before a model is loaded
        choose_device(SoundDevice().devices(), device)
    else:
        audio_duration(file)
    with locked(paths):
        with loading(f"{settings.spec.name} {settings.model}"):
            loaded = settings.load(registry)
        with loaded, open_live_view() as view:
            loaded.warmup()
            processor = loaded.create_processor(
                language=settings.language, task=task, **settings.options.stream
            )
            source: LiveSource = Microphone(device) if file is None else FileSource(file)
            with closing(processor), closing(source):
                session = _open_session(processor, source.rate, vad=not no_vad)
                title = "microphone" if file is None else os.path.basename(file)  # noqa: PTH119
                view.begin(title, None)
                run = _Run(
                    source=source,
                    session=session,
                    view=view,
                    writer=_standard_writer(view),
                    saves={path: open_save(path, source.rate) for path in paths},
                    outcome=_outcome(settings, title),
                )
                return run.execute()


@attrs.define(kw_only=True)
class _Run:
    """One call of the command, from the first sample to the last word."""

    source: LiveSource
    session: Session
    view: View
    writer: Writer
    saves: dict[Path, Save]
    outcome: Outcome
    has_failed: bool = False
    _waiting: deque[Captured] = attrs.field(factory=deque)
    _problem: str | None = None
    _level: float = -96.0
    _began: float = attrs.field(factory=perf_counter)

    def execute(self) -> int:
        """Transcribe until the source ends or a signal comes; return the exit status."""
        stopped: Stopped | None = None
        try:
            try:
                self._capture()
            except Stopped as stop:
                stopped = stop
                STOPS.reset()  # a second signal ends the run at once
                if stop.number != signal.SIGINT:
                    self.outcome.incomplete = f"stopped by {stop.name}"
            except (AudioFormatError, OSError) as error:
                self.outcome.incomplete = str(error)
                self._fail(error)
            STOPS.hold()
            self._receive_waiting()
            self.session.end_audio()
            self._work_off()
        except WLKError as error:
            self.outcome.incomplete = str(error)
            self._fail(error)
        finally:
            STOPS.hold()
            self._finish()
        self._summarise()
        if stopped is not None and stopped.number != signal.SIGINT:
            return stopped.status
        return 1 if self.has_failed else 0

    def _capture(self) -> None:
        while True:
            STOPS.release()  # a signal ends the wait for audio
            captured = self._read()
            STOPS.hold()
            if captured is None:
                return
            self._waiting.extend(captured)
            while self._waiting and self.session.backlog_seconds < _MOST_WAITING_SECONDS:
                self._receive(self._waiting.popleft())
            if self.session.has_work:
                self._show(self.session.step())
            self._note()

    def _receive_waiting(self) -> None:
        """Decode what was captured and did not fit into the session."""
        while self._waiting:
            self._receive(self._waiting.popleft())
            self._work_off()

    def _read(self) -> list[Captured] | None:
        return self.source.read(0.0 if self.session.has_work else _WAIT_SECONDS)

    def _receive(self, block: Captured) -> None:
        from wlk_core.cli.live_source import level_decibels  # noqa: PLC0415 -- brings numpy

        self._level = level_decibels(block.audio)
        for path, save in list(self.saves.items()):
            with self._guard(path):
                save.add_audio(block)
        if block.lost_seconds:
            self.session.skip(block.lost_seconds)
        self.session.receive(block.audio)

    def _work_off(self) -> None:
        while self.session.has_work:
            self._show(self.session.step())

    def _show(self, events: list[Event]) -> None:
        from wlk_core.session import AudioGap, End, Failure  # noqa: PLC0415 -- brings numpy

        for event in events:
            if isinstance(event, End):
                self.outcome.end(event, perf_counter() - self._began)
            else:
                self.outcome.add(event)
            self.writer.write(event)
            for path, save in list(self.saves.items()):
                with self._guard(path):
                    save.add_event(event, self.outcome)
            self.view.show(event)
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                self._line(str(event.error))
            elif isinstance(event, AudioGap):
                seconds = event.end - event.start
                self._line(f"{seconds:.1f} s from {event.start:.1f} s on were not captured")

    def _note(self) -> None:
        """Show level and lag; print what is wrong with the device once."""
        if self.source.problem != self._problem:
            self._problem = self.source.problem
            if self._problem is not None:
                self._line(self._problem)
        filled = round(_BAR * max(0.0, 1 - self._level / _BAR_FLOOR))
        lag = self.session.backlog_seconds
        late = f"  {lag:.1f} s late" if lag >= 1 else ""
        self.view.note(f"{'▮' * filled}{'▯' * (_BAR - filled)}{late}")

    def _finish(self) -> None:
        for path, save in list(self.saves.items()):
            with self._guard(path):
                save.finish(self.outcome)
        self.writer.finish(self.outcome)

    def _summarise(self) -> None:
        """Print length and latency, on a terminal."""
        latency = self.outcome.latency
        if self.view.is_live and latency is not None:
            self.view.hide()
            click.echo(
                f"{self.outcome.audio_time:.1f} s of audio, {latency.words} words, final "
                f"{latency.median:.2f} s after their end (median; 90 % within {latency.p90:.2f} s)",
                err=True,
            )

    def _guard(self, path: Path) -> _Guard:
        return _Guard(self, path)

    def _fail(self, error: Exception) -> None:
        self.has_failed = True
        self._line(str(error))

    def _line(self, text: str) -> None:
        self.view.hide()
        print_error(text)


@attrs.frozen
class _Guard:
    """A file that cannot be written is one line; the other files and the text go on."""

    _run: _Run
    _path: Path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, OSError):
            return False
        del self._run.saves[self._path]
        self._run._fail(error)  # noqa: SLF001 -- a part of the run
        return True


def _open_session(processor: OnlineProcessor, rate: int, *, vad: bool) -> Session:
    from wlk_core.session import Session as OpenSession  # noqa: PLC0415 -- brings numpy
    from wlk_core.vad import SilenceGate, SileroDetector  # noqa: PLC0415 -- loads its model

    gate = SilenceGate(SileroDetector()) if vad else None
    return OpenSession(processor, gate=gate, rate=rate)


def _standard_writer(view: View) -> Writer:
    from wlk_core.cli.outputs import StandardOutput  # noqa: PLC0415 -- only where it is used
    from wlk_core.cli.writers import new_writer  # noqa: PLC0415 -- brings numpy

    is_terminal = sys.stdout.isatty()
    output = StandardOutput(view.hide if is_terminal else lambda: None)
    return new_writer("text", output, by_line=is_terminal and view.is_live)


def _outcome(settings: Settings, file: str) -> Outcome:
    from wlk_core.cli.serialize import Outcome as NewOutcome  # noqa: PLC0415 -- brings numpy

    return NewOutcome(
        file=file,
        backend=settings.spec.name,
        model=settings.model,
        language=settings.language,
    )
