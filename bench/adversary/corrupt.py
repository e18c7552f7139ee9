"""Corruption of every kind, each drawn with another lead, length and ending."""

from __future__ import annotations

import re

from bench.adversary.data import CODE, SCRIPTS, SPECIAL
from bench.adversary.draw import Case, Maker, kinds
from bench.public import tokens_of


def loop(maker: Maker) -> Case:
    """A phrase of any length, again and again, from the start or after a healthy lead."""
    rng = maker.rng
    lead = maker.prose(rng.choice([0, 5, 30, 120, 400]))
    source = rng.choice([maker.prose(200), CODE, "| bolt | 4 | steel |\n| nut | 9 | brass |\n"])
    period = int(200 ** rng.random())
    tokens = tokens_of(source)
    start = rng.randrange(max(1, len(tokens) - period))
    unit = "".join(tokens[start : start + period])
    copies = max(4, -(-rng.randint(96, 400) // max(1, period)))
    return maker.case(lead + unit * copies, "length", "length", "")


def counter_loop(maker: Maker) -> Case:
    """One sentence, again and again, with a number that counts."""
    rng = maker.rng
    line = rng.choice(
        ["Step {}: check the cable and try it again.\n", "{}. I am sorry for the delay.\n",
         "Wait, maybe the value is {}. No, that cannot be right. ",
         "In chapter {} we see how the story goes on. "]
    )  # fmt: skip
    text = "".join(line.format(i) for i in range(1, rng.randint(40, 160)))
    return maker.case(maker.prose(rng.choice([0, 60])) + text, "length", "")


def single(maker: Maker) -> Case:
    """One token, again and again."""
    rng = maker.rng
    token = rng.choice(["!", "G", ".", " the", "igui", "?", "0", "\n", " a", "額", "์", "/", "#",
                        " import", "ง", "\u200b", " —", "1", "’", "Ċ"])  # fmt: skip
    lead = maker.prose(rng.choice([0, 0, 0, 8, 60]))
    pieces = [*tokens_of(lead), *[token] * rng.randint(96, 400)]
    return maker.case("".join(pieces), "length", "length", "", pieces=pieces)


def multilingual(maker: Maker) -> Case:
    """Tokens drawn from all of a vocabulary."""
    return _salad(maker, False, [12, 20, 40, 80, 200, 400], [0, 0, 2, 80])


def ascii_salad(maker: Maker) -> Case:
    """Tokens drawn from the ASCII part of a vocabulary."""
    return _salad(maker, True, [30, 50, 80, 200, 400], [0, 0, 80, 200])


def _salad(maker: Maker, latin: bool, lengths: list[int], leads: list[int]) -> Case:
    rng = maker.rng
    salad = [maker.token(latin) for _ in range(rng.choice(lengths))]
    pieces = tokens_of(maker.prose(rng.choice(leads))) + salad
    return maker.case("".join(pieces), "length", "length", "stop", pieces=pieces)


def damaged(maker: Maker) -> Case:
    """An answer in which a third to two thirds of the tokens are wrong."""
    rng = maker.rng
    share = rng.uniform(0.35, 0.7)
    pieces = [
        maker.token(True) if rng.random() < share else piece
        for piece in tokens_of(maker.prose(rng.choice([120, 200, 300])))
    ]
    return maker.case("".join(pieces), "length", "stop")


def stutter(maker: Maker) -> Case:
    """Words that come twice, in prose, code, markup or JSON."""
    rng = maker.rng
    share = rng.uniform(0.2, 1)
    if rng.random() < 0.5:
        words = maker.prose(150).split(" ")
        words = [f"{w} {w}" if w.isalpha() and rng.random() < share else w for w in words]
        return maker.case(" ".join(words), "length", "stop")
    kind = rng.randrange(3)
    if kind == 0:
        text = re.sub(
            r"\b(def|for|in|if|return|with|class|is|and|not|import|as)\b ",
            lambda m: m.group() * (2 if rng.random() < share else 1),
            CODE,
        )
        return maker.case(f"```python\n{text}```", "stop")
    items = [(rng.choice(maker.words), rng.randint(1, 99)) for _ in range(rng.randint(4, 12))]

    def again(text: str) -> str:
        return f"{text} {text}" if rng.random() < share else text

    if kind == 1:
        rows = "".join(f'<item {again("name")}="{n}" {again("qty")}="{q}"/>' for n, q in items)
        return maker.case(f"<order>{rows}</order>", "stop")
    name, count = '"name"', '"qty"'
    rows = ", ".join(f'{{{again(name)}: "{n}", {again(count)}: {q}}}' for n, q in items)
    return maker.case(f"[{rows}]", "stop")


def foreign_fragments(maker: Maker) -> Case:
    """A few words of an answer with characters of another script at their end."""
    rng = maker.rng
    script = rng.choice(SCRIPTS)
    words = maker.prose(rng.choice([250, 400])).split(" ")
    for _ in range(rng.randint(3, 7)):
        at = rng.randrange(len(words))
        words[at] += "".join(rng.choice(script) for _ in range(rng.randint(1, 4)))
    return maker.case(" ".join(words), "stop", "length")


def ascii_fragments(maker: Maker) -> Case:
    """A few words of an answer with syllables welded onto them."""
    rng = maker.rng
    words = maker.prose(rng.choice([250, 400])).split(" ")
    fragments = [rng.choice(maker.syllables) + rng.choice(maker.syllables) for _ in range(3)]
    for _ in range(rng.randint(8, 14)):
        at = rng.randrange(len(words))
        words[at] += rng.choice(fragments)
    return maker.case(" ".join(words), "stop", "length")


def special(maker: Maker) -> Case:
    """A special token of a chat template that was not stopped at."""
    rng = maker.rng
    token = rng.choice(SPECIAL)
    answer = maker.prose(rng.choice([20, 100]))
    text = rng.choice(
        [answer + token, token + "\n" + answer, answer + token + "\nuser\nHello" + token]
    )
    return maker.case(text, "stop", "length")


def mojibake(maker: Maker) -> Case:
    """UTF-8 that was read as Latin-1."""
    rng = maker.rng
    text = maker.prose(120)
    words = ["Привет", "δοκιμή", "naïve", "über", "café", "東京", "—", "“so”", "école", "мир"]
    parts = text.split(" ")
    for _ in range(rng.randint(12, 24)):
        parts[rng.randrange(len(parts))] = rng.choice(words)
    return maker.case(" ".join(parts).encode().decode("latin-1"), "stop", "length")


def replacement(maker: Maker) -> Case:
    """Replacement characters: bytes that were no UTF-8."""
    rng = maker.rng
    parts = maker.prose(100).split(" ")
    for _ in range(rng.randint(3, 12)):
        parts[rng.randrange(len(parts))] += "\ufffd" * rng.randint(1, 3)
    return maker.case(" ".join(parts), "stop", "length")


def digit_soup(maker: Maker) -> Case:
    """A handful of digits, marks and words in any order."""
    rng = maker.rng
    words = [rng.choice(maker.words) for _ in range(rng.randint(1, 3))]
    tokens = ["0", "1", "2", "5", "00", "92", ",", ".", ".0", ",1", " 5", ")", "\n", "***", *words]
    tokens = rng.sample(tokens, 9) + words
    text = "".join(rng.choice(tokens) for _ in range(rng.choice([120, 200, 400])))
    lead = maker.prose(rng.choice([0, 60]))
    return maker.case(lead + text, "length", "")


def function_soup(maker: Maker) -> Case:
    """A handful of little words in any order."""
    rng = maker.rng
    words = rng.sample("the of and to in a is that for it as was with be by on not".split(), 8)
    words += rng.sample(maker.words, 3)
    text = " ".join(rng.choice(words) for _ in range(rng.choice([80, 160, 400])))
    return maker.case(text, "length", "")


def marks(maker: Maker) -> Case:
    """A tokenizer's own marks in place of white space."""
    rng = maker.rng
    text = maker.prose(80)
    text = rng.choice([text.replace(" ", "Ġ").replace("\n", "Ċ"), text.replace(" ", "▁"),
                       re.sub(r"\s", "<0x20>", text)])  # fmt: skip
    return maker.case(text, "stop", "length")


def blanks(maker: Maker) -> Case:
    """White space without an end."""
    rng = maker.rng
    lead = rng.choice(["{", '{"name": "x",', "", maker.prose(30)])
    return maker.case(lead + rng.choice([" ", "\n", "\t", "\n  "]) * rng.randint(400, 2000),
                "length", "")  # fmt: skip


KINDS = kinds(
    loop,
    counter_loop,
    single,
    multilingual,
    ascii_salad,
    damaged,
    stutter,
    foreign_fragments,
    ascii_fragments,
    special,
    mojibake,
    replacement,
    digit_soup,
    function_soup,
    marks,
    blanks,
)
