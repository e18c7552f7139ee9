"""Corruption and hard healthy text of every kind, made by a seed: what the corpus does not name.

    python -m bench.adversary [--each N] [--seed N] [--misses] [--vocabulary FILE] [--kind NAME]

Every case is judged as a stream or a whole body, ended by ``length``, ``stop`` or not at all, as
its kind allows, and the share that is called corrupt is printed for each kind. The prose is that of
bench/answers.jsonl.gz, answers of a real model. ``--vocabulary``: a JSON list of a tokenizer's
tokens for the salads; without it they are drawn from syllables and from twenty scripts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.accuracy import judge, table
from bench.adversary import corrupt, healthy
from bench.adversary.draw import Maker
from extproc.detect import Kind


def main() -> None:
    parser = argparse.ArgumentParser("bench.adversary", description=__doc__.split("\n")[0])
    parser.add_argument("--each", type=int, default=100, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--misses", action="store_true", help="show what was judged wrongly")
    parser.add_argument("--hidden", action="store_true", help="judge without the requests")
    parser.add_argument("--vocabulary", type=Path)
    options = parser.parse_args()
    vocabulary = json.loads(options.vocabulary.read_text()) if options.vocabulary else []
    rows = []
    for label, kinds in (("corrupt", corrupt.KINDS), ("healthy", healthy.KINDS)):
        for kind, make in kinds.items():
            if options.kind and kind not in options.kind:
                continue
            maker = Maker(options.seed, vocabulary)
            counts = dict.fromkeys(Kind, 0)
            for _ in range(options.each):
                case = make(maker)
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
