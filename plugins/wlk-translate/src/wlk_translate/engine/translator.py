"""The translator of one stream: its clauses, translated in their order in a thread of their own."""

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

_CONTEXT = 2  # clauses; those before say little about the next one
_LATE_SECONDS = 10.0  # a translation later than this is worth a line in the log
_MAX_WAITING = 1000  # clauses, about an hour of speech


@attrs.frozen
class Pair:
    """A clause and its translation."""

    source: str
    target: str


class Engine(Protocol):
    """What translates; streams share one, and each calls it from a thread of its own."""

    spans_sentences: bool  #: whether sentences before are of use as context

    def translate(self, text: str, context: Sequence[Pair]) -> str:
        """Return the translation of *text*, which follows on *context*; empty for none."""
        ...


class ClauseTranslator:
    """
    A `wlk_core.plugins.Translator` over an engine.

    A clause is given to the engine once, with up to two before it and their translations as
    context, and its translation is final.  No call but `finish` waits for the engine: a translation
    is returned by the first call after it is done.

    Args:
        engine: translates a clause.
        target_language: the code that translations name.
        source_language: clauses whose tokens were detected as another language are left out; None
            translates all but those in the target language.

    """

    def __init__(
        self, engine: Engine, *, target_language: str, source_language: str | None = None
    ) -> None:
        self._engine = engine
        self._target = target_language
        self._source = source_language
        # One thread, so that clauses are translated in their order, each after its context.
        self._thread = ThreadPoolExecutor(1, "wlk-translate")
        self._calls = 0
        self._waiting: deque[tuple[Clause, Future[str]]] = deque()
        self.reset()

    def reset(self) -> None:
        """Forget all clauses; what is being translated is dropped."""
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
        Begin to translate the clauses that are complete, and return what is done.

        Raises:
            BackendError: a clause could not be translated, or hundreds wait.

        """
        if is_last:
            self._complete += self._splitter.flush()
        for clause in self._complete:
            if self._is_ours(clause):
                asked = time.monotonic()
                call = self._thread.submit(self._translate, clause, self._context, asked)
                self._waiting.append((clause, call))
        self._complete = []
        if len(self._waiting) > _MAX_WAITING:
            raise BackendError(
                f"{len(self._waiting)} clauses wait to be translated: the model is slower than the "
                "speech; choose a smaller or a nearer one"
            )
        found = []
        while self._waiting and self._waiting[0][1].done():
            found += self._next()
        return found

    def finish(self) -> list[TranslatedText]:
        """Translate everything that is left, and return it; waits.  Raises as `process_iter`."""
        found = self.process_iter(is_last=True)
        while self._waiting:
            found += self._next()
        return found

    def close(self) -> None:
        """Drop what waits; may be called again."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._waiting.clear()

    @property
    def stats(self) -> WorkCounters:
        """The clauses that were translated, as forward passes of the decoder."""
        return WorkCounters(decoder_forwards=self._calls)

    def _is_ours(self, clause: Clause) -> bool:
        language = clause.language
        is_source = language in {None, self._source} or self._source is None
        is_target = language == self._target  # which needs no translation
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
