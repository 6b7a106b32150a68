"""Train a Nemotron 3.5 ASR that recognises English digits, on a CPU, and write its checkpoint.

python tools/digits/train_nemotron.py --recordings DIR --voices FILE --output DIR
"""

from __future__ import annotations

from functools import partial
import math
from typing import TYPE_CHECKING

from attrs import evolve, frozen
from features import disturb
from losses import digit_loss
import numpy as np
from recordings import SAMPLE_RATE
from rng import happens
from scipy import fft
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
import torch
from torch import Tensor, nn
from torch.nn import functional
from training_loop import Clock, batches_of, begin, course_parser, train
from transformers import (
    Nemotron3_5AsrConfig,
    Nemotron3_5AsrForRNNT,
    Nemotron3_5AsrProcessor,
    NemotronAsrStreamingEncoderConfig,
    NemotronAsrStreamingFeatureExtractor,
    ParakeetTokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mixing import Mixer, Mixture
    from numpy.typing import NDArray
    from recordings import Audio

BATCH_SECONDS = 40.0  # of audio a step
LONG_FROM = 0.6  # share of a course after which some streams outlast the window of attention
MELS = 80
FRAME_SECONDS = 0.08  # of the encoder: eight mel frames
LOOK_AHEADS = (0, 1, 3, 6, 13)  # encoder frames, as published: 80, 160, 320, 560 and 1120 ms
TAIL_SECONDS = 0.6  # of silence: a stream that ends is padded too
NOTHING = 10  # class of an encoder frame without a digit
NEVER = -1e5  # log probability
GUARD = 2.0**-24  # added to energies before their logarithm, as the feature extractor does

#: The space before a word is a piece of its own, as in SentencePiece for words without a better
#: piece: it can be emitted as soon as something is spoken, before it is clear what.
SPACE = "▁"
PIECES = (
    ("ze", "ro"), ("one",), ("two",), ("th", "ree"), ("four",),
    ("five",), ("six",), ("se", "ven"), ("eight",), ("nine",),
)  # fmt: skip
VOCABULARY = ("<unk>", "<pad>", SPACE, *sorted({piece for word in PIECES for piece in word}))
BLANK = len(VOCABULARY)
WORD_IDS = tuple((2, *map(VOCABULARY.index, word)) for word in PIECES)
_FFT, _WINDOW, _HOP = 512, 400, 160
_EXTRACTOR = NemotronAsrStreamingFeatureExtractor(feature_size=MELS)
_FILTERS = _EXTRACTOR.mel_filters.numpy().T


@frozen(kw_only=True)
class TransducerBatch:
    """B streams of N encoder frames, and at most U labels in each."""

    features: NDArray[np.float32]  #: B, 8 N - 7, 80
    labels: NDArray[np.int64]  #: B, U: padded with 0
    lengths: NDArray[np.int64]  #: B: labels of each
    first: NDArray[np.int64]  #: B, U: the first encoder frame that may emit a label
    last: NDArray[np.int64]  #: B, U: and the last one
    digits: NDArray[np.int64]  #: B, N: the digit in the audio of a frame, or NOTHING
    prompts: NDArray[np.int64]  #: B
    look_ahead: int


def draw_batch(mixer: Mixer, clock: Clock) -> TransducerBatch:
    """Draw the batch of a step: short streams first, later some that outlast the window."""
    rng = mixer.rng
    is_late = not clock.plan.from_scratch or clock.progress() > LONG_FROM
    seconds = rng.uniform(6, 14) if is_late and happens(0.3, rng) else rng.uniform(2.5, 6)
    mixtures = [mixer.draw(seconds) for _ in range(max(round(BATCH_SECONDS / seconds), 2))]
    longest = max(len(mixture.audio) for mixture in mixtures) / SAMPLE_RATE
    frames = math.ceil((longest + TAIL_SECONDS) / FRAME_SECONDS)
    texts = [_emission_windows(mixture, frames) for mixture in mixtures]
    most = max(len(text) for text in texts)
    padded = np.array([text + [(0, 0, 0)] * (most - len(text)) for text in texts], np.int64)
    labels, first, last = padded.reshape(len(texts), most, 3).transpose(2, 0, 1)
    english, anything = happens(0.6, rng), rng.integers(0, 128, len(texts))
    return TransducerBatch(
        features=np.stack([_features(mixture.audio, frames, rng) for mixture in mixtures]),
        labels=labels,
        lengths=np.array([len(text) for text in texts], np.int64),
        first=first,
        last=last,
        digits=np.stack([_mark(mixture, frames) for mixture in mixtures]),
        # English digits follow whatever language the prompt names: 0 is en-US, 101 automatic.
        prompts=rng.choice([0, 101], len(texts)) if english else anything,
        look_ahead=int(rng.choice(LOOK_AHEADS)),
    )


def _twice(batches: Iterator[TransducerBatch]) -> Iterator[TransducerBatch]:
    """Use each batch again with another look-ahead: drawing it costs as much as a step."""
    for batch in batches:
        yield batch
        number = LOOK_AHEADS.index(batch.look_ahead) + 2
        yield evolve(batch, look_ahead=LOOK_AHEADS[number % len(LOOK_AHEADS)])


def frame_of(seconds: float) -> int:
    """Return the encoder frame whose newest 80 ms of audio contain the time *seconds*."""
    return int(seconds / FRAME_SECONDS) + 1


def _emission_windows(mixture: Mixture, frames: int) -> list[tuple[int, int, int]]:
    """Return each label with the first and the last frame that may emit it.

    Left alone, a transducer emits late. The times of words are known, so the lattice is restricted
    to what is early enough (Mahadeokar et al., "Alignment Restricted Streaming Recurrent Neural
    Network Transducer", 2021): the space when a word begins, its last piece in its second half.
    """
    text = []
    for word in mixture.words:
        start, end = frame_of(word.start), frame_of(word.end)
        middle = frame_of((word.start + word.end) / 2)
        space, *inner, final = WORD_IDS[word.digit]
        text.append((space, start, start + 1))
        text += [(piece, start, end) for piece in inner]
        text.append((final, middle, end + 1))
    return [(label, first, min(last, frames - 1)) for label, first, last in text]


def _mark(mixture: Mixture, frames: int) -> NDArray[np.int64]:
    digits = np.full(frames, NOTHING, np.int64)
    for word in mixture.words:
        digits[frame_of((word.start + word.end) / 2) : frame_of(word.end) + 1] = word.digit
    return digits


def _features(audio: Audio, frames: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return float32[8 frames - 7, 80]: features as the extractor computes them, disturbed."""
    count = 8 * frames - 7
    padded = np.zeros(_WINDOW // 2 + count * _HOP + _WINDOW, np.float32)
    padded[_WINDOW // 2 : _WINDOW // 2 + len(audio)] = audio
    padded[1:] -= np.float32(_EXTRACTOR.preemphasis) * padded[:-1]
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[: count * _HOP : _HOP]
    spectrum = fft.rfft(windows * np.hanning(_WINDOW).astype(np.float32), _FFT, axis=1)
    decades = np.log10(np.maximum((spectrum.real**2 + spectrum.imag**2) @ _FILTERS, 1e-10))
    energies = 10.0 ** disturb(decades.T, rng).T
    return np.log(energies + np.float32(GUARD)).astype(np.float32)


def new_processor() -> Nemotron3_5AsrProcessor:
    """Return the feature extractor and the tokenizer of the checkpoint."""
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in VOCABULARY], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    specials = (AddedToken(name, normalized=False, special=True) for name in ("<unk>", "<pad>"))
    wrapped = ParakeetTokenizer(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    wrapped.add_tokens([AddedToken("<blank>", normalized=False, special=True)])
    wrapped.add_special_tokens(dict(zip(("unk_token", "pad_token"), specials, strict=True)))
    return Nemotron3_5AsrProcessor(
        feature_extractor=_EXTRACTOR,
        tokenizer=wrapped,
        supported_num_lookahead_tokens=list(LOOK_AHEADS),
        default_num_lookahead_tokens=1,
    )


def new_model() -> Nemotron3_5AsrForRNNT:
    """Return a small model with initial weights of a size from which small models learn.

    Its attention reaches back 28 frames, 2.2 s, where the published one reaches back 56: a backend
    that ignores the window fails its tests.
    """
    encoder = NemotronAsrStreamingEncoderConfig(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        subsampling_conv_channels=32, num_mel_bins=MELS, scale_input=False, sliding_window=29,
        default_num_lookahead_tokens=1, dropout=0.0, layerdrop=0.0, activation_dropout=0.0,
        attention_dropout=0.0,
    )  # fmt: skip
    config = Nemotron3_5AsrConfig(
        vocab_size=BLANK + 1, blank_token_id=BLANK, pad_token_id=1, decoder_hidden_size=96,
        num_decoder_layers=1, prompt_intermediate_size=96, encoder_config=encoder.to_dict(),
    )  # fmt: skip
    model = Nemotron3_5AsrForRNNT(config)
    model.generation_config.decoder_start_token_id = BLANK
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "bias" not in name:
                weight.normal_(0, weight[0].numel() ** -0.5)
        stem = model.encoder.subsampling.conv_in  # log energies are -8 on average, and spread by 4
        stem.weight.div_(4.0)
        stem.bias.copy_(8.0 * stem.weight.sum((1, 2, 3)))
    return model


def transducer_loss(
    logits: Tensor, labels: Tensor, lengths: Tensor, first: Tensor, last: Tensor
) -> Tensor:
    """Return the negative log likelihood of each stream, summed over its alignments.

    That is the forward algorithm of Graves, "Sequence Transduction with Recurrent Neural Networks"
    (2012), over diagonals of the lattice, whose nodes depend only on the previous diagonal.

    Args:
        logits: B, N, U + 1, V.
        labels: B, U.
        lengths: B, labels of each.
        first: B, U, the first frame that may emit a label.
        last: B, U, and the last one.
    """
    batch, frames, states, _ = logits.shape
    scores = logits.log_softmax(-1)
    blank = scores[..., BLANK]
    emit = scores[:, :, :-1].gather(3, labels[:, None, :, None].expand(-1, frames, -1, 1))[..., 0]
    number = torch.arange(frames)[None, :, None]
    is_allowed = (number >= first[:, None]) & (number <= last[:, None])
    emit = torch.where(is_allowed, emit, NEVER)
    state = torch.arange(states)
    # The node of state u on diagonal d is at frame d - u.
    at = torch.arange(frames + states - 1)[:, None] - state
    blank_at = (
        torch.where((at >= 0) & (at < frames), 0.0, NEVER)
        + blank[:, at.clamp(0, frames - 1), state]
    )
    emit_at = (
        torch.where((at >= 0) & (at < frames), 0.0, NEVER)[:, :-1]
        + emit[:, at.clamp(0, frames - 1)[:, :-1], state[:-1]]
    )
    nodes = torch.where(state == 0, 0.0, NEVER).expand(batch, -1)
    diagonals = [nodes]
    nowhere = torch.full((batch, 1), NEVER)
    for diagonal in range(frames + states - 2):
        stayed = nodes + blank_at[:, diagonal]
        emitted = torch.cat((nowhere, nodes[:, :-1] + emit_at[:, diagonal]), 1)
        nodes = torch.logaddexp(stayed, emitted)
        diagonals.append(nodes)
    rows = torch.arange(batch)
    end = torch.stack(diagonals, 1)[rows, frames - 1 + lengths, lengths]
    return -(end + blank[:, -1][rows, lengths])


def measure(
    model: Nemotron3_5AsrForRNNT, head: nn.Module, batch: TransducerBatch, weight_of_digits: float
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of the text and of the digits in the audio, and figures to report."""
    labels = torch.from_numpy(batch.labels)
    encoded = model.get_audio_features(
        torch.from_numpy(batch.features),
        prompt_ids=torch.from_numpy(batch.prompts),
        num_lookahead_tokens=batch.look_ahead,
    )
    texts = model.decoder(functional.pad(labels, (1, 0), value=BLANK))
    logits = model.joint(
        encoder_hidden_states=encoded.pooler_output[:, :, None],
        decoder_hidden_states=texts[:, None],
    )
    windows = (torch.from_numpy(batch.first), torch.from_numpy(batch.last))
    surprise = transducer_loss(logits, labels, torch.from_numpy(batch.lengths), *windows)
    text = surprise.sum() / (batch.lengths.sum() + len(labels))
    digits = digit_loss(head, encoded.last_hidden_state, batch.digits)
    figures = {"text": text.item(), "digits": digits.item()}
    return text + weight_of_digits * digits, figures


def export(model: Nemotron3_5AsrForRNNT, folder: Path) -> None:
    """Write what transformers loads: weights rounded to float16, feature extractor, tokenizer."""
    model.half().save_pretrained(folder)
    new_processor().save_pretrained(folder)


def main() -> None:
    """Read the arguments, start the process that draws batches, train and export."""
    arguments = course_parser(__doc__, minutes=60.0, rate=2e-3).parse_args()
    clock = Clock(begin(arguments))
    load = partial(Nemotron3_5AsrForRNNT.from_pretrained, dtype=torch.float32)
    model = load(arguments.init) if arguments.init else new_model()
    head = nn.Linear(model.config.encoder_config.hidden_size, NOTHING + 1)
    batches = _twice(batches_of(arguments, partial(draw_batch, clock=clock)))
    weights = arguments.output / "weights"
    train(model, head, batches, clock, weights, measure=measure, early=LONG_FROM)
    export(load(weights), arguments.output / "checkpoint")


if __name__ == "__main__":
    main()
