"""
Tell text of the audio from text that Whisper writes whenever nobody speaks.

Its probability of no speech alone does not: it is up to 0.8 for a digit spoken alone (base), and
from 0.5 on for music.  Its two-part rule, which also asks for a mean log-probability below -1,
keeps repeated phrases and the keyterms of the prompt, because these are likely texts.  But they are
as likely for silence: for each token the log-probability is at most 0.12 higher for noise, hum,
music and breathing than for silence, and 0.28 to 10 higher for speech (64 and 46 windows of 0.5 to
6 s, tiny.en and base).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

NO_SPEECH_THRESHOLD = 0.9  # a window with a higher probability of no speech has no words
SPEECH_THRESHOLD = 0.2  # one with a lower probability has speech, and is not compared with silence
MIN_EVIDENCE = 0.2  # mean log-probability by which the audio makes text likelier than silence
COMPARED_TOKENS = 32  # of the text, at most: a loop has many


def is_spoken(heard: ArrayLike, silent: ArrayLike) -> bool:
    """
    Return whether the audio makes the tokens likelier than silence does.

    Both are log-probabilities of each token, given those before it and no prompt.
    """
    return bool(np.mean(np.subtract(heard, silent)) >= MIN_EVIDENCE)
