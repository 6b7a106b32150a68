"""Translation metrics: chrF and BLEU, the delay of each clause, and words translated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sacrebleu import corpus_bleu, corpus_chrf

from wlk_bench.metrics.statistics import Distribution
from wlk_live.session import Commit, Translation

if TYPE_CHECKING:
    from wlk_bench.annotators.playing import Played


def figures(played: Played) -> dict[str, Any]:
    """
    Return the figures of a translator; times are seconds.

    A delay runs from the commit of the last word of a clause to its translation.
    """
    pairs: list[tuple[str, str]] = []
    delays: list[float] = []
    words = translated_once = 0
    for sample, events in played:
        clauses = [(e.wall, e.event.text) for e in events if isinstance(e.event, Translation)]
        commits = [(e.wall, e.event.tokens) for e in events if isinstance(e.event, Commit)]
        spoken = [(wall, token) for wall, tokens in commits for token in tokens]
        for wall, clause in clauses:
            commit_times = [time for time, token in spoken if token.end <= clause.end]
            delays.append(wall - max(commit_times, default=wall))
        for _, token in spoken:
            around = [c for _, c in clauses if c.start <= token.start and token.end <= c.end]
            words += 1
            if len(around) == 1:
                translated_once += 1
        pairs.append((" ".join(clause.text for _, clause in clauses), sample.translation))
    known = [(text, reference) for text, reference in pairs if reference]
    translations = [text for text, _ in known]
    references = [[reference for _, reference in known]]
    return {
        "chrF": corpus_chrf(translations, references).score if known else None,
        "BLEU": corpus_bleu(translations, references).score if known else None,
        "delay after the commit of a clause": Distribution.figures(delays, "p50", "p90", "max"),
        "words": words,
        "words in one translation": translated_once,
    }
