"""Train the tiny Marian of wlk-translate's tests: English digits and a few sentences to German.

    python tools/digits/train_translation.py

It has the architecture and the files of OPUS-MT, at 0.2 million parameters, and writes them in
CTranslate2's format.  After a clause such as "when I have time," German puts the verb first, so
a translation shows whether the decoder continued from the clause before it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
from pathlib import Path
import random
import tempfile

from ctranslate2.converters import TransformersConverter
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel

TARGET = Path(__file__).resolve().parents[2] / "plugins/wlk-translate/tests/tiny-en-de"
EOS, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"
DIGITS = {
    "zero": "null", "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf",
    "six": "sechs", "seven": "sieben", "eight": "acht", "nine": "neun",
}  # fmt: skip
SUBJECTS = {"I": ("ich", ""), "we": ("wir", "n"), "people": ("Leute", "n")}
VERBS = {"read": "lese", "buy": "kaufe", "bring": "bringe"}
OBJECTS = {"a book": "ein Buch", "the paper": "die Zeitung", "two cards": "zwei Karten"}
REASONS = {
    "when I have time,": "wenn ich Zeit habe,",
    "because it rains,": "weil es regnet,",
    "if you are tired,": "wenn du müde bist,",
}


def capital(text: str) -> str:
    """Return *text* with its first letter capitalised."""
    return text[:1].upper() + text[1:]


def pairs(rng: random.Random) -> list[tuple[str, str]]:
    """Return sentences, parts of sentences and digits, with their translations."""
    texts = [(capital(en), capital(de)) for en, de in REASONS.items()]
    for words in itertools.product(SUBJECTS, VERBS, OBJECTS):
        subject, verb, thing = words
        who, ending = SUBJECTS[subject]
        does, what = VERBS[verb] + ending, OBJECTS[thing]
        texts.append((capital(f"{subject} {verb} {thing}."), capital(f"{who} {does} {what}.")))
        texts += [
            (capital(f"{en} {subject} {verb} {thing}."), capital(f"{de} {does} {who} {what}."))
            for en, de in REASONS.items()
        ]
    for _ in range(400):
        digits = rng.choices(list(DIGITS), k=rng.randint(1, 12))
        texts.append((" ".join(digits), " ".join(DIGITS[digit] for digit in digits)))
    return texts


def train(texts: list[tuple[str, str]], folder: Path, *, steps: int) -> None:
    """Write a trained checkpoint in transformers' format, and its tokenizers, to *folder*."""
    written = io.BytesIO()  # a file would contain its own path
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for pair in texts for text in pair]),
        model_writer=written,
        vocab_size=128,
        character_coverage=1.0,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    names = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    vocabulary = [EOS, UNKNOWN, *(name for name in names if name[:1] != "<"), PAD]
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    config = MarianConfig(
        vocab_size=len(ids), d_model=64, max_position_embeddings=128, scale_embedding=True,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, dropout=0.0, activation_function="swish",
        pad_token_id=ids[PAD], eos_token_id=0, bos_token_id=0, decoder_start_token_id=ids[PAD],
        forced_eos_token_id=0, num_beams=2, max_length=128,
    )  # fmt: skip
    torch.manual_seed(7)
    model = MarianMTModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    rng = random.Random(7)  # noqa: S311 -- no secret

    def rows(side: int, batch: list[tuple[str, str]], fill: int) -> torch.Tensor:
        encoded = [[ids[p] for p in pieces.encode(pair[side], out_type=str)] for pair in batch]
        longest = max(map(len, encoded)) + 1
        return torch.tensor([[*row, 0] + [fill] * (longest - len(row) - 1) for row in encoded])

    for step in range(steps):
        batch = rng.choices(texts, k=48)
        source = rows(0, batch, ids[PAD])
        loss = model(
            input_ids=source, attention_mask=source != ids[PAD], labels=rows(1, batch, -100)
        ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():  # the decoder of Marian starts from zeros, and the output shares them
            model.get_input_embeddings().weight[ids[PAD]] = 0.0
        if step % 200 == 0:
            print(step, round(loss.item(), 4), flush=True)
    model.eval().save_pretrained(folder)
    config = {"source_lang": "en", "target_lang": "de", "eos_token": EOS, "pad_token": PAD}
    config |= {"unk_token": UNKNOWN, "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def main() -> None:
    """Train and convert."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=TARGET, metavar="DIR")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        train(pairs(random.Random(1)), Path(scratch), steps=arguments.steps)  # noqa: S311 -- as above
        TransformersConverter(scratch, copy_files=["source.spm", "target.spm"]).convert(
            str(arguments.output), quantization="float16", force=True
        )


if __name__ == "__main__":
    main()
