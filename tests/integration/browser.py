"""Chromium for the tests of the web page: headless, with a profile of its own, ended by its own ids.

Invariant: nothing of a page's misbehaviour is lost. Errors of its console, among them what the content security policy
has refused, are read by `problems`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from selenium import webdriver
from selenium.common.exceptions import JavascriptException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.integration.containers import needs
from tests.integration.support import PATIENCE_S, until
from tools.browser_tools import axe_core

WIDE = (1440, 900)
NARROW = (420, 800)
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # the tests run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-features=PaintHolding",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
_TIMING = """
const page = performance.getEntriesByType("navigation")[0];
return {server_ms: page.responseStart - page.requestStart, ready_ms: page.domContentLoadedEventEnd,
        loaded_ms: page.loadEventEnd, bytes: page.transferSize, unpacked: page.decodedBodySize};
"""
_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
    found => done(found.violations.map(v => ({impact: v.impact, rule: v.id, help: v.help,
        at: v.nodes.slice(0, 5).map(n => n.target.join(" ") + ": " + n.failureSummary)}))),
    error => done([{impact: "critical", rule: "axe", help: String(error), at: []}]));
"""


class Browser:
    """One window. `driver` is selenium's own, for what is not here."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> Mapping[str, float]:
        """Open a page; return its times in ms, once it has loaded."""
        self.driver.get(url)
        until(lambda: self.run("return performance.getEntriesByType('navigation')[0].loadEventEnd > 0"), f"{url} loads")
        return dict(self.run(_TIMING))

    def run(self, script: str, *arguments: object) -> Any:
        """Run JavaScript in the page, beside its content security policy."""
        return self.driver.execute_script(script, *arguments)

    def find(self, css: str) -> WebElement:
        """Return the first element, once it is there."""
        self.wait_for(lambda: self.all(css), f"{css} is on {self.driver.current_url}")
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str = "body") -> str:
        """Return the text of the first element, as people see it; empty: there is none."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css))

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for a condition. An element that a live page has replaced meanwhile is looked for again."""

        def holds() -> object:
            with contextlib.suppress(StaleElementReferenceException):
                return condition()
            return False

        until(holds, what, timeout_s)

    def wait_for_text(self, text: str, css: str = "body", timeout_s: float = PATIENCE_S) -> None:
        self.wait_for(lambda: text in self.text(css), f"{text!r} in {css} of {self.driver.current_url}", timeout_s)

    def problems(self) -> list[str]:
        """Return the errors and warnings of the console since the last call; a refusal of the content security policy
        is one."""
        lines = self.driver.get_log("browser")
        return [f"{line['level']}: {line['message']}" for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def accessibility(self) -> list[str]:
        """Return what axe-core calls serious or critical."""
        with contextlib.suppress(JavascriptException):
            self.run("delete window.axe")
        self.run(axe_core())
        found = self.driver.execute_async_script(_AXE)
        return [
            f"{one['impact']}: {one['rule']} ({one['help']}) at {one['at']}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    def scheme(self, name: str) -> None:
        """Make the page light or dark, as a user's desktop would."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, size: tuple[int, int]) -> None:
        self.driver.set_window_size(*size)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what is seen, or the whole page, as PNG."""
        if not whole:
            self.driver.save_screenshot(str(path))
            return
        height = int(self.run("return document.documentElement.scrollHeight"))
        width = int(self.run("return window.innerWidth"))
        self.resize((width, min(height + 150, 8000)))
        self.driver.save_screenshot(str(path))


@contextlib.contextmanager
def chromium(size: tuple[int, int] = WIDE, *switches: str) -> Iterator[Browser]:
    """Yield a new window, of a browser with these further switches; end it, its driver and what they have started."""
    needs("chromium", "chromedriver")
    profile = tempfile.mkdtemp(prefix="gosched-browser-")
    options = webdriver.ChromeOptions()
    options.binary_location = _program("chromium")  # naming both keeps selenium from looking for others
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for switch in (*_SWITCHES, *switches, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(switch)
    service = Service(_program("chromedriver"))
    started: list[psutil.Process] = []
    try:
        driver = webdriver.Chrome(options=options, service=service)
        parent = psutil.Process(service.process.pid)
        started = [*parent.children(recursive=True), parent]
        driver.set_page_load_timeout(PATIENCE_S)
        driver.set_script_timeout(PATIENCE_S)
        try:
            yield Browser(driver)
        finally:
            started = [*parent.children(recursive=True), parent] if parent.is_running() else started
            with contextlib.suppress(Exception):  # what does not end by itself is killed below
                driver.quit()
    finally:
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=PATIENCE_S)
        shutil.rmtree(profile, ignore_errors=True)


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"{name} is there"
    return found
