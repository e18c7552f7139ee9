"""The status page in a real Chromium, with real traffic behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.e2e.browser import chromium, complaints
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers

EVIL = "<script>window.taken = 1</script><img src=x onerror='window.taken = 1'>"

UNITS: list[dict[str, Any]] = [
    {
        "id": "unit-a",
        "model": EVIL,
        "engine": "vllm",
        "release": "r1",
        "clusters": ["unit_a"],
        "fallback": ["unit-b"],
    },
    {"id": "unit-b", "release": "r1", "clusters": ["unit_b"], "verified": True},
]


async def browse(g: Gateway, work: Callable[[Chrome], None], folder: Path, **options: Any) -> None:
    """``work`` with the open page, in a thread: selenium waits."""

    def run() -> None:
        with chromium(folder, **options) as driver:
            driver.get(f"{g.admin}/")
            work(driver)

    await asyncio.to_thread(run)


def text(driver: Chrome, selector: str) -> str:
    """What an element shows. In one step: the page replaces its elements while it lives."""
    found = driver.execute_script("return document.querySelector(arguments[0]).innerText", selector)
    return str(found)


def state(driver: Chrome, unit: str) -> str:
    return text(driver, f"[data-unit='{unit}'] .badge")


async def test_a_change_of_state_shows_by_itself(gateway: Make, tmp_path: Path) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON), sidecar={"units": UNITS})
    loop = asyncio.get_running_loop()

    def work(driver: Chrome) -> None:
        def told(action: Any) -> None:
            asyncio.run_coroutine_threadsafe(action, loop).result(60)

        wait = WebDriverWait(driver, 30)
        wait.until(lambda _: text(driver, "#live") == "live")
        assert state(driver, "unit-a") == "pass"
        driver.execute_script("window.same = 1")

        async def traffic() -> None:
            for _ in range(3):
                await g.ask()
            await g.become("unit-a", state="quarantine")

        told(traffic())
        wait.until(lambda _: state(driver, "unit-a") == "quarantine (hard)")
        wait.until(lambda _: "is out of traffic" in text(driver, "#summary"))
        evidence = text(driver, "#evidence")
        assert "repetition." in evidence
        assert '"!" x 64' in evidence
        assert driver.title.startswith("1 out")

        told(g.command("unit-a", "release", EVIL))
        wait.until(lambda _: state(driver, "unit-a") == "observe")
        assert driver.execute_script("return window.same") == 1, "the page was loaded again"

        assert EVIL in text(driver, "#units"), "what metadata says is shown as it is"
        assert driver.execute_script("return window.taken") is None
        told(g.kill())
        wait.until(lambda _: text(driver, "#live") != "live")
        told(g.serve())
        wait.until(lambda _: text(driver, "#live") == "live")
        ours = [each for each in complaints(driver) if "ERR_" not in each["message"]]
        assert not ours, "only the loss of the sidecar may be an error"

    await browse(g, work, tmp_path / "profile")


async def test_without_javascript_it_is_a_plain_table(gateway: Make, tmp_path: Path) -> None:
    g = await gateway(sidecar={"units": UNITS})
    await g.ask()
    await g.counted("unit-a", clean=1)

    def work(driver: Chrome) -> None:
        table = driver.find_element(By.CSS_SELECTOR, "#units table")
        assert [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "thead th")] == [
            *("Unit", "State", "Corrupt, last hour", "Answers", "Hosts", "Fallback")
        ]
        badge = table.find_element(By.CSS_SELECTOR, "[data-unit='unit-a'] .badge")
        assert badge.text == "pass"
        assert "1 clean" in table.text
        assert driver.find_element(By.ID, "live").text == "Reload for news"

    await browse(g, work, tmp_path / "profile", javascript=False)


async def test_a_narrow_window_scrolls_only_one_way(gateway: Make, tmp_path: Path) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON), sidecar={"units": UNITS})
    for _ in range(3):
        await g.ask()

    def work(driver: Chrome) -> None:
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 360
        role = "return document.querySelector('[data-unit]').getAttribute('role')"
        assert driver.execute_script(role) == "row", "still a table to a screen reader"

    await browse(g, work, tmp_path / "profile", size=(360, 800))


async def test_text_has_contrast_in_both_schemes(gateway: Make, tmp_path: Path) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON), sidecar={"units": UNITS})
    for _ in range(3):
        await g.ask()
    await g.become("unit-a", state="quarantine")

    def work(driver: Chrome) -> None:
        found = driver.execute_script(CONTRAST)
        assert len(found) > 20
        assert not [each for each in found if each["ratio"] < 4.5]

    for dark in (False, True):
        await browse(g, work, tmp_path / f"profile-{dark}", dark=dark)


CONTRAST = """
const channel = (value) => {
  const v = value / 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
};
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const rgb = numbers(getComputedStyle(node).backgroundColor);
    if (rgb.length === 3 || rgb[3] > 0) return rgb;
  }
  return [255, 255, 255];
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const own = Array.from(node.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || node.closest("svg, script")) continue;
  const a = light(numbers(getComputedStyle(node).color)), b = light(ground(node));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  found.push({text: node.textContent.trim().slice(0, 40), ratio});
}
return found;
"""
"""WCAG 2.2, 1.4.3: the relative luminance of text and of what is behind it."""
