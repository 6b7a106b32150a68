"""Play the generated sessions of a seed, and find the smallest ones that fail."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext, suppress
import gc
import threading
from typing import TYPE_CHECKING

import attrs
from msgspec.structs import replace

from wlk_conformance.rules import NotApplicable
from wlk_conformance.sessions.generate import Profile, generate
from wlk_conformance.sessions.generated_session import GeneratedSession, Violation
from wlk_conformance.sessions.play import Player
from wlk_conformance.sessions.shrink import attribute, compare, references_of, shrink
from wlk_conformance.side_effects import (
    BRIEF_GRACE,
    GRACE,
    children,
    end_children,
    open_files,
    remaining,
    remaining_threads,
    standard_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core import Backend

SESSIONS = 160  # generated sessions played by default on an engine that reads coded audio
SLOW_SESSIONS = 12  # played by default on a slow engine: one of each theme
PLAYS = 250  # sessions played at most to make one smaller
SLOW_PLAYS = 30  # the same on a slow engine
ALIKE = 6  # sessions made smaller that fail in the same way, which may have several causes
SLOW_ALIKE = 3  # the same on a slow engine
BLOCKED_PLAYS = 6  # PLAYS if each play waits until a call counts as blocked
FAILURES = 16  # failed sessions after which no more are played
RUNNING = "running.json"  # the session being played, kept because it may hang or crash


class Campaign:
    """
    The generated sessions of one seed on one backend.

    A backend that reads coded audio is loaded for each session, so that every session is judged and
    replayed alone.  Other models are loaded once, because loading takes time.
    """

    def __init__(self, under_test: BackendUnderTest, *, seed: int) -> None:
        self._under_test = under_test
        self._seed = seed
        self._profile = Profile.of(under_test)
        self._grace = GRACE
        self._reported: set[str] = set()  # rules

    def findings(self, count: int) -> Iterator[Violation]:
        """Play *count* sessions; yield the violation of each failure with its smallest session."""
        for session, violation in self.failures(count):
            yield self.smallest(session, violation)

    def failures(self, count: int) -> Iterator[tuple[GeneratedSession, Violation]]:
        """Play *count* sessions, until FAILURES fail; yield failures whose rules may differ."""
        seen: Counter[tuple[str, str]] = Counter()
        alike = ALIKE if self._profile.is_coded else SLOW_ALIKE
        for index in range(count):
            session = generate(self._seed, index, self._profile)
            violation = self.violation_of(session)
            if violation is not None and not index:
                self._grace = GRACE  # the first use may create what a sound backend keeps
                violation = self.violation_of(session)  # everything exists now
            if violation is None:
                continue
            seen[_alike(violation)] += 1
            # An exact rule is reported once; words may be wrong for several reasons.
            if seen[_alike(violation)] <= (1 if violation.is_exact else alike):
                yield session, violation
            if seen.total() == FAILURES:
                return

    def smallest(self, session: GeneratedSession, violation: Violation) -> Violation:
        """Return the violation with the smallest session that also has it."""

        def same_violation(candidate: GeneratedSession) -> Violation | None:
            other = self.violation_of(candidate)
            is_same = other is not None and _alike(other) == _alike(violation)
            return other if is_same else None

        plays = PLAYS if self._profile.is_coded else SLOW_PLAYS
        if violation.kind == "blocked":
            plays = BLOCKED_PLAYS
        small = shrink(session, lambda other: same_violation(other) is not None, plays=plays)
        latest = same_violation(small)
        if latest is None:
            small, latest = session, violation  # it depends on the sessions before it
        return attrs.evolve(latest, rule=attribute(latest, small), session=small)

    def violation_of(self, session: GeneratedSession) -> Violation | None:
        """Play a session; return the first violation, None if every rule holds."""
        self._write(RUNNING, session)
        processes = children()
        with self._backend() as backend, standard_output() as printed:
            threads, files = set(threading.enumerate()), open_files()
            played = Player(backend, self._under_test).play(session)
            violations = played.violations
            if not violations and not self._profile.is_coded:  # no exact words are known
                violations = list(self._differences(session, played, backend))
            violations = violations or list(self._leaks(threads, files))
        violations += self._under_test.left_behind(printed())
        # If no open backend owns children, they are ended whatever else was found.
        if self._profile.is_coded and (leaked := remaining(processes, grace=self._grace)):
            self._grace = BRIEF_GRACE
            violations.append(Violation("LIFE-10", end_children(leaked)))
        return violations[0] if violations else None

    def report(self, violation: Violation) -> None:
        """Report the first finding of a rule, and write its session to the replay folder."""
        under_test, session = self._under_test, violation.session
        if session is None or violation.rule in self._reported:
            return
        self._reported.add(violation.rule)
        path = self._write(f"{under_test.spec.name}-{violation.rule}.json", session)
        lines = [f"replay: {under_test.command} --replay {path}"] if path else []
        lines += [f"drawn as {session.name}; the calls needed to reproduce it:", session.listed()]
        if (reference := violation.reference) is not None:
            lines += ["calls that give other words for the same audio:", reference.listed()]
        under_test.violations.append(attrs.evolve(violation, advice="\n".join(lines)))

    def _write(self, name: str, session: GeneratedSession) -> Path | None:
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
        """Delete the session that was played last, and the folder if no session failed."""
        if self._under_test.replays is not None:
            discard_running(self._under_test.replays)

    def _differences(
        self, session: GeneratedSession, played: Player, backend: Backend
    ) -> Iterator[Violation]:
        """Compare each life cycle of each stream with the same audio in a reference stream."""
        for stream, cycles in sorted(played.life_cycles.items()):
            references = references_of(session, stream, cycles)
            for cycle, reference in zip(cycles, references, strict=False):
                if reference is None:
                    continue
                plain = Player(backend, self._under_test).play(reference)
                if plain.violations:
                    yield from plain.violations
                elif difference := compare(cycle, plain.life_cycles[stream][0], stream):
                    yield attrs.evolve(difference, reference=reference)

    def _leaks(self, threads: set[threading.Thread], files: int) -> Iterator[Violation]:
        if names := remaining_threads(threads, grace=self._grace):
            self._grace = BRIEF_GRACE
            text = f"{len(names)} threads are alive after all streams were closed: {names[:5]}"
            yield Violation("LIFE-10", text)
        if open_files() > files:
            gc.collect()
            if (more := open_files() - files) > 0:
                text = f"{more} more files are open after all streams were closed than before"
                yield Violation("LIFE-10", text)

    def _backend(self) -> AbstractContextManager[Backend]:
        if not self._profile.is_coded:
            return nullcontext(self._under_test.backend)
        return self._under_test.closing(self._under_test.load_with())


def play_sessions(under_test: BackendUnderTest) -> None:
    """Play the generated sessions chosen by the options, and report the violations of each."""
    campaign = Campaign(under_test, seed=under_test.seed)
    if under_test.replay is not None:
        violation = campaign.violation_of(under_test.replay)
        findings: Iterable[Violation] = ()
        if violation is not None:
            findings = [campaign.smallest(under_test.replay, violation)]
    else:
        default = SESSIONS if under_test.is_coded else SLOW_SESSIONS
        count = default if under_test.sessions is None else under_test.sessions
        if not count:
            raise NotApplicable("no sessions are generated: --sessions 0", "not selected")
        findings = campaign.findings(count)
        under_test.notes.append(f"{count} sessions of seed {under_test.seed}")
    for finding in findings:  # one by one, because a later session may end the process
        campaign.report(finding)
        under_test.at_finding()
    campaign.end()


def discard_running(folder: Path) -> None:
    """Delete the session that was played last in *folder*, and the folder if no session failed."""
    if folder.is_dir():
        (folder / RUNNING).unlink(missing_ok=True)
        with suppress(OSError):  # failed sessions remain there
            folder.rmdir()


def crashed_session(folder: Path, under_test: BackendUnderTest, *, action: int = 0) -> str:
    """
    Return how to repeat the session in which a backend hung or ended the process.

    The session is kept in a file of its own, without what follows *action*, the number of its last
    call from 1.  It is not made smaller, because that would play it again.
    """
    running = folder / RUNNING
    if not running.is_file():
        return ""
    session = GeneratedSession.from_json(running.read_text(encoding="utf-8"))
    running.unlink()
    path = folder / f"{under_test.spec.name}-crashed.json"
    session = replace(session, actions=session.actions[: action or None])
    path.write_text(session.as_json(), encoding="utf-8")
    return (
        f"replay: {under_test.command} --replay {path}\ndrawn as {session.name}; its last call "
        f"hung or ended the process:\n{session.listed()}"
    )


def _alike(violation: Violation) -> tuple[str, str]:
    """Return what sessions that fail in the same way have in common."""
    return violation.kind, violation.rule if violation.is_exact else ""
