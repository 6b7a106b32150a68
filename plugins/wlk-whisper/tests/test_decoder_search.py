"""Greedy and beam search over a network that can be recomputed by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.decoder.network import Forward
from wlk_whisper.decoder.rules import Rules, log_softmax
from wlk_whisper.decoder.search import LOOP_TIMES, decode
from wlk_whisper.decoder.timing import attended_frames

EOT, SOT, NO_SPEECH, TIMESTAMPS = 20, 21, 22, 25
PROMPT = (SOT, 23)


def rules(**changes):
    """Return rules for a vocabulary of 40: 20 words, specials, 15 timestamps."""
    chosen = {
        "suppressed": np.array([3, 7, 21, 22, 23, 24]),
        "begin_suppressed": np.array([EOT]),
        "has_timestamps": False,
        "max_initial_timestamp": 4,
    } | changes
    return Rules(sot=SOT, eot=EOT, no_speech=NO_SPEECH, timestamp_begin=TIMESTAMPS, **chosen)


def listen(network, *, positions=24):
    """Return an encoded stretch of that many positions."""
    return network.encode(np.zeros((80, 2 * positions), dtype=np.float32))


def continuations(network, said, its_rules):
    """Return the log-probabilities behind *said*, from nothing kept."""
    logits, _ = network.after((*PROMPT, *said))
    return its_rules.log_probs(logits[-1], said)


def greedy(network, its_rules, budget):
    """Return what the likeliest token, one after another, gives."""
    said = []
    while len(said) < budget:
        token = int(continuations(network, said, its_rules).argmax())
        if token == EOT:
            break
        said.append(token)
    return tuple(said)


def beam(network, its_rules, budget, size):
    """Return the best hypothesis of a beam, every row of it recomputed from its start."""
    rows, done = [((), 0.0)], []
    while True:
        ways = [
            (score + float(log_prob), said, token)
            for said, score in rows
            for token, log_prob in enumerate(continuations(network, said, its_rules))
            if np.isfinite(log_prob)
        ]
        ways = sorted(ways, key=lambda way: -way[0])[: 2 * size]
        is_full = len(rows[0][0]) + 1 == budget
        for score, said, token in ways[:size]:
            if token == EOT:
                done.append((score / max(1, len(said)), said))
            elif is_full:
                done.append((score / (len(said) + 1), (*said, token)))
        rows = [((*said, token), score) for score, said, token in ways if token != EOT][:size]
        if is_full or not rows or len(done) >= size:
            return max(done, key=lambda entry: entry[0])[1]


@given(st.integers(0, 200), st.booleans(), st.integers(1, 12))
@settings(max_examples=30)
def test_a_beam_of_one_takes_the_likeliest_token_every_time(toy, seed, has_timestamps, budget):
    """Greedy search equals the loop everyone would write."""
    network, its_rules = toy(seed=seed), rules(has_timestamps=has_timestamps)
    found = decode(network, listen(network), PROMPT, rules=its_rules, budget=budget)

    assert greedy(network, its_rules, budget) == found.tokens


@given(st.integers(0, 200), st.booleans(), st.integers(1, 10), st.integers(2, 5))
@settings(max_examples=20)
def test_a_beam_equals_the_one_without_a_cache(toy, seed, has_timestamps, budget, size):
    """Reordering the rows of a run loses and mixes up nothing."""
    network, its_rules = toy(seed=seed), rules(has_timestamps=has_timestamps)
    found = decode(network, listen(network), PROMPT, rules=its_rules, budget=budget, beam_size=size)

    assert beam(network, its_rules, budget, size) == found.tokens


@given(st.integers(0, 100), st.integers(1, 4))
@settings(max_examples=15)
def test_every_row_of_the_best_hypothesis_is_returned(toy, seed, size):
    """Attention, frames and log-probabilities are those of a pass over the whole text."""
    network, its_rules = toy(seed=seed), rules()
    found = decode(
        network,
        listen(network),
        PROMPT,
        rules=its_rules,
        budget=9,
        beam_size=size,
        attend=True,
        positions=20,
    )
    fed = (*PROMPT, *found.tokens)[: None if found.ended else -1]
    logits, attention = network.after(fed)
    chosen = slice(len(PROMPT) - 1, len(PROMPT) - 1 + len(found.tokens))

    np.testing.assert_allclose(attention[..., :20], found.attention, atol=1e-6)
    np.testing.assert_array_equal(attended_frames(found.attention)[chosen], found.frames)
    np.testing.assert_allclose(
        [
            its_rules.log_probs(logits[len(PROMPT) - 1 + place], found.tokens[:place])[token]
            for place, token in enumerate(found.tokens)
        ],
        found.log_probs,
        atol=1e-5,
    )


def test_no_speech_is_told_at_the_start_of_the_transcript(toy):
    """The probability is the plain one behind that token, wherever in the prompt it stands."""
    network = toy(seed=3)
    prompt = (4, 5, *PROMPT)
    found = decode(network, listen(network), prompt, rules=rules(), budget=4)
    logits, _ = network.after(prompt)

    assert np.exp(log_softmax(logits[2])[NO_SPEECH]) == pytest.approx(found.no_speech)


def test_the_work_is_that_of_the_passes_made(toy):
    """The prompt once, then one position a row and step; one transfer a pass."""
    network = toy(seed=5)
    found = decode(network, listen(network), PROMPT, rules=rules(), budget=6, beam_size=3)
    steps = found.work.decoder_forwards - 1

    assert found.work.host_syncs == found.work.decoder_forwards
    assert len(PROMPT) + 3 * steps == found.work.decoder_positions
    assert found.work.encoder_frames is None


def test_the_caller_may_halt_behind_any_token(toy):
    """The search ends with the token that was enough, and says that the text goes on."""
    network = toy(seed=5)
    whole = decode(network, listen(network), PROMPT, rules=rules(), budget=8, attend=True)
    seen = []

    def halt(tokens, frames):
        seen.append((tuple(tokens), tuple(frames)))
        return len(tokens) == 3

    cut = decode(network, listen(network), PROMPT, rules=rules(), budget=8, attend=True, halt=halt)

    assert whole.tokens[:3] == cut.tokens
    assert tuple(whole.frames[:3]) == tuple(cut.frames)
    assert not cut.ended
    assert [1, 2, 3] == [len(frames) for _, frames in seen]


class Stuck:
    """Say the same three words for ever."""

    text_positions = 448

    def begin(self, encoded):
        """Return a run."""
        return self

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Make the next of the three by far the likeliest."""
        from wlk_whisper.decoder.network import Forward  # noqa: PLC0415

        logits = np.zeros((len(tokens), len(tuple(keep)), 40), dtype=np.float32)
        for row, token in enumerate(tokens[:, -1]):
            logits[row, -1, {10: 11, 11: 12}.get(int(token), 10)] = 50.0
        return Forward(logits=logits)

    def reorder(self, rows):
        """Keep nothing."""


@pytest.mark.parametrize("size", [1, 4])
def test_a_loop_ends_the_search(size):
    """A decoder that repeats itself is stopped at the turn that makes it a loop."""
    found = decode(Stuck(), None, PROMPT, rules=rules(), budget=400, beam_size=size)

    assert (10, 11, 12) * LOOP_TIMES == found.tokens
    assert (0, 3, len(found.tokens)) == (found.loop.start, found.loop.period, found.loop.end)
    assert not found.ended


@pytest.mark.parametrize(
    ("prompt", "budget"), [((), 3), (PROMPT, 0), ((SOT,) * 64, 3)], ids=["empty", "none", "full"]
)
def test_a_search_without_room_is_refused(toy, prompt, budget):
    """A prompt that fills the decoder is a mistake of the caller."""
    network = toy()

    with pytest.raises(ValueError, match="expected a prompt of 1 to 63 tokens"):
        decode(network, listen(network), prompt, rules=rules(), budget=budget)


class Scripted:
    """A decoder whose logits are a function of all the tokens it was fed."""

    text_positions = 100

    def __init__(self, logits):
        self.logits = logits

    def begin(self, encoded):
        """Begin a run of one row."""
        run = Scripted(self.logits)
        run.rows = [()]
        return run

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Return the logits behind every row."""
        self.rows = [row + tuple(new) for row, new in zip(self.rows, tokens.tolist(), strict=True)]
        heard = np.stack([self.logits(row[len(PROMPT) :]) for row in self.rows])
        return Forward(logits=np.repeat(heard[:, None], len(keep), axis=1))

    def reorder(self, rows):
        """Take the rows over."""
        self.rows = [self.rows[row] for row in rows]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_text_that_has_ended_is_not_given_up_for_what_comes_behind_its_end(size):
    """A beam goes on behind the end of the right text, and what repeats itself there is not it."""

    def logits(said):
        row = np.zeros(40, dtype=np.float32)
        wanted = (1, 2, 5)
        row[wanted[len(said)] if len(said) < len(wanted) else 4] = 8.0
        if len(said) == len(wanted):
            row[EOT] = 12.0
        return row

    found = decode(Scripted(logits), None, PROMPT, rules=rules(), budget=60, beam_size=size)

    assert found.tokens == (1, 2, 5)
    assert found.ended


@pytest.mark.parametrize("size", [1, 4])
def test_logits_that_are_no_numbers_are_an_error_and_never_a_text(size):
    """Arithmetic that overflowed says so, with the way out."""
    network = Scripted(lambda _: np.full(40, np.nan, dtype=np.float32))

    with pytest.raises(FloatingPointError, match="load the model in float32"):
        decode(network, None, PROMPT, rules=rules(), budget=10, beam_size=size)
