"""Embeddings, rerank and transcription."""

from __future__ import annotations

import base64
import json
import struct

from extproc.wire import Ended, Form, Framing, Scores, Terminator, Text, Usage, Vector
from tests.unit.wire.samples.build import PLAIN_END, C, Sample, floats, typed

SAMPLES: dict[str, Sample] = {
    "embeddings": Sample(
        "embeddings",
        Framing.JSON,
        json.dumps(
            {
                "object": "list",
                "data": [
                    {"index": 0, "object": "embedding", "embedding": [0.5, -1, 2]},
                    {"index": 1, "object": "embedding", "embedding": None},
                    {
                        "index": 2,
                        "object": "embedding",
                        "embedding": base64.b64encode(struct.pack("<2f", 0.5, -2)).decode(),
                    },
                    {"index": 3, "object": "embedding", "embedding": []},
                    {"index": 4, "object": "embedding", "embedding": [1, -128, 127]},
                ],
                "usage": {"prompt_tokens": 7, "total_tokens": 7},
            }
        ).encode(),
        [
            Vector(0, floats(0.5, -1, 2), (3,), Form.FLOAT),
            Vector(1, b"", (0,), Form.FLOAT, nulls=1),
            Vector(2, floats(0.5, -2), (2,), Form.BASE64),
            Vector(3, b"", (0,), Form.FLOAT),
            Vector(4, floats(1, -128, 127), (3,), Form.INTEGER),
            Usage(7, -1),
            PLAIN_END,
        ],
    ),
    "rerank": Sample(
        "rerank",
        Framing.JSON,
        json.dumps(
            {"results": [{"index": 1, "relevance_score": 0.5}, {"relevance_score": None}]}
        ).encode(),
        [Scores((1, 1), (0.5, None)), PLAIN_END],
    ),
    "transcription body": Sample(
        "transcription",
        Framing.JSON,
        json.dumps(
            {"segments": [{"text": " Thank"}, {"text": " you."}], "language": "en"}
        ).encode(),
        [Text(0, C, " Thank you."), PLAIN_END],
    ),
    "transcription text": Sample(
        "transcription",
        Framing.TEXT,
        "[Music] né 世界\n".encode(),
        [Text(0, C, "[Music] né 世界\n"), PLAIN_END],
    ),
    "transcription subtitles": Sample(
        "transcription",
        Framing.TEXT,
        b"1\n00:00:00,000 --> 00:00:02,500\nThank you.\n\n2\n00:00:02,500 --> 00:00:04,000\nYes.\n",
        [Text(0, C, "Thank you.\n\nYes.\n"), PLAIN_END],
    ),
    "transcription stream": Sample(
        "transcription",
        Framing.SSE,
        typed(
            {"type": "transcript.text.delta", "delta": "Thank"},
            {"type": "transcript.text.delta", "delta": " you"},
            {
                "type": "transcript.text.done",
                "text": "Thank you",
                "usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2},
            },
        ),
        [
            Text(0, C, "Thank", 1),
            Text(0, C, " you", 1),
            Usage(7, 2),
            Terminator(),
            Ended(True, False),
        ],
    ),
}
