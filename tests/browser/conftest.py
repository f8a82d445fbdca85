"""A service and headless Chromium, for tests of what people and programs see of the two.

Needs Chromium and its driver, installed by themselves; without them these tests fail.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import tiny
from served import Served, serving

TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "small"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(tiny.byte_level_json())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    with serving("-t", "o200k_base", "-t", "gpt2", "-t", f"chatty={folder}") as served:
        yield served


@pytest.fixture(scope="session")
def open_browser() -> Iterator[Callable[..., Any]]:
    """Open a window: of this size, with this colour scheme."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    opened = []

    def open_browser(width: int = 1280, height: int = 950, scheme: str = "light") -> Any:
        options = ChromeOptions()
        options.binary_location = found("chromium", "chromium-browser", "google-chrome")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            f"--window-size={width},{height}",
        ):
            options.add_argument(argument)
        browser = Chrome(options=options, service=ChromeService(found("chromedriver")))
        opened.append(browser)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        return browser

    yield open_browser
    for browser in opened:
        browser.quit()


def found(*names: str) -> str:
    """The first of these programs that is installed."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    raise AssertionError(f"none of {', '.join(names)} is installed: apt install chromium-driver")
