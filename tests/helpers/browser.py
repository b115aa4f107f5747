"""The web application as its users have it: a process, and Chromium that opens its link."""

import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / ".node.full" / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
# It is not the browser's business here to call home.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PICTURE_ROWS = 500
MAX_PICTURE = 150_000


@contextlib.contextmanager
def run_application(home: Path) -> Iterator[str]:
    """Run `open-token web` on the sessions of a home; yield its link."""
    command = [sys.executable, "-P", "-m", "open_token", "--json", "web", "--no-open"]
    env = os.environ | {"HOME": str(home), "OPEN_TOKEN_HOME": str(home / "open-token")}
    env["PYTHONPATH"] = str(ROOT / "src")
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd=home,
    )
    with process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["link"]
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def start_browser() -> Iterator[Any]:
    """Start Chromium; skip the test where it, or what drives it, is not installed."""
    driver = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def compress_picture(png: bytes) -> bytes:
    """Compress a PNG as far as zlib can: the browser cares about speed instead."""
    parts: list[tuple[bytes, bytes]] = []
    place = 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        parts.append((png[place + 4 : place + 8], png[place + 8 : place + 8 + length]))
        place += 12 + length
    pixels = zlib.decompress(b"".join(data for name, data in parts if name == b"IDAT"))
    others = [part for part in parts if part[0] != b"IDAT"]
    others.insert(-1, (b"IDAT", zlib.compress(pixels, 9)))
    written = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in others
    ]
    return png[:8] + b"".join(written)


class Window:
    """A page of the browser, and everything that went wrong in it."""

    def __init__(self, browser: Any, link: str, size: dict[str, int], theme: str = "light") -> None:
        self.origin = link.partition("/enter")[0]
        self.context = browser.new_context(viewport=size, color_scheme=theme)
        self.problems: list[str] = []
        self.foreign: list[str] = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", self._take_message)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self.take_dialog)
        self.page.on("request", self._take_request)
        self.page.goto(link)

    def _take_message(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def take_dialog(self, dialog: Any) -> None:
        """Dismiss a dialog: only a script of a session would open one."""
        self.problems.append(f"a script of a session ran: {dialog.message}")
        dialog.dismiss()

    def _take_request(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:", "about:")):
            self.foreign.append(request.url)

    @property
    def frame(self) -> Any:
        """The page of the session that is open."""
        self.page.wait_for_selector("iframe.page")
        return self.page.frame_locator("iframe.page")

    def open(self, path: str) -> None:
        """Go to an address of the application."""
        self.page.goto(self.origin + path)

    def wait_until(self, expression: str) -> None:
        """Wait until an expression is true; what the driver has for this needs `eval`, which the
        policy of the application forbids."""
        for _ in range(600):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"it did not become true: {expression}")

    def check(self) -> None:
        """Nothing failed, and nothing was asked of anybody else."""
        assert self.problems == [], self.problems
        assert self.foreign == []

    def take_picture(self, name: str, folder: Path, rows: int = PICTURE_ROWS) -> None:
        """Take a picture for the documentation."""
        path = folder / f"{name}.png"
        size = self.page.viewport_size
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], rows)}
        if size["width"] < size["height"]:
            clip["height"] = size["height"]
        path.write_bytes(compress_picture(self.page.screenshot(clip=clip)))
        assert path.stat().st_size < MAX_PICTURE

    def find_accessibility_faults(self) -> list[str]:
        """Return the serious findings of axe-core, in the application and in the page it shows."""
        if not AXE.exists():
            pytest.skip("axe-core is not installed")
        source = AXE.read_text(encoding="utf-8")
        faults = []
        for frame in self.page.frames:
            frame.evaluate(source)
            found = frame.evaluate("axe.run(document, { iframes: false })")
            for item in found["violations"]:
                if item["impact"] in ("serious", "critical"):
                    places = [node["html"][:160] for node in item["nodes"][:3]]
                    faults.append(f"{item['id']}: {places}")
        return faults
