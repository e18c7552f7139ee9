"""Salad, soups, scripts, decoding, special tokens: garble, and healthy text that looks odd."""

from __future__ import annotations

import base64
import codecs
import random
from collections.abc import Sequence

import pytest

from extproc.detect import Kind
from extproc.wire import Channel
from tests.unit.detect.say import PROSE, asking, names, streamed, whole

SALAD = (
    " Oval QSize condemn txawv PARAMETERS Experienced faoi firstname ninth wid Waik assurances "
    "alerted immigrant acamint analog fal Hmm spouse Mushroom razor defnydd flere Prefeitura "
    "antwoorden Abi primero notoriously strcat frecuentes recession blandt nossos customizable"
)
WELDED = (
    "ParensehmedizinparingwereainesmujeOrdinalclaatianlheURNSTiposutusFUEasyachanINEanzweosaldecpag"
    "lozeSortpolateIAmesuladaflyJerryomationuvwvedraeleriniBlankifetimehelooverhinaiselwaisperhumal"
)
MULTILINGUAL = (
    " вправapaneng przykładگاcomentTER}`, predict氧لیک turb සඳහාըն "
    "أفessarInspired күрә шак preci634 "
    "stellte Answersoru инструкции aussehen alimentation пик Many سახელطلع.ge54ổiiera"
)


@pytest.mark.parametrize("text", [SALAD, WELDED, MULTILINGUAL])
def test_salad_is_corrupt_alone_and_after_good_text(text: str) -> None:
    assert whole(text, "length").kind is Kind.CORRUPT
    assert streamed(text, "length").kind is Kind.CORRUPT
    assert streamed(PROSE + text + text, "length").kind is Kind.CORRUPT


@pytest.mark.parametrize("ending", ["length", "stop"])
def test_the_last_forty_tokens_are_judged_without_the_good_text_before(ending: str) -> None:
    assert "salad.end" in names(streamed(PROSE * 2 + SALAD[:250], ending))
    assert "salad.end" not in names(streamed(PROSE * 2 + PROSE[:250], ending))


LANGUAGES = {
    "es": "La panadería de la esquina abre a las cinco, cuando la calle todavía está oscura. El "
    "panadero deja la puerta abierta para que salga el calor, y el olor llega hasta la plaza.",
    "de": "Der Bahnhof am Waldrand wurde vor dreißig Jahren stillgelegt, doch die Uhr über dem "
    "Eingang geht noch immer. Ein alter Mann kommt jeden Montag mit einer Leiter und stellt sie.",
    "tr": "Köyün girişindeki taş köprü, ilkbaharda kar suları gelince neredeyse görünmez olur. "
    "Yaşlılar suyun hangi taşa kadar çıktığına bakar ve yazın nasıl geçeceğini söyler.",
    "ru": "Осенью дачный посёлок пустеет, и слышно, как ветер перебирает сухие листья у забора.",
    "zh": "今天早上我先去市场买了新鲜的蔬菜，然后沿着河边慢慢走回家。用 Python 写的 API 很快。",
    "sw": "Mvua ilianza kunyesha alfajiri, na wavuvi walirudi pwani mapema kuliko kawaida. Watoto "
    "walikimbilia mitumbwi ili kuona samaki waliovuliwa usiku, huku wazee wakisubiri kivulini.",
    "mi": "I te ata ka haere te koroua ki te awa ki te hī ika mō te whānau, ā, ka hoki mai ia i te "
    "ahiahi me te kete kī tonu i te tuna. Ka hari ngā tamariki i te kitenga atu i a ia.",
    "yo": "Ní òwúrọ̀ kùtùkùtù, àwọn obìnrin náà lọ sí ọjà láti ta ẹja àti ẹ̀fọ́. Wọ́n padà sílé ní "
    "ìrọ̀lẹ́ pẹ̀lú owó tí wọ́n rí, inú wọn sì dùn púpọ̀ nítorí ọjà náà dára.",
    "tok": "jan ali li kama lon nasin ni la ona li jo e ken pi pali pona. ona li toki tawa "
    "jan ante li pali poka ona kepeken pilin pona. ni li suli tawa mi mute lon tenpo ale.",
    "romaji": "Kyou wa tenki ga ii node, kouen made aruite itte, ike no mawari wo sanpo "
    "shimashita. Kaeri ni pan ya ni yotte, atatakai pan wo futatsu kaimashita.",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_language_is_salad_whether_the_table_has_it_or_not(language: str) -> None:
    text = LANGUAGES[language]
    assert whole(text).kind is Kind.CLEAN
    assert streamed(text, "length").kind is not Kind.CORRUPT


def _odd() -> dict[str, str]:
    rng = random.Random(4)
    words = PROSE.replace(",", "").replace(".", "").split()
    return {
        "rot13": codecs.encode(PROSE, "rot13"),
        "base64": base64.b64encode(rng.randbytes(600)).decode(),
        "hex": rng.randbytes(300).hex(),
        "uuids": "\n".join(rng.randbytes(16).hex() for _ in range(20)),
        "lorem": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor "
        "incididunt ut labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud.",
        "word list": "\n".join(sorted(set(words))),
        "capitals": PROSE.upper(),
        "codes": "EGLL EDDF LFPG EHAM LEMD LIRF LSZH LOWW EKCH ESSA EFHK ENGM EPWA LKPR LHBP " * 2,
        "code": "def load(path):\n    with open(path, newline='') as fh:\n        return [row for "
        "row in csv.DictReader(fh) if row['id'] and not row['deleted_at']]\n" * 2,
    }


@pytest.mark.parametrize("kind", _odd())
def test_odd_but_healthy_text_is_not_corrupt(kind: str) -> None:
    assert whole(_odd()[kind]).kind is not Kind.CORRUPT


@pytest.mark.parametrize("seed", range(5))
def test_function_words_in_no_order_are_soup(seed: int) -> None:
    rng = random.Random(seed)
    words = "the of and to in a world English man 4 the the of".split()
    text = " ".join(rng.choice(words) for _ in range(120))
    assert whole(text, "length").kind is Kind.CORRUPT


@pytest.mark.parametrize("seed", range(5))
def test_a_small_vocabulary_in_no_order_is_soup(seed: int) -> None:
    rng = random.Random(seed)
    pieces = ["+", "'", "12.21", "M", "2", "-**2****", "*", "_", ".....,", "z", "111", "at", "?>"]
    assert whole("\n".join(rng.choice(pieces) for _ in range(120)), "length").kind is Kind.CORRUPT


@pytest.mark.parametrize("seed", range(5))
def test_the_lowest_ids_of_a_vocabulary_are_soup(seed: int) -> None:
    rng = random.Random(seed)
    signs = [chr(code) for code in range(33, 73)]
    assert whole("".join(rng.choice(signs) for _ in range(200)), "length").kind is Kind.CORRUPT


def _drawn(seed: int, items: Sequence[str], count: int) -> list[str]:
    return random.Random(seed).choices(items, k=count)


@pytest.mark.parametrize(
    "text",
    [
        " ".join(_drawn(1, ["yes", "no"], 150)),
        "".join(_drawn(2, "ACGT", 400)),
        "\n".join(_drawn(3, "01", 200)),
        "M" + "".join(_drawn(5, [chr(code) for code in range(33, 97)], 300)),
        "C | G | Am | F | " * 12,
        "id,x,y\n" + "\n".join(f"{n},{n * 7 % 5},{n * 3 % 4}" for n in range(80)),
    ],
)  # fmt: skip
def test_random_and_tabular_data_is_no_soup(text: str) -> None:
    assert whole(text).kind is not Kind.CORRUPT


def test_letters_of_many_scripts_side_by_side_are_corrupt_and_words_beside_words_are_not() -> None:
    assert "script_mixing.welded" in names(whole(MULTILINGUAL))
    listed = "English, العربية, 中文, Русский, Ελληνικά, עברית, हिन्दी, ไทย, 日本語, 한국어, فارسی"
    assert whole(listed * 3).kind is Kind.CLEAN
    assert whole("API-интерфейс и HTTP-запрос: 5 μs, λx, Δt, 3 kΩ. " * 4).kind is Kind.CLEAN


def test_foreign_fragments_glued_into_prose_are_sparse_bad_tokens() -> None:
    text = PROSE.replace("hand", "hand极").replace("tray", "tray中 it")
    assert "script_mixing.sparse" in names(whole(text))
    assert whole(PROSE + "The word 極 means pole, and 中 means middle. 😀😀").kind is Kind.CLEAN


def test_replacement_characters_count_unless_they_are_the_topic_or_a_cut() -> None:
    assert "decoding.replacement" in names(whole(PROSE + "caf\ufffd and na\ufffdve r\ufffdle"))
    assert whole(PROSE + "\ufffd", "length").kind is Kind.CLEAN
    about = "In Unicode, \ufffd is the replacement character: \ufffd\ufffd\ufffd."
    assert whole(about).kind is not Kind.CORRUPT


def test_mojibake_of_many_scripts_is_proof_and_of_one_a_hint() -> None:
    broken = "штаны и дом, äöü, ελληνικά, 中文".encode().decode("cp1252", "replace")
    assert whole(PROSE[:40] + broken.replace("\ufffd", "")).kind is Kind.CORRUPT
    french = "été à la forêt, café, déjà, où, naïve".encode().decode("latin-1")
    assert whole(french).kind is Kind.SUSPECT
    assert whole("« L’été », dit-elle, « où est-il ? » " * 5).kind is Kind.CLEAN


def test_control_characters_and_private_use_are_corrupt() -> None:
    assert whole("ab\x01c\x02d\x03e\x04f" * 8).kind is Kind.CORRUPT
    assert whole("\ue0ef\ue094\ue06d\ue0d7\ue0b3\ue020" * 4).kind is Kind.CORRUPT
    assert whole("\x1b[31mred\x1b[0m and a form feed\x0c " * 6).kind is Kind.CLEAN


@pytest.mark.parametrize(
    "text",
    [
        "The capital is Lisbon.<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nMore?",
        "Sure.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nBecause.",
        "<|channel|>commentary<|message|>{}<|end|>",
        "[PAD]" * 40,
        "<unk> <unk> <unk> <unk> <unk> <unk> ",
        "<｜▁pad▁｜>" * 12,
        "Yes. [/INST] Great. [INST] Can you explain? [/INST] Of course. [INST]",
        PROSE + "\n</think>\n</think>",
    ],
)
def test_special_tokens_as_text_are_corrupt(text: str) -> None:
    assert whole(text).kind is Kind.CORRUPT


@pytest.mark.parametrize(
    "text",
    [
        "ChatML wraps each message in `<|im_start|>` and `<|im_end|>`.",
        "```\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n```",
        '```python\ntok.add({"pad": "<pad>", "unk": "<unk>", "eos": "</s>"})\n```',
        "<p>Old price: <s>40</s> <s>35</s> <s>30</s> now 25</p>",
        "<think>\nThe user wants a short reply.\n</think>\n\nSure, noon works for me.",
        "<|Nick|> hello\n<|Izzi|> hi there\n<|Nick|> bye\n",
    ],
)
def test_special_tokens_that_are_spoken_of_are_not(text: str) -> None:
    assert whole(text).kind is not Kind.CORRUPT


def test_the_request_may_ask_about_special_tokens() -> None:
    text = "It ends with <|eot_id|><|start_header_id|>assistant<|end_header_id|> in Llama."
    request = asking("Show the Llama chat template tokens.")
    assert whole(text, request=request).kind is Kind.CLEAN


def test_unparsed_tool_call_markup_counts_when_tools_were_declared() -> None:
    text = '<tool_call>\n{"name": "read", "arguments": {}}\n</tool_call>\n'
    tools = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
    assert whole(text, request=asking("Read it.", tools=tools)).kind is Kind.CORRUPT
    assert whole(text).kind is not Kind.CORRUPT


def test_tokens_as_the_vocabulary_spells_them_are_corrupt() -> None:
    assert whole(PROSE.replace(" ", "Ġ")).kind is Kind.CORRUPT
    assert whole(PROSE.replace(" ", " ▁")).kind is Kind.CORRUPT
    assert whole("".join(f"<0x{byte:02X}>" for byte in PROSE[:60].encode())).kind is Kind.CORRUPT
    spaced = PROSE.replace(",", " ,").replace(".", " .").replace(" ", "  ")
    assert whole(spaced).kind is Kind.CORRUPT
    maltese = "Ġanni mar Għawdex ma' ħuh Ġużeppi biex jaraw lil Ġorġ u Ġulja fil-ġnien tagħhom."
    assert whole(maltese * 2).kind is Kind.CLEAN
    esperanto = "La fluo estas ĉifrita kaj ne povas esti malĉifrita ĉar ŝlosilo ne estas. "
    assert whole(esperanto + "Ĉu vi aŭdis ĉion ĉi? Ĉiuj ĉeestis ĉe ĉefurbo.").kind is Kind.CLEAN


@pytest.mark.parametrize("channel", list(Channel))
def test_every_channel_is_judged_for_itself(channel: Channel) -> None:
    assert streamed(["!"] * 40, "length", channel=channel).kind is Kind.CORRUPT


SPARSE = PROSE.replace("and both", "andipse both").replace("while a", "whilehandle a")
SPARSE += PROSE.replace("and the loser", "andhandle the loser").replace("before", "beforeipse")


def test_fragments_welded_onto_little_words_are_bad_tokens() -> None:
    assert "welds.fragments" in names(whole(SPARSE))
    for healthy in (
        PROSE,
        PROSE.replace(" a ", "a ").replace("and the", "andthe"),
        "The Thatcher years, whichever.",
    ):
        assert "welds.fragments" not in names(whole(3 * healthy))


@pytest.mark.parametrize("fragment", ["ดี", "สวัส", "ครับ", "प्र", "мир", "δεφ"])
def test_fragments_of_any_script_welded_into_prose_are_sparse_bad_tokens(fragment: str) -> None:
    words = (PROSE * 2).split(" ")
    for at in (17, 60, 101):
        words[at] += fragment
    assert whole(" ".join(words)).kind is Kind.CORRUPT


def test_a_few_tokens_of_a_large_vocabulary_are_salad() -> None:
    text = "OKlarynaPOSIT 江西 goz conservativesouncyARGET盾 investigacionesNorthICOM"
    assert whole(text, "length").kind is Kind.CORRUPT
    jumping = "<<Talkin stre കേസ EEUaltsანი.choicesignal mohlაწყ લેવ stjórn Fö"
    assert whole(jumping, "length").kind is Kind.CORRUPT
    for healthy in (
        "支持 PostgreSQL、OpenSSL 和 FreeBSD",
        "Deutsch English Español Русский 中文 العربية हिन्दी ไทย ქართული",
        "hello: привет\nhello: สวัสดี\nhello: გამარჯობა\nhello: नमस्ते\nhello: γειά",
    ):
        assert whole(healthy).kind is not Kind.CORRUPT


@pytest.mark.parametrize("seed", range(4))
def test_words_welded_between_numbers_are_soup_and_encodings_are_not(seed: int) -> None:
    rng = random.Random(seed)
    tokens = ("0", "1", "22", "92", ",", ".", ".0", "handle", "the", "2", "5", "handle")
    assert whole("".join(rng.choice(tokens) for _ in range(260)), "length").kind is Kind.CORRUPT
    raw = rng.randbytes(400)
    columns = "".join(f"col{i},{i}min;" for i in range(80))
    roff = "".join(f"{byte}\\[char46]" for byte in raw)
    for healthy in (roff, raw.hex(), base64.b32encode(raw).decode().lower(), columns):
        assert "symbols.numbers" not in names(whole(healthy))


def test_a_nickname_is_no_special_token() -> None:
    log = "12:01 <|ufo|> good morning\n12:02 <|aqq|> who is there?\n12:03 <|ufo|> me again\n"
    assert whole(log).kind is Kind.CLEAN
    assert (
        whole("[INST] and [/INST] delimit the user turn in the Llama 2 template.").kind
        is not Kind.CORRUPT
    )


def test_markup_of_a_call_that_closes_what_it_never_opened_is_corrupt() -> None:
    text = "<tool_call>\n<function<parameter=path>\n/tmp/a\n" + 6 * "</parameter>\n"
    assert whole(text).kind is Kind.CORRUPT


def test_signs_of_a_token_each_up_to_the_limit_are_soup() -> None:
    rng = random.Random(1)
    deltas = [rng.choice((" (", ",", " (", "=")) for _ in range(80)]
    assert "symbols.signs" in names(streamed(deltas, "length"))
    assert streamed(deltas, "stop").kind is Kind.CLEAN
