"""The LocalAgreement engine call, over a network that follows a script."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import math

import pytest

from wlk_core.errors import OptionError
from wlk_core.plugins import LoadedBackend
from wlk_whisper.backend import _open_stream, _warm_up
from wlk_whisper.engine.engine import DecodingOptions, transcribe
from wlk_whisper.engine.features import SILENCE_STRIDE
from wlk_whisper.plugin import WHISPER

from .scripts import HF_TOKENIZER, RATE, SOT, TOKENIZER, ScriptedNetwork, engine_of, ramp, sentence

AUDIO = ramp(0, 3 * RATE)
FITTED = DecodingOptions(context="fitted")


def run(network, *, prompt="", language="en", languages=None, **options):
    """Return the hypothesis of one engine call."""
    return transcribe(
        AUDIO,
        engine=engine_of(network, languages=languages),
        options=DecodingOptions(**options),
        prompt=prompt,
        language=language,
    )


def test_words_have_the_times_of_their_attention():
    """Timestamps in the text are dropped, and the attention of a second pass counts."""
    hypothesis = run(ScriptedNetwork(sentence(" one two three")))  # spoken at 0.5, 1.0 and 1.5 s

    assert [word.text for word in hypothesis.words] == [" one", " two", " three"]
    assert [word.start for word in hypothesis.words[1:]] == pytest.approx([0.75, 1.25], abs=0.02)
    assert [word.end for word in hypothesis.words[:-1]] == pytest.approx([0.75, 1.25], abs=0.02)


def test_no_prompt_means_no_prompt_tokens():
    """Without earlier text no token announces it, and special tokens spelled in it are dropped."""
    without, prompted, spelled = ScriptedNetwork(), ScriptedNetwork(), ScriptedNetwork()
    run(without)
    run(prompted, prompt="zero")
    run(spelled, prompt="zero<|startoftranscript|>")

    start = TOKENIZER.sot_sequence
    assert without.inputs[0] == [*start]
    assert prompted.inputs[0] == [TOKENIZER.sot_prev, *TOKENIZER.encode(" zero"), *start]
    assert prompted.inputs[0] == spelled.inputs[0]


def test_a_long_prompt_leaves_half_of_the_positions():
    """The end of a long prompt is kept."""
    network = ScriptedNetwork()
    run(network, prompt="seven " * 400)

    assert len(network.inputs[0]) == 1 + 223 + 3
    assert network.inputs[0][1:2] == TOKENIZER.encode(" seven")


@pytest.mark.parametrize(
    ("probability", "hallucinates", "words"),
    [(0.1, True, 1), (0.3, False, 1), (0.3, True, 0), (0.85, False, 1), (0.95, False, 0)],
)
def test_a_window_without_speech_has_no_words(probability, hallucinates, words):
    """Text that silence gives as well is dropped, unless speech is likely, and noise has none."""
    network = ScriptedNetwork(sentence(" one"), no_speech_prob=probability)
    network.hallucinates = hallucinates
    hypothesis = run(network)

    assert len(hypothesis.words) == words
    assert hypothesis.language == "en"


def test_a_window_that_may_be_without_speech_is_decoded_again():
    """It is, with all of the silence, and compared with silence; every pass is counted."""
    plain = run(ScriptedNetwork(sentence(" one two")), context="padded").work
    network = ScriptedNetwork(sentence(" one two"), no_speech_prob=0.5)
    again = run(network, context="padded").work
    forced = 3 + 1 + 2 + 1  # positions of the text, after its start and with its end

    assert network.windows == [(80, 400, SILENCE_STRIDE), (80, 400, 1), (80, 100, 1)]
    assert again.encoder_frames == 2 * plain.encoder_frames + 100
    assert again.decoder_positions == 2 * (plain.decoder_positions - forced) + 3 * forced


def test_the_language_is_detected_among_those_of_the_checkpoint():
    """The likeliest of them is forced and reported."""
    network = ScriptedNetwork(sentence(" one"), languages=("fr", "de", "en"))
    hypothesis = run(network, language=None, languages=("en", "de"))

    assert hypothesis.language == "de"
    assert network.inputs[0] == [SOT]
    assert network.inputs[1][1] == HF_TOKENIZER.token_to_id("<|de|>")


@pytest.mark.parametrize(("allowed", "found"), [((), "fr"), (("en", "de"), "de"), (("en",), "en")])
def test_the_language_is_detected_among_those_of_the_stream(allowed, found):
    """With one, there is no choice; its probability is that among them."""
    network = ScriptedNetwork(languages=("fr", "de", "en"))
    options = DecodingOptions(context="fitted", languages=allowed)
    _, language, probability, _ = engine_of(network).encode(AUDIO, options, None)

    assert language == found
    if allowed:
        assert probability == pytest.approx(1.0 if len(allowed) == 1 else 1 / (1 + math.exp(-1)))


def test_the_languages_of_a_stream_are_checked_when_it_is_opened():
    """They are named as people do; of an unknown one, the stream could never be."""
    network = ScriptedNetwork(sentence(" one"), languages=("fr", "de", "en"))
    backend = LoadedBackend(WHISPER, engine_of(network), open_stream=_open_stream, warmup=_warm_up)

    backend.create_processor(languages="English, de").close()
    with pytest.raises(OptionError, match=r"option languages as codes among .*, got 'xx'"):
        backend.create_processor(languages="en,xx")


def test_an_english_only_model_detects_no_language():
    """Its prompt has neither language nor task, and detection takes no pass."""
    network = ScriptedNetwork(n_vocab=51864)
    _, language, probability, work = engine_of(network).encode(AUDIO, FITTED, None)

    assert (language, probability) == ("en", None)
    assert network.inputs == []
    assert work.decoder_forwards is None


def test_the_probability_of_a_language_is_that_among_all():
    """The likeliest leads the next one by one logit."""
    network = ScriptedNetwork(languages=("fr", "de"))
    _, language, probability, _ = engine_of(network).encode(AUDIO, FITTED, None)

    assert language == "fr"
    assert probability == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-3)


def test_language_and_task_are_those_of_the_call():
    """The engine stores no option of a stream."""
    network = ScriptedNetwork()
    run(network, language="de", task="translate")

    assert network.inputs[0] == [SOT, 50261, 50358]


@pytest.mark.parametrize(
    ("context", "frames", "stride"),
    [("full", 3000, 0), ("fitted", 400, 0), ("padded", 400, SILENCE_STRIDE)],
)
def test_the_window_is_full_fitted_or_padded(context, frames, stride):
    """Three seconds of audio are encoded as four seconds or thirty; the output may be padded."""
    network = ScriptedNetwork()
    hypothesis = run(network, context=context)

    assert network.windows == [(80, frames, stride)]
    assert hypothesis.work.encoder_frames == frames


def test_the_work_counters_count_every_pass():
    """Detection, decoding and alignment count, every pass with its positions."""
    network = ScriptedNetwork(sentence(" one two"))
    work = run(network, language=None).work

    # One for the language, the prompt of three, six tokens, and start, text and end once more.
    assert work.decoder_forwards == 1 + 1 + 6 + 1
    assert work.host_syncs == 1 + 1 + 6 + 1
    assert work.decoder_positions == 1 + 3 + 6 + (3 + 1 + 2 + 1)


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


def test_no_two_streams_run_the_network_at_once():
    """A call takes all cores, and the memory of calls side by side would add up."""
    engine, running, most = engine_of(ScriptedNetwork()), [], []

    def run(number):
        running.append(number)
        most.append(len(running))
        running.remove(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(engine.one_by_one(run), range(100)))

    assert most == [1] * 100
