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
    words = once = 0
    for sample, events in played:
        texts = [(e.wall, e.event.text) for e in events if isinstance(e.event, Translation)]
        commits = [(e.wall, e.event.tokens) for e in events if isinstance(e.event, Commit)]
        spoken = [(wall, token) for wall, tokens in commits for token in tokens]
        for wall, text in texts:
            ends = [at for at, token in spoken if token.end <= text.end]
            delays.append(wall - max(ends, default=wall))
        for _, token in spoken:
            words += 1
            holds = [text.start <= token.start and token.end <= text.end for _, text in texts]
            once += sum(holds) == 1
        pairs.append((" ".join(text.text for _, text in texts), sample.translation))
    known = [pair for pair in pairs if pair[1]]
    translations, references = [text for text, _ in known], [[text for _, text in known]]
    return {
        "chrF": corpus_chrf(translations, references).score if known else None,
        "BLEU": corpus_bleu(translations, references).score if known else None,
        "delay after the commit of a clause": Distribution.figures(delays, "p50", "p90", "max"),
        "words": words,
        "words in one translation": once,
    }
