"""Healthy text that looks like corruption: repetitions that are wanted, rows, lists, encodings."""

from __future__ import annotations

import base64
import json

from bench.adversary.data import SCRIPTS, WANTED
from bench.adversary.draw import Case, Maker, kinds


def wanted(maker: Maker) -> Case:
    """A repetition that the request asks for."""
    rng = maker.rng
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


def refrain(maker: Maker) -> Case:
    """A song whose chorus comes again."""
    rng = maker.rng
    verse = [line for line in maker.prose(400).split(". ") if 15 < len(line) < 120][:8]
    verse = verse or ["The tide goes out", "The lamps are lit", "The boats come in"]
    chorus = f"{rng.choice(maker.words).title()}, oh {rng.choice(maker.words)}, carry me home\n" * 4
    text = "".join(f"{line}\n{line if rng.random() < 0.2 else ''}\n{chorus}\n" for line in verse)
    return maker.case(text, "stop")


def rows(maker: Maker) -> Case:
    """Tables, logs, tests and statements: rows of one shape."""
    rng = maker.rng
    kind = rng.randrange(7)
    n = rng.randint(8, 40)

    def name() -> str:
        return rng.choice(maker.words)

    if kind == 0:
        text = "| id | state | note |\n|---|---|---|\n" + "".join(
            f"| {i} | ok | none |\n" for i in range(n)
        )
    elif kind == 1:
        text = json.dumps([{"id": i, "active": True, "tags": [], "note": None} for i in range(n)])
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
        text = "\n".join(f"INSERT INTO t (id, name) VALUES ({i}, '{name()}');" for i in range(n))
    return maker.case(f"Here it is:\n\n{text}", "stop")


def encoded(maker: Maker) -> Case:
    """Bytes in an encoding: base64, hexadecimal, bits, bases of DNA."""
    rng = maker.rng
    raw = rng.randbytes(rng.randint(200, 900))
    text = rng.choice(
        [base64.b64encode(raw).decode(), raw.hex(), base64.b85encode(raw).decode(),
         "\n".join(f"{i:08x}  {raw[i : i + 16].hex(' ')}" for i in range(0, len(raw), 16)),
         "".join(rng.choice("ACGT") for _ in raw), " ".join(f"{b:08b}" for b in raw[:150]),
         " ".join(str(b) for b in raw), "\n".join(base64.b32encode(raw[i : i + 20]).decode()
         for i in range(0, len(raw), 20))]
    )  # fmt: skip
    return maker.case(text, "stop", "length")


def lists(maker: Maker) -> Case:
    """Words without any sentence, in or out of order."""
    rng = maker.rng
    words = rng.sample(maker.words, rng.randint(40, 200))
    joint = rng.choice([", ", "\n", " ", "\n- ", "; ", " | "])
    if rng.random() < 0.4:
        words = sorted(words)
    return maker.case(joint.join(words), "stop")


def notation(maker: Maker) -> Case:
    """Chess moves, tunes, Morse code, maps and the like."""
    rng = maker.rng
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
    return maker.case(text, "stop")


def scripts(maker: Maker) -> Case:
    """A word list in many scripts."""
    rng = maker.rng

    def word(script: str) -> str:
        return "".join(rng.choice(script) for _ in range(rng.randint(2, 6)))

    lines = [f"{rng.choice(maker.words)}: {word(script)} ({word(script)})" for script in SCRIPTS]
    rng.shuffle(lines)
    return maker.case("\n".join(lines[: rng.randint(5, 20)]), "stop")


def answers_alone(maker: Maker) -> Case:
    """An answer as it is."""
    text = maker.prose(maker.rng.choice([30, 80, 200, 400]))
    return maker.case(text, "stop", "length")


KINDS = kinds(
    wanted,
    refrain,
    rows,
    encoded,
    lists,
    notation,
    scripts,
    answers_alone,
)
