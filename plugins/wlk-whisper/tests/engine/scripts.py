"""A network that follows a script, on audio that contains its position in the utterance."""

from __future__ import annotations

import attrs
from faster_whisper.tokenizer import Tokenizer
import numpy as np

from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.features import SAMPLES_PER_ENCODER_FRAME
from wlk_whisper.engine.network import DecoderOutput
from wlk_whisper.engine.tokenizer_file import read_tokenizer

RATE = 16_000
WIDTH = 16  # encoder frames on either side of the attended one that get attention, too
HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)
TOKENIZER = Tokenizer(HF_TOKENIZER, True, task="transcribe", language="en")
SOT, EOT, NO_SPEECH = TOKENIZER.sot, TOKENIZER.eot, TOKENIZER.no_speech
NO_TIMESTAMPS, TIMESTAMPS = TOKENIZER.no_timestamps, TOKENIZER.timestamp_begin
START = [*TOKENIZER.sot_sequence, NO_TIMESTAMPS]


@attrs.frozen
class SpokenToken:
    """A token and the encoder frame of the utterance, 20 ms each, in whose middle it is spoken."""

    token: int
    frame: int


def sentence(text, *, first=25, every=25):
    """Return the tokens of *text*, one every half second from half a second on."""
    return [
        SpokenToken(token, first + every * index)
        for index, token in enumerate(TOKENIZER.encode(text))
    ]


def ramp(first, end):
    """Return audio that contains its position in the utterance: sample n is n millionths."""
    return (np.arange(first, end) / 1e6).astype(np.float32)


def read_ramp(audio, *, padding):
    """Return features of a ramp: the number of its first sample, and how many follow."""
    features = np.zeros((80, len(audio) // 160), dtype=np.float32)
    features[0] = audio[0] * 1e6
    features[1] = np.flatnonzero(audio).max(initial=-1) + 1
    return features


@attrs.frozen
class EncoderOutput:
    """The encoder frames of the utterance from *first* on, of which *audible* contain audio."""

    first: int
    frames: int
    audible: int


@attrs.define(eq=False)
class ScriptedNetwork:
    """
    A network that emits the tokens of a script that lie in the audio, and attends to them.

    *languages* are ranked in the order given.  If it *hallucinates*, it emits the script for
    silence, too.  A pass whose attention is requested may fail or return none.
    """

    script: list = ()
    languages: tuple = ("en",)
    no_speech_prob: float = 0.0
    n_vocab: int = 51865
    n_text_ctx: int = 448
    n_mels: int = 80
    alignment_heads: tuple = ((0, 0), (1, 0))
    hallucinates: bool = False
    has_attention: bool = True
    fails_with: type[Exception] | None = None
    inputs: list = attrs.Factory(list)  # of each pass
    windows: list = attrs.Factory(list)
    aligned: int = 0  # passes with attention

    def encode(self, features, *, silence_stride=0):
        """Read the position in the utterance."""
        self.windows.append((*features.shape, silence_stride))
        first, samples = (round(float(value)) for value in features[:2, 0])
        audible = -(-samples // SAMPLES_PER_ENCODER_FRAME)
        return EncoderOutput(first // SAMPLES_PER_ENCODER_FRAME, features.shape[1] // 2, audible)

    def new_decoder(self, encoder_output):
        """Return a decoder without tokens."""
        return ScriptedDecoder(self, encoder_output)

    def follow(self, inputs, output):
        """Return the token after *inputs* and the frame of the *output* that it attends to."""
        spoken = [
            (entry.token, entry.frame - output.first)
            for entry in self.script
            if 0 <= entry.frame - output.first < output.audible
            or (self.hallucinates and not output.audible)
        ]
        if SOT not in inputs[:-2]:
            return 100, output.frames - 1
        if NO_TIMESTAMPS not in inputs:  # each token comes between its timestamps
            timed = [
                (token, frame)
                for word, frame in spoken
                for token in (TIMESTAMPS + frame - 10, word, TIMESTAMPS + frame + 10)
            ]
            text, spoken = inputs[inputs.index(SOT) + 3 :], timed
        else:
            text = inputs[inputs.index(NO_TIMESTAMPS) + 1 :]
        end = (EOT, max(0, output.audible - 1))
        return spoken[len(text)] if len(text) < len(spoken) else end


@attrs.define(eq=False)
class ScriptedDecoder:
    """A decoder of one row that emits the script after its forced tokens."""

    network: ScriptedNetwork
    encoder_output: EncoderOutput
    inputs: list = attrs.Factory(list)

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Return logits that are sure of the next token, and attention to its frame."""
        network, logits, attention = self.network, [], []
        for token in tokens[0].tolist():
            self.inputs.append(token)
            following, frame = network.follow(self.inputs, self.encoder_output)
            row = np.zeros(network.n_vocab, dtype=np.float32)
            if token != SOT:
                row[following] = 30.0
            elif network.no_speech_prob:
                odds = network.no_speech_prob / (1 - network.no_speech_prob)
                row[NO_SPEECH] = np.log(network.n_vocab - 1) + np.log(odds)
            else:
                for rank, code in enumerate(network.languages):
                    row[HF_TOKENIZER.token_to_id(f"<|{code}|>")] = 30.0 - rank
            logits.append(row)
            distance = np.abs(np.arange(self.encoder_output.frames) - frame)
            peak = np.maximum(WIDTH - distance, 0.01).astype(np.float32)
            attention.append(peak / peak.sum())
        network.inputs.append(list(self.inputs))
        weights = None
        if output_attention and network.fails_with:
            raise network.fails_with
        if output_attention and network.has_attention:
            network.aligned += 1
            weights = np.stack([np.stack(attention)] * len(network.alignment_heads))[None]
        return DecoderOutput(
            logits=np.stack([logits[index] for index in logits_to_keep])[None],
            cross_attention=weights,
        )

    def reorder_cache(self, rows):
        """Keep the single row."""
        assert list(rows) == [0]


def engine_of(network, *, languages=None, are_known=True, begin_suppress_tokens=None):
    """Return an engine around *network* whose checkpoint knows *languages*."""
    return WhisperEngine(
        network=network,
        hf_tokenizer=HF_TOKENIZER,
        tokenizer_class=Tokenizer,
        feature_extractor=read_ramp,
        checkpoint=Checkpoint(name="script", languages=languages),
        alignment_heads=AlignmentHeads(pairs=network.alignment_heads, are_known=are_known),
        begin_suppress_tokens=begin_suppress_tokens,
    )
