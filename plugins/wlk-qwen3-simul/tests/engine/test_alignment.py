"""Tokens take their frames from the step that their heads attend at."""

from __future__ import annotations

import numpy as np

from wlk_qwen3_simul.engine.alignment import DecoderStep, align_tokens, steps_from_output
from wlk_qwen3_simul.engine.network import DecoderOutput


def test_frames_count_the_audio_tokens_that_were_left_out():
    """Token 13 of a window is the first of its second second, at frame 25."""
    attention = np.zeros((1, 20), dtype=np.float32)
    attention[0, 11] = 1.0
    output = DecoderOutput(
        ids=np.array([7]),
        logprobs=np.array([-0.1], dtype=np.float32),
        attention=attention,
        audio_attention_mass=np.ones(1, dtype=np.float32),
    )

    assert [25] == [step.frame for step in steps_from_output(output, first_token=2)]


def test_a_token_has_the_frame_of_the_step_its_heads_attend_at():
    """That is the step that predicted it or was fed it; a step without audio has no frame."""
    steps = [DecoderStep(7, -0.1, 10), DecoderStep(8, -0.2, None), DecoderStep(9, -0.3, 30)]
    predicted = align_tokens([7, 8], steps, by_self=False)
    fed = align_tokens([7, 8], steps, by_self=True)

    assert [10, 10] == [token.frame for token in predicted]
    assert [0, 30] == [token.frame for token in fed]
    assert [-0.1, -0.2] == [token.logprob for token in fed]
