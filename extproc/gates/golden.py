"""Gate 3: prompts whose answers are known. The cheapest gate, and the one that catches most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from extproc.gates.conditions import Condition
from extproc.gates.endpoint import Endpoint, unanswered
from extproc.gates.judging import seen
from extproc.gates.outcome import Check, Status, failed, passed, skipped
from extproc.gates.plan import Gate, Planned, digest
from extproc.gates.settings import GoldenPrompt
from extproc.probes import BadStatus, NotJson, ProbeError, Reply
from extproc.probes.kinds import Golden

SHOWN = 80
"""Characters of an answer that are shown, if answers may be shown."""


def golden_gate(
    settings: GoldenPrompt,
    candidate: Endpoint,
    own: Sequence[Golden],
    show_answers: bool = False,
) -> Gate:
    """The gate. ``own``: prompts beside the settings' probe. ``show_answers``: in reports; they are
    the answers to fixed prompts, but answers nonetheless."""
    probe = Golden(
        prompt=settings.deterministic_probe,
        expected=settings.expected_output,
        max_tokens=settings.max_tokens,
    )
    named = [("deterministic_probe", probe)]
    named += [(f"{number}", golden) for number, golden in enumerate(own, 1)]
    checks = []
    for label, golden in named:
        for number in range(1, settings.repeat + 1):
            name = f"prompt:{label}" + (f"#{number}" if settings.repeat > 1 else "")
            run = _asker(settings, candidate, golden, name, show_answers)
            checks.append(Planned(name, run, {"prompt": digest(golden.model_dump())}))

    async def rate(before: tuple[Check, ...]) -> Check:
        return pass_rate(before, settings.pass_rate_threshold)

    checks.append(Planned("pass_rate", rate, derived=True))
    inputs = {
        **candidate.identity,
        "temperature": settings.temperature,
        "show": show_answers,
    }
    return Gate(3, "gate_3_golden_prompt", tuple(checks), inputs)


def pass_rate(samples: Sequence[Check], threshold: float) -> Check:
    """Whether enough prompts were answered as they should be."""
    name = "pass_rate"
    asked = len(samples)
    met = sum(sample.status is Status.PASSED for sample in samples)
    if all(sample.status is Status.SKIPPED for sample in samples):
        return skipped(name, samples[0].reason if samples else "no prompts")
    rate = met / asked
    said = f"{met} of {asked} prompts were answered as expected"
    numbers = {"asked": asked, "met": met, "rate": rate}
    if rate < threshold:
        missed = [sample for sample in samples if sample.status is not Status.PASSED]
        said += f"; {missed[0].name.removeprefix('prompt:')}: {missed[0].reason}"
        answered = all(sample.answered for sample in missed)
        return failed(
            name, said, Condition.PROBE, threshold=threshold, answered=answered, measured=numbers
        )
    return passed(name, said, threshold, measured=numbers)


def _asker(
    settings: GoldenPrompt,
    candidate: Endpoint,
    golden: Golden,
    name: str,
    show: bool,
) -> Callable[[tuple[Check, ...]], Awaitable[Check]]:
    async def ask(_: tuple[Check, ...]) -> Check:
        try:
            client = await candidate.client(settings.timeout_sec)
            reply = await client.chat(
                golden.prompt, temperature=settings.temperature, max_tokens=golden.max_tokens
            )
        except (BadStatus, NotJson) as error:
            found = unanswered(name, candidate.role, error)
            reason = found.reason
            if error.reply is not None and error.reply.corrupt and error.reply.findings:
                reason += f"; {seen(error.reply)}"
            return Check(name, Status.MISSED, reason, answered=found.answered)
        except ProbeError as error:
            return Check(name, Status.MISSED, f"{candidate.role}: {error}", answered=False)
        if golden.met(reply.text):
            return passed(name, f"as expected, in {reply.timings.total:.1f} s")
        return Check(name, Status.MISSED, describe(reply, golden, show))

    return ask


def describe(reply: Reply, golden: Golden, show: bool) -> str:
    """What came instead of the expected answer."""
    text = reply.text.strip()
    if reply.corrupt:
        said = f"a corrupt answer: {seen(reply)}"
    elif not text:
        hidden = " (there is reasoning; give it more max_tokens)" if reply.reasoning else ""
        said = f"an empty answer{hidden}"
    else:
        said = f"another answer, {len(text)} characters"
        if reply.finish == "length":
            said += ", cut off by max_tokens"
    if show and text:
        short = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
        said += f": {short!r}"
        said += f", expected {golden.expected!r}"
    return said
