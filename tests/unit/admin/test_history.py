"""The ring of rates behind the sparklines."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from extproc.admin import sparkline
from extproc.admin.history import LENGTH, WIDTH, History, Point, Totals

A, B = ("a", "r1", "short"), ("b", "r1", "short")


def test_what_was_there_at_the_start_happened_at_some_other_time() -> None:
    history = History()
    history.sample(0, {A: Totals(1000, 900)})
    assert history.points("a") == [Point()] * LENGTH
    history.sample(1, {A: Totals(1010, 901)})
    assert history.points("a")[-1] == Point(10, 1)


def test_answers_of_one_minute_are_one_point() -> None:
    history = History()
    history.sample(0, {A: Totals(0, 0)})
    for second in range(1, 60):
        history.sample(second, {A: Totals(second, second // 2)})
    history.sample(WIDTH + 1, {A: Totals(70, 29)})
    assert history.points("a")[-2:] == [Point(59, 29), Point(11, 0)]


def test_classes_and_releases_of_a_unit_add_up() -> None:
    history = History()
    history.sample(0, {})
    both = {A: Totals(3, 1), ("a", "r2", "long"): Totals(4, 2), B: Totals(5, 0)}
    history.sample(1, both)
    assert history.points("a")[-1] == Point(7, 3)
    assert history.points("b")[-1] == Point(5, 0)


def test_a_release_that_leaves_the_book_takes_nothing_away() -> None:
    history = History()
    history.sample(0, {A: Totals(0, 0), ("a", "r0", "short"): Totals(50, 50)})
    history.sample(1, {A: Totals(2, 0)})
    assert history.points("a")[-1] == Point(2, 0)


def test_a_unit_that_leaves_the_book_is_forgotten() -> None:
    history = History()
    history.sample(0, {A: Totals(0, 0), B: Totals(0, 0)})
    history.sample(1, {A: Totals(1, 1)})
    assert history.points("b") == [Point()] * LENGTH
    assert list(history._points) == ["a"]


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=60,
    )
)
def test_it_is_bounded_and_loses_nothing_of_the_last_hour(
    steps: list[tuple[float, int, int]],
) -> None:
    history, at, judged, corrupt = History(), 0.0, 0, 0
    history.sample(at, {A: Totals(0, 0)})
    for pause, more, bad in steps:
        at, judged, corrupt = at + pause, judged + more, corrupt + min(bad, more)
        history.sample(at, {A: Totals(judged, corrupt)})
    points = history.points("a")
    assert len(points) == LENGTH
    if at < WIDTH * (LENGTH - 1):
        assert sum(point.judged for point in points) == judged
        assert sum(point.corrupt for point in points) == corrupt


def test_a_clock_that_stood_still_or_went_back_is_survived() -> None:
    history = History()
    for at in (1000.0, 1000.0, 10.0, 1000.0):
        history.sample(at, {A: Totals(int(at), 0)})
    assert len(history.points("a")) == LENGTH


@given(
    st.lists(
        st.integers(0, 9).flatmap(
            lambda judged: st.tuples(st.just(judged), st.integers(0, judged))
        ),
        max_size=LENGTH,
    )
)
def test_a_sparkline_has_a_bar_for_each_corrupt_point_within_its_height(
    counts: list[tuple[int, int]],
) -> None:
    points = [Point(*count) for count in counts]
    bars = [int(bar) for bar in re.findall(r"v-(\d+)", sparkline.corrupt(points))]
    assert len(bars) == sum(bool(point.corrupt) for point in points)
    assert all(sparkline.LEAST <= bar <= sparkline.HEIGHT for bar in bars)
    assert sparkline.traffic(points).count("M") == sum(bool(point.judged) for point in points)
    assert "corrupt" in sparkline.words(points) or "no answers" in sparkline.words(points)
