"""A campaign: sessions of one seed, played on a backend, and the smallest of those that fail."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext, suppress
import gc
from pathlib import Path
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.rules import NotSelected
from wlk_conformance.seams import HABITS, SupportsDeclaration, SupportsHabits
from wlk_conformance.sessions.generate import Profile, generate
from wlk_conformance.sessions.play import Played, Player
from wlk_conformance.sessions.session import Session, Violation
from wlk_conformance.sessions.shrink import attribute, compare, shrink, twins_of
from wlk_conformance.side_effects import (
    BRIEF_GRACE,
    CHILD_GRACE,
    children,
    end_children,
    left_running,
    remaining,
    standard_output,
)
from wlk_core.options import AUTO

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core import Backend
    from wlk_core.options import Option

__all__ = ["SESSIONS", "Campaign", "Finding", "play_sessions", "stopped_session"]

SESSIONS = 160  # played by default, where an engine reads coded audio
SLOW_SESSIONS = 12  # played by default on an engine that takes time: one of each theme
PLAYS = 250  # sessions played at most to make one smaller
SLOW_PLAYS = 30  # the same for an engine that takes time
ALIKE = 3  # sessions made smaller that fail in the same way
BLOCKED_PLAYS = 6  # the same where each play waits until a call counts as blocked
FAILURES = 16  # sessions that fail, after which the others are not played
GRACE = 1.0  # seconds in which the threads of a closed stream end
NAMES = 5  # of threads in a message
FILES = Path("/proc/self/fd")
RUNNING = "running.json"  # the session being played, because it may hang or end the process


@attrs.frozen
class Finding:
    """A rule that a session breaks, and the smallest session that breaks it."""

    violation: Violation
    session: Session
    drawn_as: str  #: the name of the session from which it was made


class Campaign:
    """
    The sessions of one seed on one backend.

    A backend that reads coded audio is loaded anew for each session, so that each is judged alone
    and replays alone.  Other models are loaded once, because that takes time.
    """

    def __init__(self, under_test: BackendUnderTest, *, seed: int) -> None:
        self._under_test = under_test
        self._seed = seed
        self._profile = profile_of(under_test)
        self._child_grace = CHILD_GRACE

    def findings(self, count: int) -> Iterator[Finding]:
        """Play *count* sessions; yield a finding for each that fails, until FAILURES did."""
        seen: Counter[tuple[str, str]] = Counter()
        self.violation_of(generate(self._seed, 0, self._profile))  # what is made on first use
        for index in range(count):
            session = generate(self._seed, index, self._profile)
            violation = self.violation_of(session)
            if violation is None:
                continue
            like = violation.rule if violation.kind == "invariant" else ""
            seen[violation.kind, like] += 1
            if seen[violation.kind, like] <= ALIKE:
                yield self.smallest(session, violation)
            if seen.total() == FAILURES:
                return

    def smallest(self, session: Session, violation: Violation) -> Finding:
        """Return the finding of a session that fails, made as small as it gets."""

        def fails(candidate: Session) -> bool:
            other = self.violation_of(candidate)
            return other is not None and _is_alike(other, violation)

        plays = PLAYS if self._profile.is_coded else SLOW_PLAYS
        if violation.kind == "blocked":
            plays = BLOCKED_PLAYS
        small = shrink(session, fails, plays=plays)
        latest = self.violation_of(small)
        if latest is None or not _is_alike(latest, violation):
            small, latest = session, violation  # it depends on the sessions before it
        rule = attribute(latest, small)
        return Finding(attrs.evolve(latest, rule=rule), small, session.name)

    def violation_of(self, session: Session) -> Violation | None:
        """Play a session; return the first violation, None where every rule holds."""
        self._write(RUNNING, session)
        processes = children()
        with self._backend() as backend, standard_output() as printed:
            threads, files = set(threading.enumerate()), _open_files()
            played = self._play(session, backend)
            violations = played.violations or list(self._differences(session, played, backend))
            violations = violations or list(_leaks(threads, files))
        if printed() and not violations:
            line = printed().strip().splitlines()[:1]
            violations = [Violation("PKG-06", f"{line} was written to standard output")]
        leaked = list(self._leaked_processes(processes))  # whatever else was found
        return next(iter(violations or leaked), None)

    def report(self, finding: Finding) -> None:
        """Report the first finding of a rule, and write its session to the folder of replays."""
        under_test, violation = self._under_test, finding.violation
        if violation.rule in under_test.advice:
            return
        name = under_test.spec.name
        path = self._write(f"{name}-{violation.rule}.json", finding.session)
        lines = [f"replay: wlk-conformance {name} --replay {path}"] if path else []
        lines += [f"drawn as {finding.drawn_as}; the calls that are needed:"]
        lines.append(finding.session.listed())
        if violation.twin is not None:
            lines += ["the same audio, with other words:", violation.twin.listed()]
        under_test.violations.append(violation)
        under_test.advice[violation.rule] = "\n".join(lines)

    def _write(self, name: str, session: Session) -> Path | None:
        folder = self._under_test.replays
        if folder is None:
            return None
        try:
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(session.as_json(), encoding="utf-8")
        except OSError:  # the current directory may be read-only
            return None
        return folder / name

    def end(self) -> None:
        """Forget the session that was played last, and the folder if no session failed."""
        folder = self._under_test.replays
        if folder is not None and folder.is_dir():
            (folder / RUNNING).unlink(missing_ok=True)
            with suppress(OSError):  # sessions that failed stay there
                folder.rmdir()

    def _play(self, session: Session, backend: Backend) -> Played:
        under_test = self._under_test
        source, calls = under_test.speech_source, under_test.calls
        return Player(backend, under_test.spec, source, calls).play(session)

    def _differences(
        self, session: Session, played: Played, backend: Backend
    ) -> Iterator[Violation]:
        """Compare each life of each stream with its twin, where no exact words are known."""
        for stream, lives in () if self._profile.is_coded else sorted(played.lives.items()):
            for life, twin in zip(lives, twins_of(session, stream, lives), strict=False):
                if twin is None:
                    continue
                plain = self._play(twin, backend)
                yield from plain.violations
                if not plain.violations:
                    for violation in compare(life, plain.lives[stream][0], stream):
                        yield attrs.evolve(violation, twin=twin)

    def _leaked_processes(self, before: frozenset[psutil.Process]) -> Iterator[Violation]:
        """
        Yield LIFE-10 for forked copies of the suite, and for children, which are ended.

        Children of a backend that is not closed yet may belong to it; see `examine`.
        """
        if call := self._under_test.calls.take_copies():
            yield Violation("LIFE-10", f"{call} also returned in a forked copy of the process")
        if self._profile.is_coded and (leaked := remaining(before, grace=self._child_grace)):
            self._child_grace = BRIEF_GRACE
            yield Violation("LIFE-10", left_running(leaked))
            end_children(leaked)

    def _backend(self) -> AbstractContextManager[Backend]:
        if not self._profile.is_coded:
            return nullcontext(self._under_test.backend)
        return self._under_test.opened_elsewhere(self._under_test.load_with())


def play_sessions(under_test: BackendUnderTest) -> None:
    """
    Play the sessions that the options choose, and report what each of them breaks by its rule.

    Raises:
        NotApplicable: no session is to be played.

    """
    campaign = Campaign(under_test, seed=under_test.seed)
    if under_test.replay is not None:
        violation = campaign.violation_of(under_test.replay)
        findings = iter([campaign.smallest(under_test.replay, violation)] if violation else [])
    else:
        default = SESSIONS if under_test.is_coded else SLOW_SESSIONS
        count = default if under_test.sessions is None else under_test.sessions
        if not count:
            raise NotSelected("no sessions are generated: --sessions 0")
        findings = campaign.findings(count)
        under_test.note(f"{count} sessions of seed {under_test.seed}")
    for finding in findings:  # each at once, because a later session may end the process
        campaign.report(finding)
        under_test.at_finding()
    campaign.end()


def stopped_session(folder: Path, name: str, *, action: int = 0) -> str:
    """
    Return how to repeat the session of the backend *name* that hung or ended the process.

    It is kept as a file of its own.  It is not made smaller, because that means to play it again;
    what follows *action*, the number of the call from 1, is left out.
    """
    if not (folder / RUNNING).is_file():
        return ""
    session = Session.from_json((folder / RUNNING).read_text(encoding="utf-8"))
    (folder / RUNNING).unlink()
    path = folder / f"{name}-stopped.json"
    session = attrs.evolve(session, actions=session.actions[: action or None])
    path.write_text(session.as_json(), encoding="utf-8")
    return (
        f"replay: wlk-conformance {name} --replay {path}\ndrawn as {session.name}; its last call "
        f"hangs or ends the process:\n{session.listed()}"
    )


def profile_of(under_test: BackendUnderTest) -> Profile:
    """Return what sessions of the backend can contain, from its declaration and its seams."""
    spec, fixed, is_coded = under_test.spec, under_test.stream_options, under_test.is_coded
    backend = under_test.backend
    can_force = under_test.has("language-forcing") and is_coded
    return Profile(
        is_coded=is_coded,
        policies=() if "policy" in fixed else spec.policies,
        languages=spec.languages if can_force and "language" not in fixed else (),
        options={
            option.name: (limits, option.policies or (*spec.policies, None))
            for option in spec.all_options
            if option.scope == "stream" and option.name not in fixed and is_coded
            if len(limits := _limits(option)) > 1
        },
        habits=HABITS if is_coded and isinstance(backend, SupportsHabits) else (),
        # The words of an engine at a server cannot be changed from here.
        has_vocabularies=is_coded and not isinstance(backend, SupportsDeclaration),
        fixed=fixed,
        has_turns=under_test.has("speaker-turns"),
        has_faults=under_test.engine_calls is not None,
        may_thread=spec.thread_affinity != "same-thread",
        is_long="long" in under_test.tiers,
    )


def _limits(option: Option) -> tuple[Any, ...]:
    auto = AUTO if option.is_auto_allowed else None
    values = (option.minimum, option.default, option.maximum, auto)
    return tuple(dict.fromkeys(value for value in values if value is not None))


def _is_alike(first: Violation, second: Violation) -> bool:
    if first.kind != second.kind:
        return False
    return first.kind not in ("invariant", "blocked") or first.rule == second.rule


def _open_files() -> int:
    return len(list(FILES.iterdir())) if FILES.is_dir() else 0


def _leaks(threads: set[threading.Thread], files: int) -> Iterator[Violation]:
    limit = monotonic() + GRACE  # for all of them together
    for thread in set(threading.enumerate()) - threads:
        thread.join(max(0.0, limit - monotonic()))
    if names := sorted(thread.name for thread in set(threading.enumerate()) - threads):
        more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
        text = f"threads are alive after every stream was closed: {names[:NAMES]}{more}"
        yield Violation("LIFE-10", text)
    if _open_files() > files:
        gc.collect()
        if (opened := _open_files() - files) > 0:
            yield Violation(
                "LIFE-10", f"{opened} more files are open after every stream was closed"
            )
