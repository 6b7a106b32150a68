"""The training of a Nemotron: its features, its labels and the loss of its transducer."""

from __future__ import annotations

import itertools

from mixing import Mixture, Word
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install torch")
pytest.importorskip(
    "transformers.models.nemotron3_5_asr", reason="pip install 'transformers>=5.23'"
)

import train_nemotron as training  # noqa: E402 -- it imports torch


def test_the_loss_adds_up_every_alignment_that_the_windows_allow():
    """The loss is the negative log of the summed probability of every allowed path."""
    generator = torch.Generator().manual_seed(0)
    frames, labels, first, last = 4, [3, 4], [1, 1], [2, 3]
    size = (1, frames, len(labels) + 1, training.BLANK + 1)
    logits = 2 * torch.randn(size, generator=generator, dtype=torch.float64)
    scores = logits.log_softmax(-1)[0]
    paths = []
    for emitted in itertools.combinations_with_replacement(range(frames), len(labels)):
        windows = zip(first, emitted, last, strict=True)
        if not all(early <= frame <= late for early, frame, late in windows):
            continue
        places = enumerate(zip(emitted, labels, strict=True))
        path = [scores[frame, state, label] for state, (frame, label) in places]
        path += [scores[f, sum(e <= f for e in emitted), training.BLANK] for f in range(frames)]
        paths.append(sum(path))
    loss = training.transducer_loss(
        logits, *(torch.tensor([values]) for values in (labels, len(labels), first, last))
    )

    assert len(paths) == 5
    torch.testing.assert_close(-torch.logsumexp(torch.stack(paths), 0), loss[0])


def test_the_features_are_those_of_the_extractor(monkeypatch):
    """Apart from disturbances, training sees the features of a stream."""
    monkeypatch.setattr(training, "disturb", lambda features, _rng: features)
    audio = 0.1 * np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    padded = np.pad(audio, (0, 8000))
    expected = training._EXTRACTOR(padded, sampling_rate=16_000, return_tensors="np")

    ours = training._features(audio, 9, np.random.default_rng(0))
    np.testing.assert_allclose(expected.input_features[0, :65], ours, atol=5e-3)


def test_a_word_is_emitted_while_it_is_spoken():
    """The space is emitted when the word begins, the last piece in its second half."""
    word = Word(digit=0, start=0.1, end=0.5)
    mixture = Mixture(audio=np.zeros(16_000, np.float32), words=(word,))
    pieces = map(training.VOCABULARY.index, (training.SPACE, "ze", "ro"))
    windows = ((2, 3), (2, 7), (4, 8))

    expected = [(piece, *window) for piece, window in zip(pieces, windows, strict=True)]
    assert expected == training._emission_windows(mixture, 20)
    assert [10, 10, 10, 10, 0, 0, 0, 0, 10] == training._mark(mixture, 9).tolist()


def test_the_tokenizer_writes_the_labels():
    """Transformers' own tokenizer divides words as the training does."""
    tokenizer = training.new_processor().tokenizer

    assert [*training.WORD_IDS[7], *training.WORD_IDS[1]] == tokenizer("seven one").input_ids
