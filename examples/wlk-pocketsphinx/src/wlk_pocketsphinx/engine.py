"""Decode the audio of one stream into timed words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pocketsphinx  # type: ignore[import-untyped]  # a Cython module without stubs

from wlk_core.plugins import SAMPLE_RATE, Hypothesis, Word, WorkCounters

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FRAMES_PER_SECOND = 100  # PocketSphinx's -frate
MIN_SAMPLES = SAMPLE_RATE // 20  # no word is shorter, and a few frames are needed for features
LEAD_SECONDS = 0.5  # silence added before the audio; else the first word includes the pause before
WORD_PENALTY = 1e-3  # -wip; at its default of 0.65, the end of "nine" is decoded as "eight"
MAX_WORD_SECONDS = 1.5  # a steady tone is decoded as a longer word, which is dropped
HISS = 0.0005  # standard deviation of the added noise: digital silence has no logarithm


@attrs.frozen
class GrammarDecoder:
    """
    A decoder for a grammar; its calls must not overlap.

    Each call decodes its audio as a whole, with its own cepstral means, whatever calls came before.
    """

    decoder: pocketsphinx.Decoder
    hiss: NDArray[np.float32]

    @classmethod
    def load(cls, model: Path) -> GrammarDecoder:
        """Return a new decoder for the grammar in *model*; takes about 20 ms."""
        config = pocketsphinx.Config(
            hmm=pocketsphinx.get_model_path("en-us/en-us"),
            lm=None,
            dict=str(model / "words.dict"),
            jsgf=str(model / "grammar.jsgf"),
            wip=WORD_PENALTY,
            cmn="batch",
            loglevel="FATAL",  # because it logs to standard error
        )
        noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE)
        return cls(pocketsphinx.Decoder(config), (HISS * noise).astype(np.float32))

    def transcribe(
        self,
        audio: NDArray[np.float32],
        *,
        prompt: str,
        language: str | None,
        min_probability: float = 0.0,
    ) -> Hypothesis:
        """
        Transcribe float32[n] at 16 kHz.

        Times come from the decoder's frames, probabilities from the posteriors of its lattice.
        """
        del prompt, language  # the grammar is the only context, and the model is English
        if len(audio) < MIN_SAMPLES:
            return Hypothesis(language="en")
        # A decoder keeps acoustic state from one utterance to the next: without this reset, 96 of
        # 108 repeated calls returned different posteriors and times.
        self.decoder.reinit_feat()
        self.decoder.start_utt()
        try:
            self.decoder.process_raw(self._pcm(audio), no_search=False, full_utt=True)
        finally:
            self.decoder.end_utt()
        words = tuple(
            Word(
                max(0.0, segment.start_frame / FRAMES_PER_SECOND - LEAD_SECONDS),
                (segment.end_frame + 1) / FRAMES_PER_SECOND - LEAD_SECONDS,
                f" {segment.word.partition('(')[0]}",  # "zero(2)" is a pronunciation of "zero"
                min(1.0, segment.prob),
            )
            for segment in self.decoder.seg() or ()
            if segment.prob >= min_probability and _is_word(segment) and _is_in_audio(segment)
        )
        work = WorkCounters(encoder_frames=self.decoder.n_frames(), decoder_forwards=1)
        return Hypothesis(words=words, language="en", work=work)

    def _pcm(self, audio: NDArray[np.float32]) -> bytes:
        quiet: NDArray[np.float32] = np.zeros(round(LEAD_SECONDS * SAMPLE_RATE), dtype=np.float32)
        padded = np.concatenate([quiet, audio])
        noisy = padded + np.resize(self.hiss, len(padded))
        samples: NDArray[np.int16] = (np.clip(noisy, -1.0, 1.0) * 32767).astype("<i2")
        return samples.tobytes()


def _is_word(segment: pocketsphinx.Segment) -> bool:
    """Return whether a segment is a word: neither silence nor noise, and not too long."""
    frames = segment.end_frame + 1 - segment.start_frame
    is_filler = segment.word.startswith(("<", "[", "("))
    return not is_filler and frames <= MAX_WORD_SECONDS * FRAMES_PER_SECOND


def _is_in_audio(segment: pocketsphinx.Segment) -> bool:
    """Return whether a segment ends after the silence added before the audio."""
    return bool(segment.end_frame + 1 > LEAD_SECONDS * FRAMES_PER_SECOND)
