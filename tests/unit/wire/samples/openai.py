"""OpenAI and Anthropic."""

from __future__ import annotations

import json

from extproc.wire import (
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
    STREAM_END,
    A,
    C,
    F,
    R,
    Sample,
    delta,
    sse,
    typed,
)

SAMPLES: dict[str, Sample] = {
    "chat stream": Sample(
        "openai.chat",
        Framing.SSE,
        b": keep-alive\n\n"
        + sse(
            delta(role="assistant", content=None),
            delta(reasoning_content="hm"),
            delta(content="né", logprobs=LOGPROBS),
            delta(content=" 世界😀", index=1),
            delta(content=""),
            delta(refusal="I will not"),
            delta(tool_calls=[{"index": 1, "id": "x", "function": {"name": "f", "arguments": ""}}]),
            delta(tool_calls=[{"index": 1, "function": {"arguments": '{"a":'}}]),
            delta(tool_calls=[{"index": 1, "function": {"arguments": "1}"}}]),
            delta(index=1, finish="stop"),
            delta(content="!", finish="tool_calls"),
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}},
        ),
        [
            Text(0, R, "hm", 1),
            Text(0, C, "né", 1),
            LOGPROB_EVENT,
            Text(1, C, " 世界😀", 1),
            Text(0, C, "", 1),
            Text(0, F, "I will not", 1),
            ToolCall(0, 1, "f"),
            Text(0, A, '{"a":', 1, 1),
            Text(0, A, "1}", 1, 1),
            Finish(1, "stop"),
            Text(0, C, "!", 1),
            Finish(0, "tool_calls"),
            Usage(7, 9),
            Terminator(),
            STREAM_END,
        ],
    ),
    "chat body": Sample(
        "openai.chat",
        Framing.JSON,
        json.dumps(
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "né", "reasoning": "hm"},
                        "logprobs": LOGPROBS,
                        "finish_reason": "length",
                    },
                    {
                        "index": 1,
                        "message": {
                            "content": None,
                            "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
                        },
                        "finish_reason": "tool_calls",
                    },
                    {
                        "index": 2,
                        "message": {
                            "content": [
                                {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]},
                                {"type": "text", "text": "yes"},
                            ],
                            "function_call": {"name": "old", "arguments": "{}"},
                        },
                        "finish_reason": "function_call",
                    },
                ],
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 9,
                    "completion_tokens_details": {"reasoning_tokens": 4},
                },
            }
        ).encode(),
        [
            Text(0, C, "né"),
            Text(0, R, "hm"),
            LOGPROB_EVENT,
            Finish(0, "length"),
            ToolCall(1, 0, "f"),
            Text(1, A, "{}"),
            Finish(1, "tool_calls"),
            Text(2, R, "so"),
            Text(2, C, "yes"),
            ToolCall(2, 0, "old"),
            Text(2, A, "{}"),
            Finish(2, "tool_calls"),
            Usage(7, 9, 4),
            BODY_END,
        ],
    ),
    "chat stream, error object and no last word": Sample(
        "openai.chat",
        Framing.SSE,
        sse(delta(content="a"), {"error": {"code": 500, "message": "secret text"}}, done=False),
        [Text(0, C, "a", 1), Failure("500"), Unterminated("[DONE]"), STREAM_END],
    ),
    "chat stream, error as a bare line": Sample(
        "openai.chat",
        Framing.SSE,
        sse(delta(content="a"), done=False) + b'{"error":"it broke"}\n',
        [Text(0, C, "a", 1), Failure("error"), Unterminated("[DONE]"), STREAM_END],
    ),
    "completions stream": Sample(
        "openai.completions",
        Framing.SSE,
        sse(
            {
                "choices": [
                    {
                        "index": 0,
                        "text": "ab",
                        "logprobs": {
                            "tokens": ["a", "b"],
                            "token_logprobs": [None, -1],
                            "top_logprobs": [None, {"b": -1.0, "c": -2.0}],
                            "text_offset": [0, 1],
                        },
                        "finish_reason": None,
                    }
                ]
            },
            {"choices": [{"index": 1, "text": "", "logprobs": None, "finish_reason": None}]},
            {
                "choices": [
                    {"index": 0, "text": "", "logprobs": LOGPROBS, "finish_reason": "length"}
                ]
            },
        ),
        [
            Text(0, C, "ab", 1),
            Logprobs(0, ("a", "b"), (None, -1.0), ((), (-1.0, -2.0))),
            Text(1, C, "", 1),
            LOGPROB_EVENT,
            Finish(0, "length"),
            Terminator(),
            STREAM_END,
        ],
    ),
    "responses stream": Sample(
        "openai.responses",
        Framing.SSE,
        typed(
            {"type": "response.created", "response": {"status": "in_progress", "error": None}},
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
            {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
            {
                "type": "response.output_text.delta",
                "output_index": 1,
                "delta": "né",
                "logprobs": LOGPROBS["content"],
            },
            {"type": "response.output_text.done", "output_index": 1, "text": "né"},
            {
                "type": "response.output_item.added",
                "output_index": 2,
                "item": {"type": "function_call", "name": "f", "arguments": ""},
            },
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{"},
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "}"},
            {"type": "response.refusal.done", "output_index": 3, "refusal": "No."},
            {
                "type": "response.incomplete",
                "response": {
                    "status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"},
                    "output": [{"type": "message", "content": [{"text": "né"}]}],
                    "usage": {"input_tokens": 7, "output_tokens": 9},
                },
            },
        ),
        [
            Text(0, R, "hm", 1),
            Text(0, C, "né", 1, 1),
            LOGPROB_EVENT,
            ToolCall(0, 2, "f"),
            Text(0, A, "{", 1, 2),
            Text(0, A, "}", 1, 2),
            Text(0, F, "No.", 0, 3),
            Finish(0, "length"),
            Usage(7, 9),
            Terminator(),
            STREAM_END,
        ],
    ),
    "responses stream without indices, failing": Sample(
        "openai.responses",
        Framing.SSE,
        typed(
            {"type": "response.output_text.delta", "item_id": "m1", "delta": "a"},
            {"type": "response.output_text.delta", "item_id": "m2", "delta": "b"},
            {"type": "response.output_text.delta", "item_id": "m1", "delta": "c"},
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            },
        ),
        [
            Text(0, C, "a", 1, 0),
            Text(0, C, "b", 1, 1),
            Text(0, C, "c", 1, 0),
            Failure("server_error"),
            Finish(0, "error"),
            Terminator(),
            STREAM_END,
        ],
    ),
    "responses body": Sample(
        "openai.responses",
        Framing.JSON,
        json.dumps(
            {
                "object": "response",
                "status": "completed",
                "error": None,
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {
                        "type": "message",
                        "content": [
                            {"type": "output_text", "text": "né", "logprobs": LOGPROBS["content"]},
                            {"type": "refusal", "refusal": "No."},
                        ],
                    },
                    {"type": "function_call", "name": "f", "arguments": "{}"},
                ],
                "usage": {
                    "input_tokens": 7,
                    "output_tokens": 9,
                    "output_tokens_details": {"reasoning_tokens": 2},
                },
            }
        ).encode(),
        [
            Text(0, R, "hm"),
            Text(0, C, "né", 0, 1),
            LOGPROB_EVENT,
            Text(0, F, "No.", 0, 1),
            ToolCall(0, 2, "f"),
            Text(0, A, "{}", 0, 2),
            Finish(0, "stop"),
            Usage(7, 9, 2),
            BODY_END,
        ],
    ),
    "messages stream": Sample(
        "anthropic.messages",
        Framing.SSE,
        typed(
            {
                "type": "message_start",
                "message": {"content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
            },
            {"type": "ping"},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "hm"},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": "RXJyb3I="},
            },
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "text_delta", "text": "né"},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "citations_delta", "citation": {"cited_text": "quoted"}},
            },
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
            },
            {"type": "content_block_stop", "index": 2},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 9},
            },
            {"type": "message_stop"},
        ),
        [
            Usage(7, 1),
            Text(0, R, "hm", 1, 0),
            Text(0, C, "né", 1, 1),
            ToolCall(0, 2, "f"),
            Text(0, A, '{"a": 1}', 1, 2),
            Finish(0, "tool_calls"),
            Usage(-1, 9),
            Terminator(),
            STREAM_END,
        ],
    ),
    "messages stream with an error": Sample(
        "anthropic.messages",
        Framing.SSE,
        typed(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "a"},
            },
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ),
        [Text(0, C, "a", 1), Failure("overloaded_error"), Unterminated("message_stop"), STREAM_END],
    ),
    "messages body": Sample(
        "anthropic.messages",
        Framing.JSON,
        json.dumps(
            {
                "type": "message",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "text", "text": "né"},
                    {"type": "tool_use", "name": "f", "input": {"a": [1]}},
                    {"type": "tool_use", "name": "now", "input": {}},
                ],
                "stop_reason": "max_tokens",
                "usage": {"input_tokens": 7, "output_tokens": 9},
            }
        ).encode(),
        [
            Text(0, R, "hm"),
            Text(0, C, "né", 0, 1),
            ToolCall(0, 2, "f"),
            Text(0, A, '{"a":[1]}', 0, 2),
            ToolCall(0, 3, "now"),
            Finish(0, "length"),
            Usage(7, 9),
            BODY_END,
        ],
    ),
}
