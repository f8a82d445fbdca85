"""The playground in headless Chromium: what it shows, by pointer, keyboard and screen reader."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import gristmill
import pytest
from served import Served

HOSTILE = {
    "markup": "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>",
    "ZWJ": "👨‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 e\u0301 \u200d",
    "RTL": "الطاحونة تطحن القمح, עברית \u202eabc\u202c",
    "controls": "a\x00\x01\x1b[31m\x7f\u0085\u2028\ufeffb\r\n\t",
    "no text": "\ud800 half",
}


@pytest.fixture(scope="module")
def page(service: Served, open_browser: Callable[..., Any]) -> Iterator[Any]:
    browser = open_browser()
    browser.get(service.url)
    settle(browser)
    yield browser
    # Nothing went wrong that only the console says, and nothing was fetched from elsewhere.
    assert browser.get_log("browser") == []
    requested = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert requested
    assert all(url.startswith((service.url, "data:")) for url in requested)


def settle(browser: Any) -> None:
    """Wait until the page has its answer."""
    deadline = time.monotonic() + 20
    while browser.execute_script("return document.body.dataset.busy") != "false":
        assert time.monotonic() < deadline, "the page has no answer"
        time.sleep(0.02)


def paste(browser: Any, text: str) -> None:
    """Put a text into the field, as a paste does."""
    browser.execute_script(
        "document.body.dataset.busy = 'true';"
        "const area = document.getElementById('text');"
        # As JSON, since half of a surrogate pair does not pass the driver.
        "area.value = JSON.parse(arguments[0]);"
        "area.dispatchEvent(new Event('input', {bubbles: true}))",
        json.dumps(text),
    )
    settle(browser)


def choose(browser: Any, name: str, value: str) -> None:
    """Choose one of several, as a click on its label does."""
    browser.find_element("css selector", f'input[name="{name}"][value="{value}"]').find_element(
        "xpath", ".."
    ).click()


def text_of(browser: Any, id: str) -> str:
    return str(
        browser.execute_script("return document.getElementById(arguments[0]).textContent", id)
    )


def tokens_of(browser: Any) -> list[dict[str, Any]]:
    """The cells of the view of the text."""
    found: list[dict[str, Any]] = browser.execute_script(
        """return [...document.querySelectorAll('#tokens > span')].map(cell => ({
             gap: cell.className === 'gap',
             label: cell.getAttribute('aria-label'),
             text: [...cell.childNodes].filter(node => node.nodeType === 3)
               .map(node => node.data).join('')}))"""
    )
    return found


def test_a_text(page: Any) -> None:
    tok = gristmill.Tokenizer("o200k_base")
    text = "Hello, wörld!\n  two  three<|endoftext|>"
    paste(page, text)
    ids = tok.encode(text, special="parse")
    assert text_of(page, "count") == str(len(ids))
    assert text_of(page, "characters") == str(len(text))
    assert text_of(page, "bytes") == str(len(text.encode()))
    cells = tokens_of(page)
    assert "".join(cell["text"] for cell in cells) == text
    assert [int(cell["label"].rpartition(" ")[2]) for cell in cells] == ids
    choose(page, "view", "ids")
    assert json.loads(text_of(page, "id-list")) == ids
    choose(page, "view", "table")
    rows = page.execute_script(
        "return [...document.querySelectorAll('#rows tr')].map("
        "row => [...row.cells].map(cell => cell.textContent))"
    )
    assert [int(row[1]) for row in rows] == ids
    assert rows[0][3] == "48 65 6C 6C 6F"
    assert rows[0][4] == "0–5"
    choose(page, "view", "text")
    page.find_element("id", "parse").click()
    settle(page)
    assert text_of(page, "count") == str(len(tok.encode(text)))
    page.find_element("id", "parse").click()
    settle(page)


def test_tokenizers_side_by_side(page: Any, service: Served) -> None:
    text = "水車は小麦を挽く。"
    paste(page, text)
    rows = page.execute_script(
        "return [...document.querySelectorAll('#counts tr')].map("
        "row => [...row.cells].slice(0, 3).map(cell => cell.textContent))"
    )
    for (name, _, count), expected in zip(rows, ("o200k_base", "gpt2", "chatty"), strict=True):
        assert name == expected
        assert int(count) == service.post("/count", model=name, prompt=text)["count"]
    page.find_element("xpath", "//tbody[@id='counts']//button[.='gpt2']").click()
    settle(page)
    assert page.execute_script("return document.getElementById('tokenizer').value") == "gpt2"
    assert text_of(page, "count") == str(service.post("/count", model="gpt2", prompt=text)["count"])
    page.execute_script(
        "const box = document.getElementById('tokenizer'); box.value = 'o200k_base';"
        "document.body.dataset.busy = 'true'; box.dispatchEvent(new Event('change'))"
    )
    settle(page)


def test_a_chat(page: Any, service: Served) -> None:
    choose(page, "kind", "chat")
    settle(page)
    assert "no chat template" in page.find_element("id", "problem").text
    page.find_element("xpath", "//tbody[@id='counts']//button[.='chatty']").click()
    page.find_element("id", "example").click()
    settle(page)
    time.sleep(0.3)
    settle(page)
    assert not page.find_element("id", "problem").is_displayed()
    shown = "".join(cell["text"] for cell in tokens_of(page))
    assert shown.startswith("<|system|>Answer in one sentence.\n<|user|>How does")
    page.find_element("id", "add-message").click()
    assert page.switch_to.active_element.tag_name == "textarea"
    page.switch_to.active_element.send_keys("Slowly.")
    deadline = time.monotonic() + 10
    while "Slowly." not in "".join(cell["text"] for cell in tokens_of(page)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shown = "".join(cell["text"] for cell in tokens_of(page))
    assert shown.endswith("<|assistant|>Slowly.\n")
    choose(page, "kind", "text")
    page.find_element("xpath", "//tbody[@id='counts']//button[.='o200k_base']").click()
    settle(page)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(page: Any, name: str) -> None:
    """They are shown as text, whole: what cannot be seen has a mark, and nothing runs."""
    text = HOSTILE[name]
    paste(page, text)
    assert page.title == "Gristmill playground"
    assert (
        page.execute_script(
            "return document.querySelectorAll('#tokens img, #tokens script').length"
        )
        == 0
    )
    # A field's value has no carriage returns, and no halves of pairs are sent.
    value = text.replace("\r\n", "\n").replace("\ud800", "\ufffd")
    tok = gristmill.Tokenizer("o200k_base")
    assert text_of(page, "count") == str(len(tok.encode(value, special="parse")))
    # All characters are there, or a mark for each.
    shown = page.execute_script("return document.getElementById('tokens').textContent")
    for char in value:
        code = f"[U+{ord(char):04X}]"
        picture = chr(0x2400 + ord(char)) if ord(char) < 0x20 else "␡"
        assert any(form in shown for form in (char, code, picture)), (char, shown)
    for char in "\u202e\x00\x1b\u2028":
        assert char not in shown


def test_large_texts(page: Any) -> None:
    """100 KB are counted whole, shown in part, and the page goes on to answer."""
    text = "The quick brown fox " * 5000
    began = time.monotonic()
    paste(page, text)
    assert time.monotonic() - began < 10
    assert text_of(page, "count") == "20,001"
    assert page.find_element("id", "more").is_displayed()
    assert len(tokens_of(page)) == 4000
    page.find_element("id", "more").click()
    deadline = time.monotonic() + 20
    while len(tokens_of(page)) != 16_000:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    paste(page, "short")
    assert text_of(page, "count") == "1"
    assert not page.find_element("id", "more").is_displayed()


def test_the_keyboard(page: Any) -> None:
    """Arrow keys move through the tokens; what is said is the token, its id, bytes and place."""
    from selenium.webdriver.common.keys import Keys

    paste(page, "one two 🦙")
    tokens = page.find_element("id", "tokens")
    tokens.click()
    tokens.send_keys(Keys.HOME)
    assert tokens.get_attribute("aria-activedescendant") == "t0"
    tokens.send_keys(Keys.ARROW_RIGHT)
    details = page.find_element("id", "details").text
    assert "1920" in details or str(gristmill.Tokenizer("o200k_base").encode(" two")[0]) in details
    assert "20 74 77 6F" in details
    assert "characters 3 to 7" in details
    tokens.send_keys(Keys.END)
    last = page.find_element("id", tokens.get_attribute("aria-activedescendant"))
    assert last.get_attribute("aria-selected") == "true"
    # A llama is more than one token: all of them are told.
    ids = gristmill.Tokenizer("o200k_base").encode("one two 🦙")[2:]
    details = page.find_element("id", "details").text
    assert all(str(id) in details for id in ids)
    tokens.send_keys(Keys.ESCAPE)
    assert tokens.get_attribute("aria-activedescendant") is None
    # Everything can be reached by the tabulator, and is named.
    page.execute_script("document.body.focus(); document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        page.switch_to.active_element.send_keys(Keys.TAB)
        active = page.switch_to.active_element
        reached.add(active.get_attribute("id") or active.get_attribute("name") or active.text)
    assert {
        "theme",
        "tokenizer",
        "kind",
        "text",
        "parse",
        "add",
        "clear",
        "view",
        "tokens",
    } <= reached


def test_names_for_screen_readers(page: Any) -> None:
    """Every control has a name in the accessibility tree."""
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = {"button", "textbox", "checkbox", "radio", "combobox", "listbox", "option", "link"}
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node.get("ignored")
        and node.get("role", {}).get("value") in controls
        and not node.get("name", {}).get("value")
    ]
    assert nameless == []
    headings = [
        node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "heading"
    ]
    assert headings == ["Gristmill playground", "Input", "Tokens", "Side by side"]


def test_pointing(page: Any) -> None:
    from selenium.webdriver import ActionChains

    paste(page, "one two")
    ActionChains(page).move_to_element(page.find_element("id", "t1")).perform()
    details = page.find_element("id", "details").text
    assert "characters 3 to 7" in details


def luminance(color: str) -> float:
    """Of a colour as the browser computes it: rgb(1, 2, 3)."""
    parts = [float(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_looks(service: Served, open_browser: Callable[..., Any], scheme: str, width: int) -> None:
    """Contrast is enough (WCAG AA) in both themes, and nothing is wider than the window."""
    browser = open_browser(width, 900, scheme)
    browser.get(service.url)
    settle(browser)
    assert browser.execute_script("return document.documentElement.dataset.theme") == scheme
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    pairs = browser.execute_script(
        """const names = 'h1, h2, label, button, dt, dd, #tokens > span';
           const shown = [...document.querySelectorAll(names)];
           const behind = (node) => {
             for (; node; node = node.parentElement) {
               const color = getComputedStyle(node).backgroundColor;
               if (!color.startsWith('rgba')) return color;
             }
             return getComputedStyle(document.body).backgroundColor;
           };
           return shown.filter(node => node.offsetParent && node.textContent.trim()).map(node =>
             [getComputedStyle(node).color, behind(node), node.textContent.slice(0, 20)])"""
    )
    assert len(pairs) > 30
    for ink, paper, text in pairs:
        light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ink, paper)
    browser.find_element("id", "theme").click()
    assert browser.execute_script("return document.documentElement.dataset.theme") == "light"
