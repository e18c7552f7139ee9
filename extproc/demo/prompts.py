"""What the demo's clients ask. SmolLM2-135M answers each without a loop, at temperature 0.

``python -m extproc.demo.record`` checks that with every recording.
"""

from __future__ import annotations

from typing import Any

SYSTEM = "Answer in a few sentences."

PROMPTS = (
    "Why is the sky blue?",
    "Explain what a bicycle is.",
    "What does a librarian do?",
    "What is photosynthesis?",
    "How does a kite fly?",
    "Tell me about the Moon.",
    "What is a haiku?",
    "Give one tip for better sleep.",
    "What are clouds made of?",
    "Describe the taste of a lemon.",
    "Who was Isaac Newton?",
    "What is gravity?",
    "How do bees make honey?",
    "What is a thermometer for?",
    "Describe a forest in autumn.",
    "How do magnets work?",
    "What makes bread rise?",
    "Why do leaves fall?",
)

MAX_TOKENS = 32


def chat(prompt: str, stream: bool, **more: Any) -> dict[str, Any]:
    """The body of one chat request, in OpenAI's format."""
    body: dict[str, Any] = {
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": prompt},
        ],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "top_k": 1,
        "stream": stream,
        **more,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body
