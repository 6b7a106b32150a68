"""AlignAtt's engine call over a network that follows a script and attends to its positions."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.plugins import AlignedWord
from wlk_whisper.engine.alignatt import transcribe_aligned
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.engine.prompt import MAX_CONTEXT_TOKENS

from .scripts import RATE, START, TOKENIZER, ScriptedNetwork, SpokenToken, engine_of, ramp, sentence


def run(
    network,
    seconds,
    *,
    context=(),
    prompt="",
    is_last=False,
    begin_suppress_tokens=None,
    **options,
):
    """Return the hypothesis of *network* for *seconds* of audio."""
    return transcribe_aligned(
        ramp(0, round(seconds * RATE)),
        engine=engine_of(network, begin_suppress_tokens=begin_suppress_tokens),
        options=DecodingOptions(context="fitted"),
        context=context,
        prompt=prompt,
        language="en",
        is_last=is_last,
        **options,
    )


def texts(hypothesis):
    """Return the text of each word."""
    return [aligned.text for aligned in hypothesis.words]


def committed(spoken):
    """Return tokens as committed words."""
    return tuple(
        AlignedWord(
            entry.frame / 50 - 0.1,
            entry.frame / 50 + 0.1,
            TOKENIZER.decode([entry.token]),
            frames=(entry.frame,),
            tokens=(entry.token,),
        )
        for entry in spoken
    )


def test_tokens_have_the_frames_where_they_end():
    """Every token of every word ends where the next one begins, and the last one with its word."""
    script = sentence(" one two unbelievable three")
    hypothesis = run(ScriptedNetwork(script), 8.0)
    frames = [frame for aligned in hypothesis.words for frame in aligned.frames]
    tokens = [token for aligned in hypothesis.words for token in aligned.tokens]

    assert texts(hypothesis) == [" one", " two", " unbelievable", " three"]
    middles = [entry.frame for entry in script]
    assert all(
        middle < frame <= following
        for middle, frame, following in zip(middles, frames, middles[1:], strict=False)
    )
    assert middles[-1] <= frames[-1]
    assert tokens == [entry.token for entry in script]
    assert all(
        aligned.end == pytest.approx(aligned.frames[-1] / 50, abs=0.05)
        for aligned in hypothesis.words
    )


def test_frames_are_those_of_the_sound_where_the_heads_follow_it_late(monkeypatch):
    """The policy then waits no longer for a word than with heads that follow at once."""
    script = sentence(" one two unbelievable three")
    on_time = run(ScriptedNetwork(script), 8.0)
    monkeypatch.setattr(AlignmentHeads, "lag_seconds", 0.1)
    late = run(ScriptedNetwork(script), 8.0)

    frames = [
        [frame for word in words for frame in word.frames] for words in (on_time.words, late.words)
    ]
    assert [frame - 5 for frame in frames[0]] == frames[1]


def test_the_decoder_continues_after_committed_words():
    """Committed words are forced, and only what follows is returned."""
    script = sentence(" one two three four")
    network = ScriptedNetwork(script)
    hypothesis = run(network, 4.0, context=committed(script[:2]))

    assert network.inputs[0] == [*START, script[0].token, script[1].token]
    assert texts(hypothesis) == [" three", " four"]


def test_the_static_prompt_stays_and_the_scrolling_one_keeps_its_end():
    """The scrolling prompt is cut at its front to MAX_CONTEXT_TOKENS; the static one is not."""
    network = ScriptedNetwork(sentence(" one"))
    run(network, 2.0, prompt="a b" * 100, static_prompt="names: Ann")
    scrolling = TOKENIZER.encode(" " + "a b" * 100)[-MAX_CONTEXT_TOKENS:]
    previous = [TOKENIZER.sot_prev, *TOKENIZER.encode(" names: Ann"), *scrolling]

    assert network.inputs[0] == [*previous, *START]


def test_a_prefix_that_leaves_no_room_is_cut_at_its_front():
    """The prompt is dropped first, then the oldest words; new text always has positions."""
    spoken = np.random.default_rng(0).choice(["one", "two", "three", "four"], size=600)
    script = sentence("".join(f" {word}" for word in spoken), every=2)
    network = ScriptedNetwork(script)
    hypothesis = run(network, 25.0, context=committed(script[:500]), prompt="some text before")

    assert len(network.inputs[0]) < network.n_text_ctx
    assert network.inputs[0][: len(START)] == START
    assert max(len(tokens) for tokens in network.inputs) <= network.n_text_ctx
    assert hypothesis.words


def test_the_end_of_text_may_directly_follow_committed_words():
    """What text must not begin with may follow a committed prefix."""
    script = sentence(" one two")
    network = ScriptedNetwork(script)
    suppressed = {"begin_suppress_tokens": (TOKENIZER.eot,)}

    assert run(network, 2.0, context=committed(script), **suppressed).words == ()
    assert len(network.inputs) == 1


def test_a_window_without_speech_has_no_words_unless_it_contains_committed_ones():
    """The probability of no speech applies to whole windows only."""
    script = sentence(" one two")
    silent = run(ScriptedNetwork(script, no_speech_prob=0.99), 2.0)
    continued = run(
        ScriptedNetwork(script, no_speech_prob=0.99), 2.0, context=committed(script[:1])
    )

    assert silent.words == ()
    assert len(continued.words) == 1


def test_a_decoding_loop_keeps_one_repetition_and_spoken_repetitions_stay():
    """Repetitions at one frame are a loop; repetitions at advancing frames were spoken."""
    seven = TOKENIZER.encode(" seven")[0]
    stuck = [*sentence(" one"), *([SpokenToken(seven, 60)] * 40)]
    spoken = [SpokenToken(seven, 20 + 20 * index) for index in range(16)]

    assert texts(run(ScriptedNetwork(stuck), 8.0, is_last=True)) == [" one", " seven"]
    assert texts(run(ScriptedNetwork(spoken), 8.0, is_last=True)) == [" seven"] * 12


def test_punctuation_after_a_committed_word_is_a_word_of_its_own():
    """A comma that comes later does not change the committed word."""
    script = [
        *sentence(" one"),
        SpokenToken(TOKENIZER.encode(",")[0], 40),
        *sentence(" two", first=60),
    ]
    hypothesis = run(ScriptedNetwork(script), 3.0, context=committed(script[:1]))

    assert texts(hypothesis) == [",", " two"]
