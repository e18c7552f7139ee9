"""Corruption and hard healthy text of every kind, made by a seed: what the corpus does not name.

    python -m bench.adversary [--each N] [--seed N] [--misses] [--vocabulary FILE] [--kind NAME]

Every case is judged as a stream or a whole body, ended by ``length``, ``stop`` or not at all, as
its kind allows, and the share that is called corrupt is printed for each kind. The prose is that of
bench/answers.jsonl.gz, answers of a real model. ``--vocabulary``: a JSON list of a tokenizer's
tokens for the salads; without it they are drawn from syllables and from twenty scripts.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.accuracy import judge, table
from bench.adversary_data import CODE, SCRIPTS, SPECIAL, WANTED
from bench.public import tokens_of
from extproc.detect import Kind
from extproc.wire import Channel, Event, Finish, RequestFacts, Text, Usage

ANSWERS = Path(__file__).with_name("answers.jsonl.gz")


@dataclass
class Case:
    """What an engine answered."""

    text: str
    ending: str = "stop"
    streamed: bool = True
    prompt: str = ""
    pieces: list[str] = field(default_factory=list)

    def events(self) -> list[list[Event]]:
        pieces = self.pieces or tokens_of(self.text)
        out: list[list[Event]] = []
        if self.streamed:
            out = [[Text(0, Channel.CONTENT, piece, 1)] for piece in pieces]
        else:
            out = [[Text(0, Channel.CONTENT, self.text, 0)], [Usage(20, len(pieces), -1)]]
        return [*out, [Finish(0, self.ending)]] if self.ending else out

    def request(self) -> RequestFacts | None:
        if not self.prompt:
            return None
        body = {"messages": [{"role": "user", "content": self.prompt}]}
        return RequestFacts.parse("POST", "/v1/chat/completions", body)


class Maker:
    """Draws cases."""

    def __init__(self, seed: int, vocabulary: list[str]) -> None:
        self.rng = random.Random(seed)
        with gzip.open(ANSWERS, "rt") as file:
            answers = [json.loads(line)["text"] for line in file]
        self.answers = [text for text in answers if len(text) > 600]
        self.words: list[str] = sorted(set(re.findall(r"[a-z]{3,}", " ".join(self.answers))))
        self.syllables = sorted({w[i : i + 3] for w in self.words for i in range(0, len(w) - 2, 2)})
        self.vocabulary = [token for token in vocabulary if token.strip()]

    def prose(self, tokens: int) -> str:
        """So many tokens of an answer."""
        rng = self.rng
        text = rng.choice(self.answers)
        return "".join(tokens_of(text)[:tokens])

    def case(self, text: str, *endings: str, pieces: list[str] | None = None) -> Case:
        streamed = self.rng.random() < 0.6
        return Case(text, self.rng.choice(endings), streamed, "", pieces or [])

    def token(self, latin: bool) -> str:
        """A token of a multilingual vocabulary, or of its ASCII part."""
        rng = self.rng
        if self.vocabulary:
            while True:
                token: str = rng.choice(self.vocabulary)
                if not latin or (token.isascii() and token.isprintable()):
                    return token
        if latin or rng.random() < 0.45:
            word = rng.choice(self.words if rng.random() < 0.5 else self.syllables)
            word = rng.choice([*[word] * 8, word.title(), word.upper()])
            return (" " if rng.random() < 0.55 else "") + word
        script = rng.choice(SCRIPTS)
        word = "".join(rng.choice(script) for _ in range(rng.randint(1, 4)))
        return (" " if rng.random() < 0.5 else "") + word

    # Corruption.

    def loop(self) -> Case:
        rng = self.rng
        lead = self.prose(rng.choice([0, 5, 30, 120, 400]))
        source = rng.choice([self.prose(200), CODE, "| bolt | 4 | steel |\n| nut | 9 | brass |\n"])
        period = int(200 ** rng.random())
        tokens = tokens_of(source)
        start = rng.randrange(max(1, len(tokens) - period))
        unit = "".join(tokens[start : start + period])
        copies = max(4, -(-rng.randint(96, 400) // max(1, period)))
        return self.case(lead + unit * copies, "length", "length", "")

    def counter_loop(self) -> Case:
        rng = self.rng
        line = rng.choice(
            ["Step {}: check the cable and try it again.\n", "{}. I am sorry for the delay.\n",
             "Wait, maybe the value is {}. No, that cannot be right. ",
             "In chapter {} we see how the story goes on. "]
        )  # fmt: skip
        text = "".join(line.format(i) for i in range(1, rng.randint(40, 160)))
        return self.case(self.prose(rng.choice([0, 60])) + text, "length", "")

    def single(self) -> Case:
        rng = self.rng
        token = rng.choice(["!", "G", ".", " the", "igui", "?", "0", "\n", " a", "額", "์", "/", "#",
                            " import", "ง", "\u200b", " —", "1", "’", "Ċ"])  # fmt: skip
        lead = self.prose(rng.choice([0, 0, 0, 8, 60]))
        pieces = [*tokens_of(lead), *[token] * rng.randint(96, 400)]
        case = self.case("".join(pieces), "length", "length", "")
        case.pieces = pieces
        return case

    def multilingual(self) -> Case:
        rng = self.rng
        pieces = [self.token(False) for _ in range(rng.choice([12, 20, 40, 80, 200, 400]))]
        lead = tokens_of(self.prose(rng.choice([0, 0, 2, 80])))
        case = self.case("".join([*lead, *pieces]), "length", "length", "stop")
        case.pieces = [*lead, *pieces]
        return case

    def ascii_salad(self) -> Case:
        rng = self.rng
        pieces = [self.token(True) for _ in range(rng.choice([30, 50, 80, 200, 400]))]
        lead = tokens_of(self.prose(rng.choice([0, 0, 80, 200])))
        case = self.case("".join([*lead, *pieces]), "length", "length", "stop")
        case.pieces = [*lead, *pieces]
        return case

    def damaged(self) -> Case:
        rng = self.rng
        share = rng.uniform(0.35, 0.7)
        pieces = [
            self.token(True) if rng.random() < share else piece
            for piece in tokens_of(self.prose(rng.choice([120, 200, 300])))
        ]
        return self.case("".join(pieces), "length", "stop")

    def stutter(self) -> Case:
        rng = self.rng
        share = rng.uniform(0.2, 1)
        if rng.random() < 0.5:
            words = self.prose(150).split(" ")
            words = [f"{w} {w}" if w.isalpha() and rng.random() < share else w for w in words]
            return self.case(" ".join(words), "length", "stop")
        kind = rng.randrange(3)
        if kind == 0:
            text = re.sub(
                r"\b(def|for|in|if|return|with|class|is|and|not|import|as)\b ",
                lambda m: m.group() * (2 if rng.random() < share else 1),
                CODE,
            )
            return self.case(f"```python\n{text}```", "stop")
        items = [(rng.choice(self.words), rng.randint(1, 99)) for _ in range(rng.randint(4, 12))]

        def again(text: str) -> str:
            return f"{text} {text}" if rng.random() < share else text

        if kind == 1:
            rows = "".join(f'<item {again("name")}="{n}" {again("qty")}="{q}"/>' for n, q in items)
            return self.case(f"<order>{rows}</order>", "stop")
        name, count = '"name"', '"qty"'
        rows = ", ".join(f'{{{again(name)}: "{n}", {again(count)}: {q}}}' for n, q in items)
        return self.case(f"[{rows}]", "stop")

    def foreign_fragments(self) -> Case:
        rng = self.rng
        script = rng.choice(SCRIPTS)
        words = self.prose(rng.choice([250, 400])).split(" ")
        for _ in range(rng.randint(3, 7)):
            at = rng.randrange(len(words))
            words[at] += "".join(rng.choice(script) for _ in range(rng.randint(1, 4)))
        return self.case(" ".join(words), "stop", "length")

    def ascii_fragments(self) -> Case:
        rng = self.rng
        words = self.prose(rng.choice([250, 400])).split(" ")
        fragments = [rng.choice(self.syllables) + rng.choice(self.syllables) for _ in range(3)]
        for _ in range(rng.randint(8, 14)):
            at = rng.randrange(len(words))
            words[at] += rng.choice(fragments)
        return self.case(" ".join(words), "stop", "length")

    def special(self) -> Case:
        rng = self.rng
        token = rng.choice(SPECIAL)
        answer = self.prose(rng.choice([20, 100]))
        text = rng.choice(
            [answer + token, token + "\n" + answer, answer + token + "\nuser\nHello" + token]
        )
        return self.case(text, "stop", "length")

    def mojibake(self) -> Case:
        rng = self.rng
        text = self.prose(120)
        words = ["Привет", "δοκιμή", "naïve", "über", "café", "東京", "—", "“so”", "école", "мир"]
        parts = text.split(" ")
        for _ in range(rng.randint(12, 24)):
            parts[rng.randrange(len(parts))] = rng.choice(words)
        return self.case(
            " ".join(parts).encode().decode("latin-1"),
            "stop",
            "length",
        )

    def replacement(self) -> Case:
        rng = self.rng
        parts = self.prose(100).split(" ")
        for _ in range(rng.randint(3, 12)):
            parts[rng.randrange(len(parts))] += "\ufffd" * rng.randint(1, 3)
        return self.case(" ".join(parts), "stop", "length")

    def digit_soup(self) -> Case:
        rng = self.rng
        words = [rng.choice(self.words) for _ in range(rng.randint(1, 3))]
        tokens = [
            "0",
            "1",
            "2",
            "5",
            "00",
            "92",
            ",",
            ".",
            ".0",
            ",1",
            " 5",
            ")",
            "\n",
            "***",
            *words,
        ]
        tokens = rng.sample(tokens, 9) + words
        text = "".join(rng.choice(tokens) for _ in range(rng.choice([120, 200, 400])))
        lead = self.prose(rng.choice([0, 60]))
        return self.case(lead + text, "length", "")

    def function_soup(self) -> Case:
        rng = self.rng
        words = rng.sample("the of and to in a is that for it as was with be by on not".split(), 8)
        words += rng.sample(self.words, 3)
        text = " ".join(rng.choice(words) for _ in range(rng.choice([80, 160, 400])))
        return self.case(text, "length", "")

    def marks(self) -> Case:
        rng = self.rng
        text = self.prose(80)
        text = rng.choice([text.replace(" ", "Ġ").replace("\n", "Ċ"), text.replace(" ", "▁"),
                           re.sub(r"\s", "<0x20>", text)])  # fmt: skip
        return self.case(text, "stop", "length")

    def blanks(self) -> Case:
        rng = self.rng
        lead = rng.choice(["{", '{"name": "x",', "", self.prose(30)])
        return self.case(lead + rng.choice([" ", "\n", "\t", "\n  "]) * rng.randint(400, 2000),
                    "length", "")  # fmt: skip

    # Healthy.

    def wanted(self) -> Case:
        rng = self.rng
        count = rng.choice([10, 15, 20, 25, 30, 40, 50, 100])
        unit = rng.choice(WANTED)
        prompt = rng.choice(
            ['Repeat "{u}" {n} times.', "Write {u} {n} times, one per line", "Print '{u}' x{n}",
             "{n} copies of: {u}", "Say {u} {n} times please", "Schreibe {n} mal: {u}",
             "Écris {n} fois : {u}", "Escribe {u} {n} veces", "把“{u}”重复{n}遍",
             "{u}を{n}回繰り返して",
             "i need the text {u} over and over, {n} of them", "output {u} {n}x"]
        ).format(u=unit, n=count)  # fmt: skip
        joint = rng.choice(["\n", " ", ", "])
        lead = rng.choice(["", "", "Sure! Here you go:\n\n", "Here it is:\n"])
        off = rng.choice([0, 0, 0, -2, 1, 3])
        text = lead + joint.join([unit] * max(8, count + off))
        return Case(text, "stop", rng.random() < 0.6, prompt)

    def refrain(self) -> Case:
        rng = self.rng
        verse = [line for line in self.prose(400).split(". ") if 15 < len(line) < 120][:8]
        verse = verse or ["The tide goes out", "The lamps are lit", "The boats come in"]
        chorus = (
            f"{rng.choice(self.words).title()}, oh {rng.choice(self.words)}, carry me home\n" * 4
        )
        text = "".join(
            f"{line}\n{line if rng.random() < 0.2 else ''}\n{chorus}\n" for line in verse
        )
        return self.case(text, "stop")

    def rows(self) -> Case:
        rng = self.rng
        kind = rng.randrange(7)
        n = rng.randint(8, 40)

        def name() -> str:
            return rng.choice(self.words)

        if kind == 0:
            text = "| id | state | note |\n|---|---|---|\n" + "".join(
                f"| {i} | ok | none |\n" for i in range(n)
            )
        elif kind == 1:
            text = json.dumps(
                [{"id": i, "active": True, "tags": [], "note": None} for i in range(n)]
            )
        elif kind == 2:
            text = "\n".join(
                f"2026-11-{i % 28 + 1:02d}T10:{i:02d}:00Z INFO worker-{i % 4} request done "
                f"status=200 ms={rng.randint(3, 90)}" for i in range(n)
            )  # fmt: skip
        elif kind == 3:
            text = "\n".join(
                f"def test_{name()}_{i}():\n    assert run({i}) == {i * i}\n" for i in range(n)
            )
        elif kind == 4:
            text = "\n".join(",".join("0.0" for _ in range(8)) for _ in range(n))
        elif kind == 5:
            text = "\n".join(f"- [ ] {name()} {name()}" for _ in range(n))
        else:
            text = "\n".join(
                f"INSERT INTO t (id, name) VALUES ({i}, '{name()}');" for i in range(n)
            )
        return self.case(f"Here it is:\n\n{text}", "stop")

    def encoded(self) -> Case:
        rng = self.rng
        raw = rng.randbytes(rng.randint(200, 900))
        text = rng.choice(
            [base64.b64encode(raw).decode(), raw.hex(), base64.b85encode(raw).decode(),
             "\n".join(f"{i:08x}  {raw[i : i + 16].hex(' ')}" for i in range(0, len(raw), 16)),
             "".join(rng.choice("ACGT") for _ in raw), " ".join(f"{b:08b}" for b in raw[:150]),
             " ".join(str(b) for b in raw), "\n".join(base64.b32encode(raw[i : i + 20]).decode()
             for i in range(0, len(raw), 20))]
        )  # fmt: skip
        return self.case(text, "stop", "length")

    def lists(self) -> Case:
        rng = self.rng
        words = rng.sample(self.words, rng.randint(40, 200))
        joint = rng.choice([", ", "\n", " ", "\n- ", "; ", " | "])
        if rng.random() < 0.4:
            words = sorted(words)
        return self.case(joint.join(words), "stop")

    def notation(self) -> Case:
        rng = self.rng
        kind = rng.randrange(6)
        if kind == 0:
            moves = [f"{rng.choice('NBRQK') if rng.random() < 0.5 else ''}{rng.choice('abcdefgh')}"
                     f"{rng.randint(1, 8)}" for _ in range(80)]  # fmt: skip
            text = " ".join(f"{i + 1}. {moves[2 * i]} {moves[2 * i + 1]}" for i in range(40))
        elif kind == 1:
            text = "X:1\nT:Reel\nM:4/4\nK:D\n" + "|".join(
                "".join(rng.choice("ABcdefga") + rng.choice(["", "2"]) for _ in range(8))
                for _ in range(24)
            )
        elif kind == 2:
            codes = [".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---"]
            text = " ".join(rng.choice(codes) for _ in range(120))
        elif kind == 3:
            text = "\n".join("".join(rng.choice("#.@ ") for _ in range(40)) for _ in range(16))
        elif kind == 4:
            text = "\n".join(f"{n}: {n * rng.randint(2, 9)}" for n in range(1, 60))
        else:
            text = "".join(rng.choice("+-<>[].,") for _ in range(300))
        return self.case(text, "stop")

    def scripts(self) -> Case:
        rng = self.rng

        def word(script: str) -> str:
            return "".join(rng.choice(script) for _ in range(rng.randint(2, 6)))

        lines = [f"{rng.choice(self.words)}: {word(script)} ({word(script)})" for script in SCRIPTS]
        rng.shuffle(lines)
        return self.case("\n".join(lines[: rng.randint(5, 20)]), "stop")

    def answers_alone(self) -> Case:
        text = self.prose(self.rng.choice([30, 80, 200, 400]))
        return self.case(text, "stop", "length")


CORRUPT = (
    "loop counter_loop single multilingual ascii_salad damaged stutter foreign_fragments "
    "ascii_fragments special mojibake replacement digit_soup function_soup marks blanks"
).split()
HEALTHY = "wanted refrain rows encoded lists notation scripts answers_alone".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--each", type=int, default=100, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--misses", action="store_true", help="show what was judged wrongly")
    parser.add_argument("--hidden", action="store_true", help="judge without the requests")
    parser.add_argument("--vocabulary", type=Path)
    options = parser.parse_args()
    vocabulary = json.loads(options.vocabulary.read_text()) if options.vocabulary else []
    rows = []
    for label, kinds in (("corrupt", CORRUPT), ("healthy", HEALTHY)):
        for kind in kinds:
            if options.kind and kind not in options.kind:
                continue
            maker = Maker(options.seed, vocabulary)
            make: Callable[[], Case] = getattr(maker, kind)
            counts = dict.fromkeys(Kind, 0)
            for _ in range(options.each):
                case = make()
                verdict = judge(case.events(), None if options.hidden else case.request())
                counts[verdict.kind] += 1
                if options.misses and (verdict.kind is Kind.CORRUPT) != (label == "corrupt"):
                    names = ", ".join(f"{f.name} {f.value}" for f in verdict.findings)
                    form = "stream" if case.streamed else "body"
                    print(f"- {kind} {case.ending} {form} {verdict.kind}: {names}")
                    print(f"    {case.prompt!r} {case.text[-240:]!r}")
            share = 100 * counts[Kind.CORRUPT] / options.each
            rows.append(
                [label, kind, str(options.each), f"{share:.1f} %", str(counts[Kind.SUSPECT])]
            )
    print(table(["label", "kind", "cases", "corrupt", "suspect"], rows))


if __name__ == "__main__":
    main()
