"""What the cases are made of: scripts, special tokens, wanted units, and code."""

from __future__ import annotations

SCRIPTS = (
    "абвгдежзиклмнопрстуфхцчшщыэюя", "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "কখগঘচছজঝটঠডঢণতথদধনপফবভম",
    "กขคงจฉชซญฐณดตถทธนบปผพภมยรลวศสหอ", "ກຂຄງຈຊຍດຕຖທນບປຜພຟມຢຣລວສຫອ", "កខគឃងចឆជឈញដឋឌឍណតថទធន",
    "ကခဂဃငစဆဇဈညတထဒဓနပဖဗဘမ", "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ", "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտր",
    "가나다라마바사아자차카타파하거너더러머버서어",
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要",
    "あいうえおかきくけこさしすせそたちつてと",
    "アイウエオカキクケコサシスセソタチツテト", "அஆஇஈஉஊஎகஙசஞடணதநபமயரலவ",
    "అఆఇఈఉఊకఖగఘచఛజఝటఠడఢణతథదధన", "ಅಆಇಈಉಊಕಖಗಘಚಛಜಝಟಠಡಢಣತಥದಧನ", "አበገደሀወዘየከለመነሠዐፈጸቀረሸተ",
)  # fmt: skip
SPECIAL = (
    "<|im_start|>assistant", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>",
    "<|end_of_text|>", "<start_of_turn>model", "<end_of_turn>", "[INST]", "[/INST]", "<unused99>",
    "<｜end▁of▁sentence｜>", "<｜Assistant｜>",
    "<|reserved_special_token_17|>", "<|channel|>", "<|end|>",
    "<|START_OF_TURN_TOKEN|>", "<|fim_middle|>", "<extra_id_7>", "[control_11]", "<|tool_call|>",
    "<|header_start|>", "<fim_prefix>", "<<SYS>>", "[UNUSED_TOKEN_145]", "[|endofturn|]",
)  # fmt: skip
CODE = """import csv


def load(path):
    rows = []
    with open(path, newline="") as fh:
        for row in csv.DictReader(fh):
            rows.append(row)
    return rows


def total(rows, key):
    acc = 0
    for row in rows:
        if row[key] is not None and row[key] != "":
            acc += float(row[key])
    return acc


class Report:
    def __init__(self, rows, title="report"):
        self.rows = rows
        self.title = title

    def render(self, width=72):
        lines = [self.title.center(width), "=" * width]
        for row in self.rows:
            lines.append(" | ".join(str(value) for value in row.values()))
        return "\\n".join(lines)
"""

WANTED = (
    "I must not talk in class.", "hello", "All work and no play", "spam", "🙂",
    "Om mani padme hum.", "la", "test line", "foo bar", "你好", "Danke", "*",
)  # fmt: skip
