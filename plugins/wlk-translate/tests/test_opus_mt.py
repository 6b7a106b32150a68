"""OPUS-MT on CTranslate2, with a tiny model of its architecture, trained on a few words."""

from __future__ import annotations

from functools import partial
import gc
from importlib.metadata import EntryPoint
import json
from pathlib import Path
import shutil
from types import SimpleNamespace

from ctranslate2 import Translator
import pytest
from test_clauses import tokens_of

from wlk_conformance.translators import TranslatorConformance
from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_core.registry import Registry
from wlk_translate.ctranslate2 import opus_mt
from wlk_translate.engine.translator import Pair
from wlk_translate.models import MODELS

TINY = Path(__file__).parent / "tiny-en-de"
LANGUAGES = {"source_language": "en", "target_language": "de"}
REASON, ACTION = "When I have time,", "I read a book."


def load(model=TINY, **options):
    """Load a translator by name, as on the command line."""
    registry = Registry([EntryPoint("opus-mt", "wlk_translate.plugin", "wlk.plugins")])
    return registry.load_annotator("translator", "opus-mt", model, **LANGUAGES | options)


def translated(text, **options):
    """Return the translations of an utterance as strings."""
    translator = load(**options)
    translator.insert_tokens(tuple(tokens_of(text)))
    return [found.text for found in translator.finish()]


def test_a_folder_is_not_taken_for_a_pair_because_it_begins_with_two_letters(tmp_path):
    """In "my-en-de", "my" does not stand for Burmese."""
    folder = tmp_path / "my-en-de"
    folder.symlink_to(TINY)

    assert translated("one", model=folder) == ["eins"]


class TestRules(TranslatorConformance):
    """Run the contract of translators on the tiny model."""

    options = LANGUAGES
    utterances = (
        "One two three. We buy the paper.",
        "because it rains, people read two cards. Four five six",
        "seven eight nine zero one two three four five six seven eight nine",
    )

    def open(self):
        """Return a translator."""
        return load()


def test_words_are_translated():
    """Digits have no full stop, and their translation has none."""
    assert translated("one two three") == ["eins zwei drei"]
    assert translated("We buy the paper. People read a book.") == [
        "Wir kaufen die Zeitung.",
        "Leute lesen ein Buch.",
    ]


def test_a_clause_goes_on_with_the_translation_that_was_shown():
    """After a clause, the German verb comes first; in a clause translated alone, last."""
    engine = load()._engine
    shown = engine.translate(REASON, ())
    rest = engine.translate(ACTION, (Pair(REASON, shown),))

    assert (shown, rest) == ("Wenn ich Zeit habe,", "lese ich ein Buch.")
    assert engine.translate(ACTION, ()) == "Ich lese ein Buch."
    assert engine.translate(f"{REASON} {ACTION}", ()) == f"{shown} {rest}"  # the whole sentence


def test_a_context_that_ends_the_sentence_is_dropped():
    """If the model adds nothing to the forced prefix, the clause is translated alone."""
    engine = load()._engine
    done = Pair(f"{REASON} {ACTION}", "Wenn ich Zeit habe, lese ich ein Buch.")

    assert engine.translate("one two", (done,))


def test_a_long_context_is_shortened(monkeypatch):
    """The input of the model is limited."""
    monkeypatch.setattr(opus_mt, "_MAX_PIECES", 16)
    engine = load()._engine

    assert engine.translate(ACTION, (Pair(REASON, "Weil es regnet,"),)) == "Ich lese ein Buch."


def test_a_long_clause_is_translated_in_parts_and_an_endless_translation_ends(monkeypatch):
    """CTranslate2 would truncate the clause, or fail beyond the positions of the model."""
    monkeypatch.setattr(opus_mt, "_POSITIONS", 128)  # as in the tiny model
    monkeypatch.setattr(opus_mt, "_MAX_PIECES", 4)
    engine = load()._engine
    assert engine.translate("one two three four five six", ()) == "eins zwei drei vier fünf sechs"
    monkeypatch.setattr(opus_mt, "_MAX_PIECES", 64)
    endless = partial(engine._translator.translate_batch, min_decoding_length=128)
    monkeypatch.setattr(engine, "_translator", SimpleNamespace(translate_batch=endless))

    assert engine.translate("one " * 192, (Pair(REASON, "Wenn ich Zeit habe,"),))


@pytest.mark.parametrize(
    ("source", "decoded", "shown"),
    [
        ("मैं ठीक हूँ।", "I am fine.", "I am fine."),
        ('He said "yes."', "Er sagte „ja“.", "Er sagte „ja“."),
        ("Well…", "Nun...", "Nun..."),
        ("he said yes,", "Er sagte ja.", "Er sagte ja"),
        ("and so on", "und so weiter...", "und so weiter"),
    ],
)
def test_a_clause_that_ends_no_sentence_gets_no_full_stop(monkeypatch, source, decoded, shown):
    """This holds in any script, and within quotation marks."""
    engine = load()._engine
    monkeypatch.setattr(engine, "_target", SimpleNamespace(decode=lambda _pieces: decoded))

    assert engine.translate(source, ()) == shown


def test_streams_share_a_model_while_any_of_them_is_open():
    """A server with many sessions loads the weights once."""
    first, second = load(), load()
    other = load(beam_size=2)

    assert first._engine is second._engine
    assert first._engine is not other._engine
    del first, second, other
    gc.collect()
    assert len(opus_mt._loaded) == 0


@pytest.fixture
def copied(tmp_path):
    """Return a function that copies the model and appends words to its vocabulary."""

    def copied(*words):
        folder = shutil.copytree(TINY, tmp_path / "model")
        path = folder / "shared_vocabulary.json"
        vocabulary = json.loads(path.read_text(encoding="utf-8"))
        changed = [*vocabulary[: len(vocabulary) - len(words)], *words]
        path.write_text(json.dumps(changed), encoding="utf-8")
        return folder

    return copied


def test_a_model_of_several_languages_is_told_which(copied, monkeypatch):
    """The language is selected by its code, by its name in such models, or by the option."""
    folder = copied(">>de<<", ">>por<<")
    sent = []

    def decode(_engine, pieces, _prefix, _length):
        sent.append(pieces)
        return ["x"]

    monkeypatch.setattr(opus_mt.OpusMT, "_decode", decode)
    for options in ({}, {"target_language": "pt"}, {"target_token": ">>por<<"}):
        translator = load(folder, **options)
        sent.append(translator._engine._source_prefix)

    assert sent == [[">>de<<"], [">>por<<"], [">>por<<"]]
    refusal = f"{folder} has no target language fr; .* one of: >>de<<, >>por<<"
    with pytest.raises(OptionError, match=refusal):
        load(folder, target_language="fr")


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (TINY, {"target_language": None}, OptionError, "expected option target_language"),
        (TINY, {"target_token": ">>de<<"}, OptionError, "has no target language >>de<<"),
        (None, {"source_language": None}, OptionError, "--language CODE"),
        (None, {"target_language": "is"}, OptionError, "no model is known from en to is; known"),
        ("en-fr", {}, OptionError, "en-fr translates from en to fr, and not from en to de"),
        ("o/opus-mt-en-fr-ct2", {"source_language": None}, OptionError, "to fr, and not to de"),
        ("./de-en", {"target_language": "en"}, OptionError, "from de to en, and not from en to en"),
        (TINY, {"dtype": "float64"}, OptionError, "dtype must be one of"),
        (TINY, {"device": "cuda"}, BackendUnavailable, "finds no CUDA device"),
        (
            TINY,
            {"device": "cpu:1"},
            OptionError,
            "device must be one of auto, cpu, cuda, cuda:N; g",
        ),
        (TINY.parent, {}, ModelNotFoundError, r"holds no .*source\.spm"),
    ],
)
def test_what_does_not_fit_is_refused(model, options, error, message):
    """The message says what to type."""
    with pytest.raises(error, match=message):
        load(model, **options)


def test_the_model_is_loaded_onto_the_gpu_that_the_option_names(monkeypatch):
    """cuda:1 is the second of those that CTranslate2 finds."""
    chosen = []

    def record(*arguments, **values):
        chosen.append((values["device"], values["device_index"]))
        return Translator(*arguments, **{**values, "device": "cpu", "device_index": 0})

    monkeypatch.setattr(opus_mt.ctranslate2, "Translator", record)
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 2)
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda _device: {"float32"})
    load(device="cuda:1").close()

    assert chosen == [("cuda", 1)]


@pytest.mark.parametrize(
    ("file", "missing", "damaged"),
    [
        ("model.bin", "ct2-transformers-converter --model .* --copy_", "could not be loaded as a"),
        ("source.spm", "holds no source.spm", "could not be loaded as a CTranslate2 model"),
        ("config.json", "holds no config.json", "config.json is damaged"),
        ("shared_vocabulary.json", "could not be loaded as a", "vocabulary.json is damaged"),
    ],
)
def test_files_that_are_no_model_are_refused(copied, file, missing, damaged):
    """The message says to convert a transformers checkpoint, or to pull a damaged one again."""
    folder = copied()
    (folder / file).write_bytes(b"damaged")
    with pytest.raises(ModelNotFoundError, match=damaged):
        load(folder)
    (folder / file).unlink()
    with pytest.raises(ModelNotFoundError, match=missing):
        load(folder)


def test_the_model_of_two_languages_is_the_published_one(monkeypatch, tmp_path):
    """Without a network, the message says what to pull."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="wlk-core pull en-de --backend opus-mt"):
        load(None, cache_dir=str(tmp_path))
    assert MODELS["en-de"] == "gaudi/opus-mt-en-de-ctranslate2"
