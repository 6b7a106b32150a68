"""Translate the clauses of one stream in order, in a thread of its own."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
import logging
import time
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.plugins import BackendError, TranslatedText, WorkCounters
from wlk_translate.engine.clauses import Clause, ClauseSplitter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from wlk_core.plugins import ASRToken

logger = logging.getLogger(__name__)

_CONTEXT = 2  # clauses; earlier ones say little about the next
_LATE_SECONDS = 10.0  # delay of a translation after which a warning is logged
_MAX_WAITING = 1000  # clauses, about an hour of speech


@attrs.frozen
class Pair:
    """A clause and its translation."""

    source: str
    target: str


class Engine(Protocol):
    """A model that translates; streams share it, and each calls it from a thread of its own."""

    spans_sentences: bool  #: whether earlier sentences are useful as context

    def translate(self, text: str, context: Sequence[Pair]) -> str:
        """Return the translation of *text*, which follows *context*; empty if there is none."""
        ...


class ClauseTranslator:
    """
    A `wlk_core.plugins.Translator` that runs an engine.

    Each clause is translated once, with up to two earlier clauses and their translations as
    context, and its translation is final.  Only `finish` waits for the engine: a translation is
    returned by the first call after it is complete.

    Args:
        engine: translates a clause.
        target_language: the language code of the translations.
        source_language: clauses detected as another language are skipped; with None, only those
            detected as the target language are.

    """

    def __init__(
        self, engine: Engine, *, target_language: str, source_language: str | None = None
    ) -> None:
        self._engine = engine
        self._target = target_language
        self._source = source_language
        # A single thread translates clauses in order, each after its context.
        self._thread = ThreadPoolExecutor(1, "wlk-translate")
        self._calls = 0
        self._waiting: deque[tuple[Clause, Future[str]]] = deque()
        self.reset()

    def reset(self) -> None:
        """Forget all clauses, and drop translations in progress."""
        while self._waiting:
            self._waiting.pop()[1].cancel()
        self._splitter = ClauseSplitter()
        self._complete: list[Clause] = []
        self._context: deque[Pair] = deque(maxlen=_CONTEXT)
        self._is_late = False

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens."""
        for token in tokens:
            self._complete += self._splitter.push(token)

    def process_iter(self, is_last: bool = False) -> list[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """
        Begin to translate the complete clauses, and return the translations that are ready.

        Raises:
            BackendError: a clause could not be translated, or more than _MAX_WAITING are waiting.

        """
        if is_last:
            self._complete += self._splitter.flush()
        for clause in self._complete:
            if self._needs_translation(clause):
                asked = time.monotonic()
                call = self._thread.submit(self._translate, clause, self._context, asked)
                self._waiting.append((clause, call))
        self._complete = []
        if len(self._waiting) > _MAX_WAITING:
            raise BackendError(
                f"{len(self._waiting)} clauses wait to be translated: the model is slower than the "
                "speech; choose a smaller model or a nearer server"
            )
        ready = []
        while self._waiting and self._waiting[0][1].done():
            ready += self._next()
        return ready

    def finish(self) -> list[TranslatedText]:
        """Wait until all clauses are translated, and return the rest.  Raises as `process_iter`."""
        rest = self.process_iter(is_last=True)
        while self._waiting:
            rest += self._next()
        return rest

    def close(self) -> None:
        """Drop the waiting clauses; may be called again."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._waiting.clear()

    @property
    def stats(self) -> WorkCounters:
        """The number of translated clauses, counted as `decoder_forwards`."""
        return WorkCounters(decoder_forwards=self._calls)

    def _needs_translation(self, clause: Clause) -> bool:
        language = clause.language
        is_source = language in {None, self._source} or self._source is None
        is_target = language == self._target
        return is_source and not is_target and any(map(str.isalnum, clause.text))

    def _next(self) -> list[TranslatedText]:
        clause, call = self._waiting.popleft()
        text = call.result()
        return [TranslatedText(text, clause.start, clause.end, self._target)] if text else []

    def _translate(self, clause: Clause, context: deque[Pair], asked: float) -> str:
        self._calls += 1
        text = " ".join(self._engine.translate(clause.text, tuple(context)).split())
        if text:
            context.append(Pair(clause.text, text))
        if clause.ends_sentence and not self._engine.spans_sentences:
            context.clear()
        late = time.monotonic() - asked
        if late > _LATE_SECONDS and not self._is_late:
            self._is_late = True
            logger.warning("translations are %.0f s late: the model is slower than speech", late)
        return text
