"""The LocalAgreement engine call, over a network that follows a script."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import attrs
from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
import numpy as np
import pytest

from wlk_conformance.testing import noise
from wlk_core.plugins import LoadedBackend
from wlk_whisper.backend import _open_stream, _warm_up
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.engine import (
    DecodingOptions,
    WhisperEngine,
    transcribe,
)
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper.engine.network import ALONE, ChoiceTooClose, DecoderOutput, Rounding, run_alone
from wlk_whisper.plugin import WHISPER

HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)
SOT, EOT, NO_SPEECH, NO_TIMESTAMPS = 50258, 50257, 50362, 50363
AUDIO = noise(3.0, level=0.1, seed=1)


def ids(text):
    """Return the ids of *text*."""
    return HF_TOKENIZER.encode(text, add_special_tokens=False).ids


@attrs.define(eq=False)
class ScriptedNetwork:
    """
    A network that emits *tokens* after any prompt, and attends to them in order.

    Text token i is attended to from frame ``25 i`` on.  *languages* are ranked as they stand;
    *no_speech_prob* is the probability of no speech.  A pass whose attention is requested may fail
    or return none.
    """

    tokens: tuple = ()
    languages: tuple = ("en",)
    no_speech_prob: float = 0.0
    n_vocab: int = 51865
    n_text_ctx: int = 448
    n_mels: int = 80
    alignment_heads: tuple = ((0, 0), (1, 0))
    rounding: Rounding = ALONE
    has_attention: bool = True
    fails_with: type[Exception] | None = None
    inputs: list = attrs.Factory(list)
    windows: list = attrs.Factory(list)
    aligned: int = 0

    def encode(self, features, *, is_padded=False):
        """Record the window."""
        self.windows.append((*features.shape, is_padded))
        return EncoderOutput(features.shape[1] // 2)

    def new_decoder(self, encoder_output):
        """Return a decoder of the script."""
        return ScriptedDecoder(self, encoder_output.frames)


@attrs.frozen
class EncoderOutput:
    """Nothing but a length."""

    frames: int


@attrs.define(eq=False)
class ScriptedDecoder:
    """Emit the script."""

    network: ScriptedNetwork
    frames: int
    inputs: list = attrs.Factory(list)

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Make the next token of the script the likeliest by far."""
        first = len(self.inputs)
        self.inputs += [int(token) for token in tokens[0]]
        self.network.inputs.append(tuple(self.inputs))
        rows = [self._logits(first + index) for index in range(tokens.shape[1])]
        logits = np.stack([rows[index] for index in logits_to_keep])[None]
        attention = None
        if output_attention and self.network.fails_with:
            raise self.network.fails_with
        if output_attention and self.network.has_attention:
            self.network.aligned += 1
            start = self.inputs.index(NO_TIMESTAMPS)
            attention = np.full((2, len(rows), self.frames), 1e-3, dtype=np.float32)
            for row in range(len(rows)):
                index = max(0, first + row - start)
                attention[:, row, 25 * index : 25 * (index + 1)] = 1.0
            attention = attention[None] / attention.sum(-1, keepdims=True)
        return DecoderOutput(
            logits=logits, cross_attention=attention, rounding=self.network.rounding
        )

    def reorder_cache(self, rows):
        """Change nothing, because all rows are the same."""

    def _logits(self, index):
        logits = np.zeros(self.network.n_vocab, dtype=np.float32)
        inputs = self.inputs[: index + 1]
        if SOT not in inputs:
            return logits
        if inputs == [SOT] and not self.network.no_speech_prob:
            for rank, code in enumerate(self.network.languages):
                logits[HF_TOKENIZER.token_to_id(f"<|{code}|>")] = 30.0 - rank
        if inputs[-1] == SOT and self.network.no_speech_prob:
            others = np.log(self.network.n_vocab - 1)
            odds = np.log(self.network.no_speech_prob / (1 - self.network.no_speech_prob))
            logits[NO_SPEECH] = others + odds
        text = inputs[inputs.index(SOT) + 3 :]
        if NO_TIMESTAMPS in inputs:
            logits[EOT] = 40.0
        elif len(inputs) >= inputs.index(SOT) + 3:
            script = (*self.network.tokens, EOT)
            logits[script[min(len(text), len(script) - 1)]] = 40.0
        return logits


def engine_of(network, languages=None, *, are_known=True):
    """Return an engine around *network* whose checkpoint knows *languages*."""
    return WhisperEngine(
        network=network,
        hf_tokenizer=HF_TOKENIZER,
        tokenizer_class=Tokenizer,
        feature_extractor=FeatureExtractor(feature_size=80),
        checkpoint=Checkpoint(name="script", languages=languages),
        alignment_heads=AlignmentHeads(pairs=network.alignment_heads, are_known=are_known),
    )


def run(network, *, audio=AUDIO, prompt="", language="en", languages=None, **options):
    """Return the hypothesis of one engine call."""
    passes = transcribe(
        audio,
        engine=engine_of(network, languages),
        options=DecodingOptions(**options),
        prompt=prompt,
        language=language,
    )
    return run_alone(network, passes)


def timestamped(*words):
    """Return the tokens of *words*, each between its timestamps, half a second apart."""
    tokens = []
    for index, word in enumerate(words):
        tokens += [50364 + 25 * index, *ids(word), 50364 + 25 * index + 20]
    return tuple(tokens)


def test_words_have_the_times_of_their_attention():
    """Timestamps in the text are dropped, and the attention of a second pass counts."""
    hypothesis = run(ScriptedNetwork(timestamped(" one", " two", " three")))

    assert [" one", " two", " three"] == [word.text for word in hypothesis.words]
    for index, word in enumerate(hypothesis.words):
        assert 0.5 * index == pytest.approx(word.start, abs=0.1)
        assert 0.5 * (index + 1) == pytest.approx(word.end, abs=0.1)


def test_no_prompt_means_no_prompt_tokens():
    """Without earlier text the first pass is the start of the transcript alone."""
    without, prompted = ScriptedNetwork(timestamped(" one")), ScriptedNetwork(timestamped(" one"))
    run(without)
    run(prompted, prompt="zero")

    assert (SOT, 50259, 50359) == without.inputs[0]
    assert (50361, *ids(" zero"), SOT, 50259, 50359) == prompted.inputs[0]


def test_a_long_prompt_leaves_half_of_the_positions():
    """Of a long prompt the end is kept."""
    network = ScriptedNetwork(timestamped(" one"))
    run(network, prompt="seven " * 400)

    assert 1 + 223 + 3 == len(network.inputs[0])
    assert ids(" seven") == list(network.inputs[0][1:2])


@pytest.mark.parametrize(("probability", "words"), [(0.85, 1), (0.95, 0)])
def test_a_window_without_speech_has_no_words(probability, words):
    """Above NO_SPEECH_THRESHOLD the text is dropped, whatever it is."""
    hypothesis = run(ScriptedNetwork(timestamped(" one"), no_speech_prob=probability))

    assert words == len(hypothesis.words)
    assert "en" == hypothesis.language


def test_the_language_is_detected_among_those_of_the_checkpoint():
    """The likeliest of them is forced and reported."""
    network = ScriptedNetwork(timestamped(" one"), languages=("fr", "de", "en"))
    hypothesis = run(network, language=None, languages=("en", "de"))

    assert "de" == hypothesis.language
    assert (SOT,) == network.inputs[0]
    assert HF_TOKENIZER.token_to_id("<|de|>") == network.inputs[1][1]


def test_an_english_only_model_detects_no_language():
    """Its prompt has neither language nor task, and detection takes no pass."""
    network = ScriptedNetwork(n_vocab=51864)
    _, language, probability, work = run_alone(
        network, engine_of(network).encode(AUDIO, "fitted", None)
    )

    assert ("en", None) == (language, probability)
    assert [] == network.inputs
    assert work.decoder_forwards is None


@pytest.mark.parametrize(("margin", "is_close"), [(0.05, False), (0.1, True), (1.5, True)])
def test_two_languages_that_are_close_in_a_common_pass_are_refused(margin, is_close):
    """The likeliest leads the next one by one logit: its probability of 0.73 is near to 0.7."""
    network = ScriptedNetwork(languages=("fr", "de"), rounding=Rounding(margin=margin))
    passes = engine_of(network).encode(AUDIO, "fitted", None)
    if is_close:
        with pytest.raises(ChoiceTooClose):
            run_alone(network, passes)
    else:
        assert ("fr", 0.7) == run_alone(network, passes)[1:3]


def test_language_and_task_are_those_of_the_call():
    """The engine stores no option of a stream."""
    network = ScriptedNetwork(timestamped(" one"))
    run(network, language="de", task="translate")

    assert (SOT, 50261, 50358) == network.inputs[0]


@pytest.mark.parametrize(
    ("context", "frames", "is_padded"),
    [("full", 3000, False), ("fitted", 400, False), ("padded", 400, True)],
)
def test_the_window_is_full_fitted_or_padded(context, frames, is_padded):
    """Three seconds of audio are encoded as four seconds or thirty; the output may be padded."""
    network = ScriptedNetwork(timestamped(" one"))
    hypothesis = run(network, context=context)

    assert [(80, frames, is_padded)] == network.windows
    assert frames == hypothesis.work.encoder_frames


def test_the_work_counters_count_every_pass():
    """Detection, decoding and alignment count, every pass with its positions."""
    network = ScriptedNetwork(timestamped(" one", " two"))
    work = run(network, language=None).work

    # One for the language, the prompt of three, six tokens, and start, text and end once more.
    assert 1 + 1 + 6 + 1 == work.decoder_forwards == work.host_syncs
    assert 1 + 3 + 6 + (3 + 1 + 2 + 1) == work.decoder_positions


def test_a_decoder_that_does_not_stop_is_stopped():
    """A text without an end costs what the audio can contain, and its loop is cut."""
    hypothesis = run(ScriptedNetwork((50364, *ids(" one") * 400)))

    assert hypothesis.work.decoder_forwards < 16 + 15 * 3
    assert len(hypothesis.words) <= 12


def backend_on(network, **options):
    """Return the backend of *network*."""
    engine = engine_of(network, **options)
    return LoadedBackend(WHISPER, engine, open_stream=_open_stream, warmup=_warm_up)


@pytest.mark.parametrize(("are_known", "aligned"), [(True, 2), (False, 1)])
def test_warmup_runs_the_text_its_alignment_and_alignatt_where_its_heads_are_known(
    are_known, aligned
):
    """The passes with attention are those of a stream; AlignAtt refuses unknown heads."""
    network = ScriptedNetwork()
    backend_on(network, are_known=are_known).warmup()

    assert aligned == network.aligned < len(network.inputs)


def test_warmup_raises_errors_of_passes_with_attention():
    """A pass without attention does not prove that one with attention runs."""
    with pytest.raises(MemoryError):
        backend_on(ScriptedNetwork(fails_with=MemoryError), are_known=False).warmup()
    with pytest.raises(ValueError, match="expected the requested cross attention"):
        backend_on(ScriptedNetwork(has_attention=False)).warmup()


def test_engine_calls_of_two_streams_are_taken_together():
    """The core takes calls together whose functions are equal."""
    backend, passed = backend_on(ScriptedNetwork()), []
    calls = SimpleNamespace(wrap_batch=lambda function: passed.append(function) or function)
    config = SimpleNamespace(
        policy="local-agreement",
        task="transcribe",
        language="en",
        options=defaultdict(lambda: None),
    )
    for _ in range(2):
        _open_stream(backend.engine, config, calls)

    assert passed[0] == passed[1]
