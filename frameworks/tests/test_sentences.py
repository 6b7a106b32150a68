"""Where sentences end and where they go on, in the scripts of many languages."""
# ruff: noqa: RUF001 -- letters and stops of these scripts

from __future__ import annotations

import re

import pytest

from wlk_frameworks.sentences import ends_sentence

# Each bar is the end of a sentence; tokens are words, or characters where there are no spaces.
TEXTS = {
    "English": "We are late.| Run!| Why?| Because.",
    "abbreviations": "U.S. houses are old.| Dr. Smith met Mr. Jones at 3 p.m. in St. Louis.",
    "acronyms": "They live in the U.S.| They met at 3 p.m.| It rained on Main St.| Yes.",
    "companies": "Apple Inc. Chief Tim Cook spoke.| He works for Acme Corp.| The shares fell.",
    "initials": "J. R. R. Tolkien and George W. Bush met.| They talked.",
    "numbers": "It costs 3.50 dollars.| It was in 2024.| Mary left.| See no. 5 and Fig. 3 below.",
    "small numbers": "He is 42.| She is 30.| They met.",
    "lists": "1. Open the box.| 2. Close it.",
    "no titles": "Give me one more rep.| She said no.| Tom agreed.| No.| I won't.",
    "ellipses": "... and so on... until now.| Well...| Nobody knows.",
    "quotations": 'He said: "Go."| Then "Stop!" he cried.| (He left.)| “So.”| Yes.',
    "addresses": "Write to anna@example.com or www.example.org today.| iPhones work.| eBay too.",
    "one letter": "Take vitamin C. Plan B. Failed.",
    "German": "Am 4. Juli 2016 kam Prof. Müller, z. B. nach Bonn.| Er blieb.| Das war am 3. Mai.",
    "German titles": "Dipl.-Ing. Weber usw. Meier.| Der 2. Weltkrieg, bzw. Hr. Maier, ca. Anfang.",
    "French": "M. Dupont est là.| Ça va ?| Oui !| « Bon. »| Mme. Curie part.",
    "Spanish": "El Sr. García vive en EE. UU. desde ayer.| ¿Dónde?| ¡Aquí!| La Dra. Ruiz también.",
    "Italian": "Il sig. Rossi e la Dott. Bianchi sono qui.| Bene.",
    "Dutch": "Dhr. Jansen en mevr. Smit wonen op nr. 5 in Breda.| Hij slaapt.",
    "Portuguese": "O Sr. Silva mora na Av. Paulista.| É verdade.",
    "abbreviations that begin": "Проф. Иванов пришёл.| Ca. 20 kamen.| Np. Warszawa.",
    "Polish": "To jest mgr. Nowak, np. Warszawa.| Dobrze.",
    "Czech": "Dne 17. listopadu 1989, tj. v pátek.| Karel IV. a tzv. Praha.",
    "Russian": "А. С. Пушкин жил на ул. Мойка и т. д.| Он писал в 1830 г. в Болдине.| Всё.",
    "Greek": "Τι κάνεις;| Καλά είμαι.| Εσύ\u037e| Ναι.",
    "Turkish": "Dr. Yılmaz 3. katta oturuyor.| Evet.",
    "Georgian": "ეს სახლია.| ის დიდია!| რატომ?| არ ვიცი.",
    "Hebrew": "מה שלומך?| טוב.| תודה!",
    "Arabic": "كيف حالك؟| أنا بخير.| قابلت د. أحمد اليوم.| شكرا.",
    "Persian": "حال شما چطور است؟| خوبم.",
    "Urdu": "یہ گھر ہے۔| کیوں؟| وہ آیا۔",
    "Armenian": "Բարեւ։| Լավ եմ։| այո։",
    "Hindi": "राम गया।| डॉ. सीता आई॥| अब।",
    "Bengali": "সে গেছে।| কেন?| জানি না।",
    "Amharic": "ሰላም።| እንዴት ነህ፧| ደህና።",
    "Khmer": "ខ្ញុំមក។| អ្នកទៅ។",
    "Burmese": "မင်္ဂလာပါ။| ရွာ၊ မြို့။",
    "Tibetan": "བཀྲ་ཤིས།| བདེ་ལེགས།|",
    "Thai": "ปี พ.ศ. สองพัน เวลา น. นี้ จบแล้ว!| ใช่",
    "Chinese": "今天很好。|去哪\uff1f|走\uff01|“好。”|是3.5米。|完",
    "Japanese": "はい｡|「行こう。」と言った。|そう。|（笑）いいえ",
    "Japanese quotations": "「行く。|明日。」|「いい。」って言う。|",
    "Korean": "그건 나.| 그리고 너.| 왜?| 몰라.",
    "several stops": "What?!| No!!| Really...?",
}


def tokens_of(text, *, is_split):
    """Return words with the space before them, or pieces of words and single characters."""
    if is_split:
        return re.findall(r"\s*(?:[^\W\d_]+|\S)", text)
    is_spaced = " " in text
    return re.findall(r"\s*\S+", text) if is_spaced else list(text)


def sentences_of(tokens, *, waits, language=None):
    """Return the sentences, each ended when it is certain or, with *waits*, at the next token."""
    sentences, text = [], ""
    for token in tokens:
        if text and ends_sentence(text, token, language=language):
            sentences.append(text)
            text = ""
        text += token
        if not waits and ends_sentence(text):
            sentences.append(text)
            text = ""
    return [each.strip() for each in [*sentences, text] if each.strip()]


@pytest.mark.parametrize("is_split", [False, True], ids=["words", "pieces"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_sentence_ends_at_its_stop_in_any_script(text, is_split):
    """Abbreviations, numbers and quotations do not end it, however it is divided into tokens."""
    expected = [part.strip() for part in text.split("|") if part.strip()]
    tokens = tokens_of(text.replace("|", ""), is_split=is_split)

    assert sentences_of(tokens, waits=True) == expected


@pytest.mark.parametrize("name", ["abbreviations", "German", "Urdu", "Armenian", "Khmer", "Greek",
                                  "Chinese", "numbers", "initials"])  # fmt: skip
def test_a_certain_end_needs_no_next_token(name):
    """Most sentences are over with their last token; only ambiguous stops wait for the next."""
    tokens = tokens_of(TEXTS[name].replace("|", ""), is_split=False)

    assert sentences_of(tokens, waits=False) == sentences_of(tokens, waits=True)
    assert [ends_sentence(text) for text in ("I go.", "I see 3.", "the U.S.", "I")] == [
        True, None, None, False,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["the U.S.", "I see 3.", "Mr.", "“Go.", "Τι;", "Well..."])
def test_the_end_of_the_text_decides(text):
    """A stop at the end of an utterance ends a sentence, whatever could have followed."""
    assert ends_sentence(text, "") is True


def test_a_language_without_ordinals_ends_a_sentence_after_a_small_number():
    """A German ordinal looks the same, and so may one where no language is known."""
    found = [ends_sentence("I have 4.", " Mary", language=code) for code in ("en", "de", None)]

    assert found == [True, False, False]


@pytest.mark.parametrize(
    "text", ["", " ", "...", "!", "“", "one two", "one,", "a; b;", "·", "\U00012544;"]
)
def test_no_sentence_ends_without_words_and_a_stop(text):
    """Punctuation alone is no sentence, and a semicolon ends one only after a Greek letter."""
    assert [ends_sentence(text, after) for after in (None, "", " Then")] == [False] * 3
