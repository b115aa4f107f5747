"""The search index, `stats` and the web application on thousands of sessions, beside agentsview.

    python bench/web.py [FOLDER] [COUNT] [AGENTSVIEW]

Sessions are pieces of real ones from ../shared/corpus with fresh words and ids, and one has 10,000
records. They are made in FOLDER, unless they are there. AGENTSVIEW is the command of agentsview
(from the package index), if it is to be measured on the same files. First paints need Chromium and
playwright.
"""

import contextlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from open_token.library.places import path_to_text
from open_token.web.workspace import compute_key
from session import fresh_session

POOL_BYTES = 24_000_000
LONG_EVENTS = 10_000
QUERIES = 200
ROUNDS = 3
FOLDER = Path(".claude/projects/-home-sam-bench")
_WORD = re.compile(rb"\b[a-z]{4,12}\b")


def write_sessions(home: Path, count: int) -> tuple[int, list[str]]:
    """Write the sessions; return how many bytes they have, and words that occur in them."""
    chance = random.Random(5)
    pool = [json.loads(line) for line in fresh_session(POOL_BYTES)]
    pool = [record for record in pool if record.get("type") in ("user", "assistant")]
    (home / FOLDER).mkdir(parents=True)
    total = 0
    words: dict[str, None] = {}
    for number in range(count):
        start = chance.randrange(len(pool) - 16)
        records = pool[start : start + chance.randrange(3, 16)]
        length = LONG_EVENTS if number == 0 else len(records)
        while len(records) < length:
            records = records + pool[: length - len(records)]
        data = b"".join(_renew(records, number, chance))
        for word in chance.sample(_WORD.findall(data[:100_000]) or [b"tide"], 1):
            words[word.decode()] = None
        path = home / FOLDER / f"{uuid.UUID(int=number << 96)}.jsonl"
        path.write_bytes(data)
        os.utime(path, (1_790_000_000 + number, 1_790_000_000 + number))
        total += len(data)
    return total, list(words)[:QUERIES]


def _renew(records: list[Any], number: int, chance: random.Random) -> Iterator[bytes]:
    """Yield lines of one session: ids, folder and times of its own."""
    name = str(uuid.UUID(int=number << 96))
    parent = None
    prompt = {"role": "user", "content": f"Task {number}: look at part {chance.randrange(99)}"}
    first = {**records[0], "type": "user", "message": prompt}
    first.pop("toolUseResult", None)
    for place, record in enumerate([first, *records]):
        record_id = str(uuid.UUID(int=(number << 96) + place + 1))
        moment = time.strftime(
            "%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_790_000_000 + number * 60 + place)
        )
        fresh = {
            **record,
            "sessionId": name,
            "uuid": record_id,
            "parentUuid": parent,
            "cwd": f"/home/sam/project{number % 40}",
            "timestamp": moment,
            "isSidechain": False,
        }
        parent = record_id
        yield json.dumps(fresh, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def append_message(home: Path, number: int) -> None:
    """Let one session grow."""
    path = home / FOLDER / f"{uuid.UUID(int=number << 96)}.jsonl"
    last = json.loads(path.read_bytes().splitlines()[-1])
    message = {"role": "user", "content": "one more question about the tides"}
    record = {**last, "type": "user", "message": message, "parentUuid": last["uuid"]}
    record |= {"uuid": str(uuid.uuid4()), "timestamp": "2026-12-30T10:00:00.000Z"}
    record.pop("toolUseResult", None)
    with path.open("ab") as out:
        out.write(json.dumps(record).encode() + b"\n")


class Tool:
    """A tool as its users call it, on the sessions of one home."""

    name = ""
    session_row = ""
    """What the list of sessions shows of each."""
    long_row = ""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "HOME": str(home)}

    def run(self, *command: str) -> bytes:
        """Run a command to its end."""
        done = subprocess.run(
            command, env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return done.stdout

    def update(self) -> None:
        """Bring the index up to date."""
        raise NotImplementedError

    def count(self) -> None:
        """Add up what was used, over all sessions."""
        raise NotImplementedError

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        """Run the application; yield the address with which a browser begins."""
        raise NotImplementedError

    def get_search_path(self, word: str) -> str:
        """Return the path of a search."""
        raise NotImplementedError

    def get_long_path(self) -> str:
        """Return the path of the longest session."""
        raise NotImplementedError


class OpenToken(Tool):
    """This project."""

    name = "open-token"
    session_row = "a.session"
    long_row = "iframe.page"

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.env["OPEN_TOKEN_HOME"] = str(home / "open-token")
        self._command = (sys.executable, "-P", "-m", "open_token", "--quiet", "--json")

    def update(self) -> None:
        self.run(*self._command, "index")

    def count(self) -> None:
        self.run(*self._command, "stats", "--by", "day", "--no-update")

    def describe_index(self) -> Any:
        """Return the size of the index and of its text."""
        return json.loads(self.run(*self._command, "index", "--status"))

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        command = [*self._command, "web", "--no-open", "--port", "0"]
        with subprocess.Popen(
            command, env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["link"]
            process.terminate()

    def get_search_path(self, word: str) -> str:
        return f"/web/search?q={urllib.parse.quote(word)}"

    def get_long_path(self) -> str:
        path = self.home / FOLDER / f"{uuid.UUID(int=0)}.jsonl"
        return f"/sessions/{compute_key(path_to_text(path), '')}"


class AgentsView(Tool):
    """agentsview, with its data below the same home."""

    name = "agentsview"
    session_row = ".session-row"
    long_row = ".message"

    def __init__(self, home: Path, command: str) -> None:
        super().__init__(home)
        self._command = command
        self.env |= {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_DATA_DIR": str(home / "agentsview")}

    def update(self) -> None:
        self.run(self._command, "sync")

    def count(self) -> None:
        self.run(self._command, "usage", "daily", "--json")

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        command = [self._command, "serve", "--no-browser", "--no-sync", "--no-update-check"]
        with subprocess.Popen(
            [*command, "--port", "18080"],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            address = "http://127.0.0.1:18080"
            for _ in range(300):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(address).close()
                    break
                time.sleep(0.1)
            yield address
            process.terminate()

    def get_search_path(self, word: str) -> str:
        return f"/api/v1/search?q={urllib.parse.quote(word)}"

    def get_long_path(self) -> str:
        return f"/sessions/{uuid.UUID(int=0)}"


def measure(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that an action took, and those of processors in its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    action()
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_commands(tool: Tool, home: Path, size: int) -> None:
    """Measure what a terminal shows."""
    wall, cpu = measure(tool.update)
    describe(
        f"{tool.name}: build",
        f"{wall:7.1f} s, {cpu:6.1f} s of CPU, {size / 1e6 / cpu:5.1f} MB/s of CPU",
    )
    for _ in range(ROUNDS):
        append_message(home, 7)
        wall, cpu = measure(tool.update)
        describe(f"{tool.name}: update of one session", f"{wall:7.2f} s, {cpu:6.2f} s of CPU")
    for _ in range(ROUNDS):
        wall, cpu = measure(tool.count)
        describe(f"{tool.name}: usage of all sessions", f"{wall:7.2f} s, {cpu:6.2f} s of CPU")


def measure_application(tool: Tool, words: list[str]) -> None:
    """Measure searches, and when a browser shows the list and the longest session."""
    from playwright.sync_api import sync_playwright

    with tool.serve() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        origin = link.partition("/enter")[0]
        page.goto(link)
        page.wait_for_selector(tool.session_row, timeout=120_000)
        page.wait_for_timeout(5_000)
        for name, path, row in (
            ("list of sessions", "/", tool.session_row),
            ("session of 10,000 records", tool.get_long_path(), tool.long_row),
        ):
            for _ in range(ROUNDS):
                page.goto("about:blank")
                started = time.perf_counter()
                page.goto(origin + path, wait_until="commit")
                page.wait_for_selector(row, timeout=120_000)
                if row == "iframe.page":
                    page.frame_locator(row).locator(".row, .ev").first.wait_for(timeout=120_000)
                describe(
                    f"{tool.name}: {name}",
                    f"{time.perf_counter() - started:7.2f} s to its first row",
                )
        headers = {
            "Cookie": "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
        }
        times: list[float] = []
        found = 0
        for word in words:
            request = urllib.request.Request(origin + tool.get_search_path(word), headers=headers)
            started = time.perf_counter()
            with urllib.request.urlopen(request) as answer:
                found += len(answer.read()) > 200
            times.append(time.perf_counter() - started)
        times.sort()
        p50, p95 = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.95))
        describe(
            f"{tool.name}: {len(times)} searches, {found} with hits",
            f"p50 {p50:.1f} ms, p95 {p95:.1f} ms",
        )
        browser.close()


def describe(name: str, text: str) -> None:
    print(f"  {name:52} {text}", flush=True)


def main() -> None:
    default = Path(__file__).parent / "out" / "web"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    facts = folder / "facts.json"
    if not facts.exists():
        facts.write_text(json.dumps(write_sessions(home, count)))
    size, words = json.loads(facts.read_text())
    tools: list[Tool] = [OpenToken(home)]
    if len(sys.argv) > 3:
        tools.append(AgentsView(home, sys.argv[3]))
    print(f"  {count:,} sessions, {size / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}", flush=True)
    for tool in tools:
        measure_commands(tool, home, size)
    status = OpenToken(home).describe_index()
    share = status["bytes"] / status["characters"]
    describe("open-token: index", f"{status['bytes'] / 1e6:.0f} MB, {share:.0%} of its text")
    for tool in tools:
        measure_application(tool, words)


if __name__ == "__main__":
    main()
