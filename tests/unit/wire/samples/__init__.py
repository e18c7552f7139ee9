"""One response of each dialect and framing, with the events it must give.

The samples are written by hand after the servers' own documents; each carries what is easy to
get wrong in its dialect (a null first content, fragments, a repeated whole text at the end).
"""

from tests.unit.wire.samples import native, numbers, openai
from tests.unit.wire.samples.build import Sample

SAMPLES: dict[str, Sample] = {**openai.SAMPLES, **native.SAMPLES, **numbers.SAMPLES}

__all__ = ["SAMPLES", "Sample"]
