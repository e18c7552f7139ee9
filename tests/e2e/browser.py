"""A real Chromium, driven as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.observability.tools import binary


@contextmanager
def chromium(
    profile: Path, javascript: bool = True, dark: bool = False, size: tuple[int, int] = (1280, 900)
) -> Iterator[Chrome]:
    """One window of ``size`` pixels, with a ``profile`` of its own."""
    options = ChromeOptions()
    options.binary_location = binary("chromium", "chromium")
    for argument in (
        "--headless=new",
        "--no-sandbox",  # of root, as CI is
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--force-device-scale-factor=1",
        f"--user-data-dir={profile}",
        f"--window-size={size[0]},{size[1]}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not javascript:
        key = "profile.managed_default_content_settings.javascript"
        options.add_experimental_option("prefs", {key: 2})
    service = ChromeService(binary("chromedriver", "chromium-driver"))
    driver = Chrome(options=options, service=service)
    try:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
        )
        if dark:
            feature = {"name": "prefers-color-scheme", "value": "dark"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        yield driver
    finally:
        driver.quit()


def complaints(driver: Chrome) -> list[Any]:
    """What the console says of errors, such as a breach of the Content-Security-Policy."""
    entries = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry for entry in entries if entry["level"] == "SEVERE"]
