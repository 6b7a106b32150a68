"""Which drafts a speculative decoding makes; test_engine has the predictions that come of them."""

from __future__ import annotations

from wlk_voxtral.speculative import SpeculativeDecoding, TokenPrediction

PAD, WORD = 0, 1


def widths(count, *, known_ids=(PAD,), width=4, close=()):
    """Return the widths of the forwards over silence; predictions at *close* have no margin."""
    decoding = SpeculativeDecoding(
        count, known_ids=known_ids, pad=PAD, marker=WORD, width=width, min_margin=1.0
    )
    position, found = 0, []
    while not decoding.is_complete:
        found.append(len(decoding.next_ids()))
        margins = [0.0 if position + index in close else 9.0 for index in range(found[-1])]
        forward = [TokenPrediction(PAD, 1.0, margin) for margin in margins]
        position += decoding.accept(forward, is_wide=found[-1] > 1)
    assert count == position == len(decoding.predictions)
    return found


def test_silence_takes_few_forwards():
    """Every forward over silence covers the whole width."""
    assert [8] * 8 == widths(64, width=8)


def test_no_draft_follows_a_marker():
    """After a marker comes text, so a draft of silence would be wrong."""
    assert [1, 4, 4] == widths(9, known_ids=[WORD])


def test_a_prediction_with_a_small_margin_is_recomputed_alone():
    """A margin that a wider forward could overturn is not taken from a wide forward."""
    assert [4, 4, 1, 4, 2] == widths(12, close=[5])
