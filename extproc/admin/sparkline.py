"""A sparkline as the path of an SVG: one bar a point."""

from __future__ import annotations

from collections.abc import Sequence

from extproc.admin.history import Point

STEP = 3
HEIGHT = 26
LEAST = 4
"""Pixels: one corrupt answer among ten thousand is to be seen."""


def width(points: Sequence[Point]) -> int:
    """Of the picture, in pixels."""
    return len(points) * STEP


def traffic(points: Sequence[Point]) -> str:
    """A short tick where answers were judged."""
    return "".join(
        f"M{at * STEP + 1} {HEIGHT}v-2" for at, point in enumerate(points) if point.judged
    )


def corrupt(points: Sequence[Point]) -> str:
    """A bar where some were corrupt. Its height goes with the square root of the rate: 1 % shows
    beside 100 %."""
    return "".join(
        f"M{at * STEP + 1} {HEIGHT}v-{max(LEAST, round(HEIGHT * point.rate**0.5))}"
        for at, point in enumerate(points)
        if point.rate
    )


def words(points: Sequence[Point]) -> str:
    """What the picture shows, for those who do not see it."""
    rates = [point.rate for point in points if point.rate is not None]
    if not rates:
        return "no answers in the last hour"
    if not any(rates):
        return "no corrupt answers in the last hour"
    return f"corrupt answers in the last hour: at most {max(rates):.1%} in a minute"
