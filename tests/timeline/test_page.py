"""Tests the content and the controls of the page of timelines, in a headless Chromium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from rammer_mlir.timeline.files import write_timelines
from rammer_mlir.timeline.page import page as render
from rammer_mlir.timeline.spans import Span, Timeline

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine; install one to test the page"
)

HOSTILE = "a/</script><script>document.title='broken'</script>&amp;<b>"


def timelines() -> list[Timeline]:
    """Return the timelines of two runs on two vEUs: of 100 us with a wait, and of 50 us."""
    us = 1e-6
    slow = Timeline(
        "slow",
        (
            (
                Span(0, 0, 40 * us, "rtask", HOSTILE, "conv_k", 0, 4),
                Span(0, 40 * us, 100 * us, "rtask", "pool", "pool_k", 2, 1),
            ),
            (
                Span(1, 0, 20 * us, "barrier", "barrier", waits=((0, 2),)),
                Span(1, 20 * us, 60 * us, "rtask", "relu", "relu_k", 0, 2),
            ),
        ),
    )
    lane = (Span(0, 0, 50 * us, "rtask", "pool", "pool_k", 0, 3),)
    return [slow, Timeline("fast", (lane, ()))]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a sandbox, which containers do not allow for the root user."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The opened page of the two timelines.

    The browser must not report an error, nor request anything but the page.
    """
    path = tmp_path / "timeline.html"
    write_timelines(path, timelines())
    opened = browser.new_page(viewport={"width": 1058, "height": 700})
    complaints: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(path.as_uri())
    opened.wait_for_selector("body[data-ready=yes]")
    yield opened
    assert complaints == []
    assert requests == [path.as_uri()]
    opened.close()


def chart(page: Page, number: int) -> Locator:
    return page.locator("canvas.chart").nth(number)


def hover(page: Page, number: int, veu: int, share: float) -> str:
    """Move the pointer to the row of a vEU in chart ``number``; return the text beside the pointer.

    ``share`` is the position along the time axis, from 0 to 1. The text is empty if none is shown.
    """
    box = chart(page, number).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 58 + share * (box["width"] - 58), box["y"] + veu * 22 + 10)
    tip = page.locator("#tip")
    return tip.inner_text() if tip.is_visible() else ""


def pixels(page: Page, number: int) -> str:
    """Return the image of a chart as a data URL, after the browser has drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return chart(page, number).evaluate("canvas => canvas.toDataURL()")


@needs_browser
def test_the_table_compares_the_runs(page: Page) -> None:
    rows = [row.split("\t") for row in page.locator("#summary tbody tr").all_inner_texts()]
    assert rows == [
        ["slow", "100.0 µs", "2.00 x", "70.0 %", "10.0 %", "20.0 %", "7", "1", "100.0 %"],
        ["fast", "50.00 µs", "1.00 x", "50.0 %", "0.0 %", "50.0 %", "3", "0", "100.0 %"],
    ]
    assert page.locator("h2").all_inner_texts() == ["slow", "fast"]


@needs_browser
def test_names_are_text(page: Page) -> None:
    """A node's name with HTML in it is shown as text."""
    assert page.title() == "rProgram timelines"
    assert hover(page, 0, 0, 0.2).startswith(HOSTILE)


@needs_browser
def test_hovering_tells_what_a_veu_did(page: Page) -> None:
    assert hover(page, 0, 0, 0.2).splitlines()[1:] == [
        "rTasks 0-3, 10.00 µs each",
        "rKernel conv_k",
        "vEU 0, 40.00 µs from 0.000 µs to 40.00 µs",
    ]
    assert hover(page, 0, 0, 0.7).splitlines()[:3] == ["pool", "rTask 2", "rKernel pool_k"]
    assert hover(page, 0, 1, 0.1).splitlines() == [
        "barrier until vEU 0 has completed 2 rTasks",
        "vEU 1, 20.00 µs from 0.000 µs to 20.00 µs",
    ]
    assert hover(page, 0, 1, 0.8) == ""
    # Both charts have one time axis.
    assert hover(page, 1, 0, 0.4).startswith("pool")
    assert hover(page, 1, 0, 0.6) == ""


@needs_browser
def test_the_wheel_zooms_and_dragging_moves(page: Page) -> None:
    whole = pixels(page, 1)
    assert hover(page, 1, 0, 0.45).startswith("pool")
    page.mouse.wheel(0, -1000)
    assert pixels(page, 1) != whole
    # Around the pointer, at 45 us: the left end of the axis is now at about 41 us.
    assert hover(page, 0, 0, 0.0).startswith("pool")
    assert hover(page, 0, 0, 1.0 - 1e-3).startswith("pool")
    page.mouse.down()
    box = chart(page, 0).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 58, box["y"] + 10, steps=4)
    page.mouse.up()
    assert hover(page, 1, 0, 0.2) == ""
    page.get_by_role("button", name="whole run").click()
    assert hover(page, 0, 0, 0.2).startswith(HOSTILE)
    assert pixels(page, 1) == whole


@needs_browser
def test_the_critical_path_can_be_hidden(page: Page) -> None:
    shown = pixels(page, 0)
    page.get_by_label("critical path").uncheck()
    hidden = pixels(page, 0)
    page.get_by_label("critical path").check()
    assert hidden != shown == pixels(page, 0)


@needs_browser
def test_searching_marks_rkernels_and_roperators(page: Page) -> None:
    plain = pixels(page, 0)
    page.locator("#search").fill("Pool")
    assert page.locator("#found").inner_text() == "2 found"
    assert pixels(page, 0) != plain
    page.locator("#search").fill("conv_k")
    assert page.locator("#found").inner_text() == "1 found"
    page.locator("#search").fill("")
    assert pixels(page, 0) == plain


def test_the_page_holds_all_it_needs() -> None:
    text = render(timelines()).decode()
    assert not re.search(r"(src|href)\s*=|https?:|@import|url\(", text)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert data is not None
    slow, fast = json.loads(data[1])
    assert slow["names"][0] == HOSTILE
    assert (slow["microseconds"], fast["microseconds"]) == (pytest.approx(100), pytest.approx(50))
    assert slow["path"][0] == [0, 0, 0.0, pytest.approx(40)]
