"""The Dagster UI as a person sees it, in a real browser without a window."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.orchestration.conftest import DAYS, PATIENCE_S, Resumed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path"),
]


class Page:
    """One page of a browser, driven over the DevTools protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._sent = socket, 0

    def _call(self, method: str, **params: Any) -> Any:
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if answer.get("id") == self._sent:
                return answer["result"]

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        return self._call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    @property
    def text(self) -> str:
        return str(self.evaluate("document.body?.innerText ?? ''"))

    def wait_for(self, shows: Callable[[str], bool]) -> str:
        """Its text once it shows what is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while not shows(text := self.text):
            assert time.monotonic() < deadline, text
            time.sleep(0.2)
        return text


@pytest.fixture(scope="module")
def ui(resumed: Resumed) -> Iterator[str]:
    """Address of the UI over a day whose proof was spoilt: the candidate lost every task."""
    checkout = resumed.checkout
    with checkout.pipeline.warehouse.connect() as connection:
        connection.execute("UPDATE prove.trials SET passed = false WHERE arm = 'after'")
    command = "dagster asset materialize -m while_pipeline.definitions --select prove/delta,prove/looks"
    subprocess.run(
        [sys.executable, "-m", *command.split(), "--partition", DAYS[0]],
        cwd=checkout.root,
        env=checkout.environment(DAGSTER_HOME=str(checkout.pipeline.data / "dagster")),
        capture_output=True,
        check=True,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = checkout.start("ui", "--port", str(port))
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(f"{address}/server_info", server)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE_S)


def _wait_until_it_answers(url: str, server: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the UI ended by itself"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError(f"{url} does not answer")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    profile: Path = tmp_path_factory.mktemp("chromium")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    flags += "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-port=0"
    command = [str(CHROMIUM), *flags.split(), f"--user-data-dir={profile}", "--window-size=1400,1400"]
    with subprocess.Popen([*command, "about:blank"], stderr=subprocess.PIPE, text=True) as browser:
        assert browser.stderr is not None
        try:
            said = (re.search(r"listening on ws://([^/]+)/", line) for line in browser.stderr)
            host = next(found[1] for found in said if found)
            with urllib.request.urlopen(f"http://{host}/json") as answer:
                targets = json.load(answer)
            address = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            with connect(address, max_size=None) as devtools:
                yield Page(devtools)
        finally:
            browser.kill()


def test_the_lineage_page_shows_the_five_words_and_nothing_else(page: Page, ui: str) -> None:
    page.open(f"{ui}/asset-groups")
    page.wait_for(lambda text: text.count("prove") >= 3)
    drawn = page.evaluate(
        """[...document.querySelectorAll("[class*=collapsedGroupNodeBox]")].map(e => e.innerText)"""
    )
    assert sorted(drawn) == ["grade", "prove", "simulate", "train", "watch"]


def test_a_table_page_shows_columns_row_count_preview_and_parents(
    page: Page, ui: str, resumed: Resumed
) -> None:
    page.open(f"{ui}/assets/train/sft")
    shown = ("One row is a conversation to imitate", "partition_row_count", "[Show Markdown]", "scenario_id")
    text = page.wait_for(lambda text: all(part in text for part in shown))
    held = resumed.checkout.pipeline.warehouse.query("SELECT count(*) FROM train.sft").item()
    assert re.search(rf"partition_row_count\s.*?\n\s*{held}\n", text, re.DOTALL)
    assert all(part in text for part in ("VARCHAR", "non-nullable", "Messages, system message first"))
    _show_last_markdown(page)
    page.wait_for(lambda text: "scenario_id\ttask_id\tsplit" in text)


def test_the_delta_page_shows_the_answer_and_the_picture(page: Page, ui: str) -> None:
    page.open(f"{ui}/assets/prove/delta")
    page.wait_for(lambda text: "report_file" in text)
    _show_last_markdown(page)
    page.wait_for(lambda text: "The candidate is worse: it passes 0 of 100 attempts" in text)
    widths = page.evaluate("""[...document.querySelectorAll("img")].map(e => e.naturalWidth)""")
    assert max(widths) > 500


def test_a_failed_check_is_red_and_a_passed_one_is_not(page: Page, ui: str) -> None:
    page.open(f"{ui}/assets/prove/delta?view=checks&checkDetail=nothing_got_worse")
    page.wait_for(lambda text: re.search(r"nothing_got_worse\s+Failed", text) is not None)
    red, green, blue = _tag_colour(page, "Failed")
    assert red > 2 * max(green, blue)
    page.open(f"{ui}/assets/prove/delta?view=checks&checkDetail=as_declared")
    page.wait_for(lambda text: "Latest execution" in text and "Passed" in text)
    red, green, blue = _tag_colour(page, "Passed")
    assert green > max(red, blue)


def _show_last_markdown(page: Page) -> None:
    page.evaluate(
        """[...document.querySelectorAll("*")].filter(e => e.innerText === "[Show Markdown]").pop().click()"""
    )


def _tag_colour(page: Page, word: str) -> tuple[int, int, int]:
    """Red, green and blue of the tag that holds a word."""
    style = page.evaluate(
        f"""getComputedStyle([...document.querySelectorAll("[class*=BaseTag_baseTag]")]
        .find(e => e.innerText === "{word}")).color"""
    )
    red, green, blue = map(int, re.findall(r"\d+", style)[:3])
    return red, green, blue
