"""Train a small streaming transducer that recognises English digits, on a CPU.

python tools/digits/train_sherpa.py --recordings DIR --voices FILE --output DIR
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import frozen
from batches_voxtral import NOTHING, PIECES, disturb_mel
import kaldi_native_fbank
from losses import digit_loss
import numpy as np
from recordings import SAMPLE_RATE
from rng import happens
import torch
from torch import nn
from torch.nn import functional
from training_loop import Clock, batches_of, begin, course_parser, train

if TYPE_CHECKING:
    from pathlib import Path

    from mixing import Mixer, Mixture
    from numpy.typing import NDArray
    from recordings import Audio
    from torch import Tensor

#: A word is a space, whose time is the start of the word, and its pieces.
SPACE = "▁"
_WORDS = tuple(dict.fromkeys(piece.strip() for pieces in PIECES for piece in pieces))
#: The first three have the ids of icefall's recipes.
TOKENS = ("<blk>", "<sos/eos>", "<unk>", SPACE, *_WORDS)
SPACE_ID = TOKENS.index(SPACE)
IDS_OF = tuple(tuple(TOKENS.index(piece.strip()) for piece in pieces) for pieces in PIECES)

WEIGHTS = "weights.pt"
MELS = 80
STRIDE = 4  # mel frames per encoder frame, which sherpa-onnx assumes
FRAME_SECONDS = 0.04
CHUNK_FRAMES = 8  # mel frames by which a step of the encoder advances
WINDOW_FRAMES = CHUNK_FRAMES + 11  # mel frames that a step sees, up to 150 ms after a token's time
START_DELAY = 0.04  # seconds from the start of a word to its space, which then sees 0.19 s of it
END_ADVANCE = 0.08  # seconds from the first piece of a word to the end of the word
TAIL_SAMPLES = round(0.6 * SAMPLE_RATE)  # of zeros after the audio, as at the end of a stream
SHIFTS = (-1, 0, 1, 2, 3, 5)  # frames by which a token is emitted late ...
SHARES = (0.1, 0.5, 0.18, 0.1, 0.07, 0.05)  # ... and the share of tokens for each
SPURIOUS = 0.08  # share of words that follow a space without a word
CORRUPTED = 0.05  # share of pieces that are replaced in the context
IGNORED = -100
BATCH_SECONDS = 20.0
LONG_FROM = 0.6  # share of a course after which some streams are as long as in real use

_OPTIONS = kaldi_native_fbank.FbankOptions()  # those of sherpa-onnx
_OPTIONS.frame_opts.dither = 0.0
_OPTIONS.frame_opts.snip_edges = False
_OPTIONS.mel_opts.num_bins = MELS
_OPTIONS.mel_opts.high_freq = -400.0


def fbank(audio: Audio) -> NDArray[np.float32]:
    """Return float32[frames, 80], the features that sherpa-onnx computes."""
    extractor = kaldi_native_fbank.OnlineFbank(_OPTIONS)
    extractor.accept_waveform(SAMPLE_RATE, audio)
    extractor.input_finished()
    return np.stack([extractor.get_frame(i) for i in range(extractor.num_frames_ready)])


def scaled(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return log power, in nepers, on the scale of Voxtral's features: a unit is four decades."""
    return (features / np.float32(np.log(10)) + np.float32(3.42)) / 4


class Transducer(nn.Module):
    """Convolutions over time and mel bands, an LSTM, and a decoder that sees two tokens."""

    def __init__(self, size: int = 160, layers: int = 2, joint: int = 128) -> None:
        super().__init__()
        self.size, self.layers, self.joint = size, layers, joint
        self.bands = nn.Sequential(
            nn.Conv2d(1, 16, (3, 5), stride=(2, 2), padding=(0, 2)), nn.ReLU(),
            nn.Conv2d(16, 32, (3, 5), stride=(2, 2), padding=(0, 2)), nn.ReLU(),
        )  # fmt: skip
        self.mixed = nn.Linear(32 * MELS // 4, size)
        self.ahead = nn.Conv1d(size, size, 3)
        self.norm = nn.LayerNorm(size)
        self.lstm = nn.LSTM(size, size, layers, batch_first=True)
        self.encoded = nn.Linear(size, joint)
        self.embedding = nn.Embedding(len(TOKENS), joint)
        self.decoded = nn.Linear(2 * joint, joint)
        self.output = nn.Linear(joint, len(TOKENS))

    def encode(self, mel: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return B, n, joint of scaled features B, 4 n + 11, 80, and the new states of the LSTM."""
        bands = self.bands(2 * mel[:, None]).permute(0, 2, 1, 3).flatten(2)
        mixed = functional.relu(self.mixed(bands)).transpose(1, 2)
        ahead = functional.relu(self.ahead(mixed)).transpose(1, 2)
        output, (h, c) = self.lstm(self.norm(ahead), (h, c))
        return self.encoded(output), h, c

    def decode(self, context: Tensor) -> Tensor:
        """Return N, joint of int64 N, 2: the last two tokens, -1 before the first."""
        known = (context >= 0)[..., None]
        return self.decoded((self.embedding(context.clamp(min=0)) * known).flatten(1))

    def join(self, encoded: Tensor, decoded: Tensor) -> Tensor:
        """Return logits N, tokens."""
        return self.output(torch.tanh(encoded + decoded))

    def save_pretrained(self, folder: Path) -> None:
        """Store the weights."""
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self.state_dict(), folder / WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> Transducer:
        """Return the model with stored weights."""
        model = cls()
        model.load_state_dict(torch.load(folder / WEIGHTS, weights_only=True))
        return model


@frozen(kw_only=True)
class TransducerBatch:
    """B streams of N frames: what each frame emits, given what was emitted before it."""

    mel: NDArray[np.float32]  #: B, 4 N + 11, 80, scaled
    contexts: NDArray[np.int64]  #: B, N, 2
    tokens: NDArray[np.int64]  #: B, N: 0 for none, IGNORED where a token and none are both right
    digits: NDArray[np.int64]  #: B, N: the digit in whose second half the frame lies, or NOTHING


def draw_step(mixer: Mixer, clock: Clock) -> TransducerBatch:
    """Draw the batch of a step: short streams first, later long ones too."""
    rng = mixer.rng
    is_late = not clock.plan.from_scratch or clock.progress() > LONG_FROM
    seconds = rng.uniform(9, 28) if is_late and happens(0.4, rng) else rng.uniform(2.5, 7)
    mixtures = [mixer.draw(seconds) for _ in range(max(round(BATCH_SECONDS / seconds), 1))]
    longest = max(len(mixture.audio) for mixture in mixtures) + TAIL_SAMPLES
    mels = [fbank(np.pad(m.audio, (0, longest - len(m.audio)))) for m in mixtures]
    frames = (len(mels[0]) - 11) // STRIDE
    mel = np.stack([disturb_mel(scaled(mel).T, rng).T[: STRIDE * frames + 11] for mel in mels])
    contexts, tokens = zip(*(align(mixture, frames, rng) for mixture in mixtures), strict=True)
    return TransducerBatch(
        mel=mel,
        contexts=np.stack(contexts),
        tokens=np.stack(tokens),
        digits=np.stack([_mark(mixture, frames) for mixture in mixtures]),
    )


def align(
    mixture: Mixture, frames: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the context and the token of every frame along a known alignment.

    A token is emitted in the frame where it is due or a few frames off.  An overdue token is the
    target until it is emitted: a model that never saw one would never emit one.  The second piece
    of a word follows the first in the next frame.
    """
    tokens, history = np.zeros(frames, np.int64), [(-1, -1), (-1, 0)]

    def emit(due: int, token: int, shift: int) -> None:
        begin = history[-1][0] + 1
        frame = max(due + shift, begin)
        if frame < due:
            tokens[frame : frame + 1] = IGNORED
        else:
            tokens[max(due, begin) : frame + 1] = token
        is_other = token != SPACE_ID and happens(CORRUPTED, rng)
        history.append((frame, int(rng.integers(SPACE_ID, len(TOKENS))) if is_other else token))

    for word in mixture.words:
        start = int((word.start + START_DELAY) / FRAME_SECONDS)
        free_frames = start - history[-1][0] - 2
        if free_frames > 0 and happens(SPURIOUS, rng):
            emit(start, SPACE_ID, -int(rng.integers(2, free_frames + 2)))
        emit(start, SPACE_ID, int(rng.choice(SHIFTS, p=SHARES)))
        end = int((word.end - END_ADVANCE) / FRAME_SECONDS)
        first, *others = IDS_OF[word.digit]
        emit(max(end, history[-1][0] + 1), first, int(rng.choice(SHIFTS, p=SHARES)))
        for piece in others:
            emit(history[-1][0] + 1, piece, 0)
    ends = [*(frame + 1 for frame, _ in history[1:]), frames]
    contexts = np.empty((frames, 2), np.int64)
    for index, ((_, before), (_, last)) in enumerate(pairwise(history)):
        contexts[ends[index] : ends[index + 1]] = before, last
    return contexts, tokens


def _mark(mixture: Mixture, frames: int) -> NDArray[np.int64]:
    digits = np.full(frames, NOTHING, np.int64)
    for word in mixture.words:
        middle = (word.start + word.end) / 2
        digits[int(middle / FRAME_SECONDS) : int(word.end / FRAME_SECONDS) + 1] = word.digit
    return digits


def measure(
    model: Transducer, digit_head: nn.Module, batch: TransducerBatch, weight_of_digits: float
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of the tokens and of the digits in the audio, and figures to report."""
    zeros = torch.zeros(model.layers, len(batch.mel), model.size)
    encoded, _, _ = model.encode(torch.from_numpy(batch.mel), zeros, zeros)
    decoded = model.decode(torch.from_numpy(batch.contexts).flatten(0, 1))
    logits = model.join(encoded.flatten(0, 1), decoded)
    targets = torch.from_numpy(batch.tokens).flatten()
    tokens = functional.cross_entropy(logits, targets, ignore_index=IGNORED)
    digits = digit_loss(digit_head, encoded, batch.digits)
    is_text = targets > 0
    right = (logits.argmax(-1) == targets)[is_text].float().mean().item() if is_text.any() else 1.0
    figures = {"tokens": tokens.item(), "digits": digits.item(), "right": right}
    return tokens + 0.3 * weight_of_digits * digits, figures


def main() -> None:
    """Read the arguments, start the process that draws batches, and train."""
    arguments = course_parser(__doc__, minutes=10.0, rate=3e-3).parse_args()
    clock = Clock(begin(arguments))
    model = Transducer.load(arguments.init) if arguments.init else Transducer()
    head = nn.Linear(model.joint, NOTHING + 1)
    batches = batches_of(arguments, partial(draw_step, clock=clock))
    train(model, head, batches, clock, arguments.output, measure=measure, early=LONG_FROM)


if __name__ == "__main__":
    main()
