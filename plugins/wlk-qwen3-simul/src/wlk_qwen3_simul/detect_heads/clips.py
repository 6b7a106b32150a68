"""Score the heads of a model on clips with known word times, with one forward per clip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wlk_core.plugins import SAMPLE_RATE, OptionError, locate
from wlk_frameworks.recordings import read_recording
from wlk_frameworks.torch import choose_device, inference
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.detect_heads.scores import Scores
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.engine.prompt import ChatPrompt
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.plugin import QWEN3_SIMUL
from wlk_qwen3_simul.torch.checkpoint import load_model
from wlk_qwen3_simul.torch.network import AttentionCapture, TorchNetwork

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_qwen3_simul.detect_heads.manifest import Clip

SLACK_SECONDS = 0.1  # by which the last word may end after its clip


def score_clips(
    model: str, clips: Iterable[Clip], *, device: str = "cpu", cache_dir: str | None = None
) -> Scores:
    """
    Return the scores of all heads of *model*, in float32.

    Raises:
        ModelNotFoundError: the model is missing or damaged.
        AudioFormatError: a clip cannot be decoded.
        OptionError: a word lies after the end of its clip.
        BackendUnavailable: the device is missing.

    """
    chosen = choose_device(device)
    directory = locate(model, spec=QWEN3_SIMUL, bundled=BUNDLED, cache_dir=cache_dir)
    vocabulary = Vocabulary.read(directory)
    loaded = load_model(directory, device=chosen, dtype=torch.float32)
    text_config: Any = loaded.config.text_config
    scores = Scores.zero(text_config.num_hidden_layers, text_config.num_attention_heads)
    prompt = ChatPrompt.build(vocabulary)
    for clip in clips:
        audio = _decode(clip)
        text: list[int] = []
        spans: list[tuple[float, float]] = []
        for word, piece in zip(clip.words, clip.pieces, strict=True):
            ids = vocabulary.encode(piece)
            text += ids
            spans += [(word.start, word.end)] * len(ids)
        if text:
            forced = (*prompt.after_audio, *prompt.header(clip.language), *text)
            attention = attention_of_all_heads(
                loaded, audio, before=prompt.before_audio, after=forced, rows=len(text) + 1
            )
            scores.add(attention, spans)
    return scores


def _decode(clip: Clip) -> NDArray[np.float32]:
    audio = read_recording(clip.audio)
    seconds = len(audio) / SAMPLE_RATE
    if clip.words and clip.words[-1].end > seconds + SLACK_SECONDS:
        raise OptionError(
            f"{clip.audio} is {seconds:.2f} s long, but its last word in the manifest ends at "
            f"{clip.words[-1].end:g} s"
        )
    return audio


def attention_of_all_heads(
    model: Any,
    audio: NDArray[np.float32],
    *,
    before: Sequence[int],
    after: Sequence[int],
    rows: int,
) -> NDArray[np.float32]:
    """
    Return float32[layers, heads, rows, audio tokens]: a softmax over the audio alone.

    The decoder is given *audio*, float32[n], between the ids *before* and *after*.  The rows are
    its last positions: the input of each is the token before the one that it predicts.
    """
    encoder = IncrementalEncoder(TorchNetwork(model, alignment_heads=()))
    windows = encoder.encode(audio, first_sample=0).windows
    encoded = torch.cat([window.embeddings for window in windows])
    config, decoder = model.config.text_config, model.model.language_model
    all_heads = torch.arange(config.num_attention_heads, device=model.device)
    capture = AttentionCapture(
        dict.fromkeys(range(config.num_hidden_layers), all_heads),
        rows,
        (len(before), len(before) + len(encoded)),
    )
    with inference(model.device):
        prefix, suffix = (
            decoder.embed_tokens(torch.tensor(ids, device=encoded.device))
            for ids in (before, after)
        )
        embedded = torch.cat([prefix, encoded, suffix])[None]
        decoder(inputs_embeds=embedded, use_cache=False, attention_capture=capture)
    attention: NDArray[np.float32] = torch.stack(capture.weights).float().cpu().numpy()
    return attention
