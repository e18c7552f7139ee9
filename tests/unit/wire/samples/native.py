"""The engines' own APIs."""

from __future__ import annotations

import json

from extproc.wire import (
    Ended,
    Failure,
    Finish,
    Framing,
    Logprobs,
    Terminator,
    Text,
    ToolCall,
    Unterminated,
    Usage,
)
from tests.unit.wire.samples.build import (
    BODY_END,
    LOGPROB_EVENT,
    LOGPROBS,
    PLAIN_END,
    STREAM_END,
    A,
    C,
    R,
    Sample,
    lines,
    sse,
)

SAMPLES: dict[str, Sample] = {
    "llama.cpp stream": Sample(
        "llama.cpp",
        Framing.SSE,
        sse(
            {
                "index": 0,
                "content": "né",
                "tokens": [1, 2],
                "stop": False,
                "completion_probabilities": LOGPROBS["content"],
            },
            {"index": 0, "content": "", "tokens": [], "stop": False},
            {
                "index": 0,
                "content": "",
                "tokens": [],
                "stop": True,
                "stop_type": "limit",
                "tokens_predicted": 9,
                "tokens_evaluated": 7,
                "prompt": "p",
            },
            done=False,
        ),
        [
            Text(0, C, "né", 2),
            LOGPROB_EVENT,
            Finish(0, "length"),
            Usage(7, 9),
            Terminator(),
            STREAM_END,
        ],
    ),
    "llama.cpp body": Sample(
        "llama.cpp",
        Framing.JSON,
        json.dumps(
            [
                {"index": 0, "content": "né", "stop": True, "stopped_eos": True},
                {"index": 1, "content": "b", "stop": True, "stop_type": "word"},
            ]
        ).encode(),
        [
            Text(0, C, "né"),
            Finish(0, "stop"),
            Usage(-1, -1),
            Text(1, C, "b"),
            Finish(1, "stop"),
            Usage(-1, -1),
            BODY_END,
        ],
    ),
    "ollama chat": Sample(
        "ollama",
        Framing.NDJSON,
        lines(
            {"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
            {"message": {"content": "né"}, "logprobs": LOGPROBS["content"], "done": False},
            {"message": {"content": ""}, "done": False},
            {
                "message": {
                    "content": "",
                    "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
                },
                "done": False,
            },
            {
                "message": {"content": ""},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 7,
                "eval_count": 9,
            },
        ),
        [
            Text(0, R, "hm", 1),
            Text(0, C, "né", 1),
            LOGPROB_EVENT,
            Text(0, C, "", 1),
            ToolCall(0, 0, "f"),
            Text(0, A, '{"a":1}', 1),
            Finish(0, "stop"),
            Usage(7, 9),
            Terminator(),
            STREAM_END,
        ],
    ),
    "ollama generate, error line": Sample(
        "ollama",
        Framing.NDJSON,
        lines({"response": "né", "done": False}, {"error": "it broke"}),
        [Text(0, C, "né", 1), Failure("error"), Unterminated('"done": true'), STREAM_END],
    ),
    "ollama generate body": Sample(
        "ollama",
        Framing.JSON,
        json.dumps(
            {"response": "né", "thinking": "hm", "done": True, "context": [1, 2], "eval_count": 9}
        ).encode(),
        [Text(0, R, "hm"), Text(0, C, "né"), Finish(0, "stop"), Usage(-1, 9), BODY_END],
    ),
    "tgi stream": Sample(
        "tgi",
        Framing.SSE,
        b"data:"
        + json.dumps(
            {
                "token": {"id": 5, "text": "né", "logprob": -0.5, "special": False},
                "top_tokens": [{"text": "né", "logprob": -0.5}],
                "generated_text": None,
            }
        ).encode()
        + b"\n\ndata:"
        + json.dumps(
            {
                "token": {"id": 2, "text": "</s>", "logprob": None, "special": True},
                "generated_text": "né",
                "details": {"finish_reason": "eos_token", "generated_tokens": 2, "input_length": 7},
            }
        ).encode()
        + b"\n\n",
        [
            Text(0, C, "né", 1),
            Logprobs(0, ("né",), (-0.5,), ((-0.5,),)),
            Text(0, C, "", 1),
            Logprobs(0, ("</s>",), (None,), ((),)),
            Finish(0, "stop"),
            Usage(7, 2),
            Terminator(),
            Ended(True, False),
        ],
    ),
    "tgi body": Sample(
        "tgi",
        Framing.JSON,
        json.dumps(
            [
                {
                    "generated_text": "né",
                    "details": {
                        "finish_reason": "length",
                        "generated_tokens": 1,
                        "tokens": [{"text": "né", "logprob": -0.5}],
                    },
                }
            ]
        ).encode(),
        [
            Text(0, C, "né"),
            Logprobs(0, ("né",), (-0.5,)),
            Finish(0, "length"),
            Usage(-1, 1),
            PLAIN_END,
        ],
    ),
    "triton body": Sample(
        "triton",
        Framing.JSON,
        json.dumps(
            {"model_name": "ensemble", "text_output": "né", "output_log_probs": [-0.5, -1]}
        ).encode(),
        [Text(0, C, "né"), Logprobs(0, ("", ""), (-0.5, -1.0)), PLAIN_END],
    ),
    "triton stream, log probabilities not asked for": Sample(
        "triton",
        Framing.SSE,
        sse({"text_output": "a", "output_log_probs": [0.0]}, {"text_output": "b"}, done=False),
        [Text(0, C, "a", 1), Text(0, C, "b", 1), Ended(True, False)],
    ),
    "sglang stream, cumulative": Sample(
        "sglang",
        Framing.SSE,
        sse(
            {"text": "n", "meta_info": {"output_token_logprobs": [[-0.5, 1, "n"]]}},
            {
                "text": "né!",
                "meta_info": {
                    "output_token_logprobs": [[-0.5, 1, "n"], [-1.0, 2, None]],
                    "finish_reason": {"type": "length", "length": 2},
                    "prompt_tokens": 7,
                    "completion_tokens": 2,
                },
            },
        ),
        [
            Text(0, C, "n", 1),
            Logprobs(0, ("n",), (-0.5,)),
            Text(0, C, "é!", 1),
            Logprobs(0, ("",), (-1.0,)),
            Finish(0, "length"),
            Usage(7, 2),
            Terminator(),
            STREAM_END,
        ],
    ),
    "sglang stream, increments": Sample(
        "sglang",
        Framing.SSE,
        sse({"text": "one"}, {"text": " two"}, {"text": " three"}),
        [
            Text(0, C, "one", 1),
            Text(0, C, " two", 1),
            Text(0, C, " three", 1),
            Terminator(),
            STREAM_END,
        ],
    ),
}
