"""Redaction: recall, false alarms and MB/s of ours and of every other scanner that is installed, in
one run.

    bench/anchors.sh; python bench/redaction.py [MEGABYTES]

Recall counts labelled spans of which four fifths are gone, or found; a false alarm is a clean text
with any finding. Speed: CPU seconds, the best of three; whole commands, ours and another's in turn,
by the clock and in CPU seconds, with start-up. Growth: time for twice the text over time for it,
the worst of all rules. All of it takes 20 minutes at most."""

import ctypes
import gzip
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from export import OPEN_TOKEN, OURS, timed

import session
from open_token.redaction.detector import Detector
from open_token.redaction.ruleset import Rule, load_rules

SET = Path(__file__).parents[2] / "shared" / "corpus" / "redaction"
ANCHORS = Path(__file__).parent / "out" / "anchors" / "bin"
CLEAN = ("clean_real", "clean_rulefp", "clean_prose")
LARGEST, FURTHER, PROBE = 10_000_000, 80_000_000, 20_000
SHORT, LONG = 1.0, 8.0
"""Seconds that a rule, and that all rules together, may take for the longest text of theirs."""
LIMIT, AGAIN = 2.2, 3
NOISE = 0.02
"""What takes less, in seconds, tells nothing of growth: such a text is made longer than the
largest."""
MINUTES = 18
"""After so many no further rule is measured."""
LONGEST_SESSION = session.CORPUS / "cca_v0.2.105_first2.3MB.jsonl"
TOGETHER = ("secret secret ", "Dr. Aa ")
Found = Callable[[list[str]], list[list[str]]]
SCRIPTS = {
    "detect-secrets, a file each": """
import json, sys, tempfile
from detect_secrets import SecretsCollection
from detect_secrets.settings import default_settings
found = []
with default_settings(), tempfile.TemporaryDirectory() as folder:
    for number, text in enumerate(json.load(sys.stdin)):
        path = f"{folder}/{number}.txt"
        open(path, "w").write(text)
        secrets = SecretsCollection()
        secrets.scan_file(path)
        found.append([secret.secret_value for _, secret in secrets if secret.secret_value])
json.dump(found, sys.stdout)
""",
    "scrubadub": """
import json, sys, scrubadub
scrubber = scrubadub.Scrubber()
json.dump([[item.text for item in scrubber.iter_filth(text)] for text in json.load(sys.stdin)], sys.stdout)
""",
    "datafog": """
import json, sys
from datafog.processing.text_processing.regex_annotator import RegexAnnotator
found = [RegexAnnotator().annotate(text) for text in json.load(sys.stdin)]
json.dump([[item for items in kinds.values() for item in items] for kinds in found], sys.stdout)
""",
}


def rows_of(name: str) -> list[dict[str, Any]]:
    with gzip.open(SET / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def is_kept_back(row: dict[str, Any]) -> bool:
    """One provider in five is no part of what the rules were made with."""
    return int(hashlib.sha256(row["provider"].encode()).hexdigest(), 16) % 5 == 0


def ours(level: str) -> Found:
    detector = Detector(load_rules(level), engine="hyperscan")

    def find(texts: list[str]) -> list[list[str]]:
        found: list[list[str]] = [[] for _ in texts]
        for number, items in detector.find(texts):
            raw = texts[number].encode("utf-8", "surrogatepass")
            found[number] = [
                raw[item.start : item.end].decode("utf-8", "replace") for item in items
            ]
        return found

    return find


def by_script(code: str) -> Found:
    def find(texts: list[str]) -> list[list[str]]:
        words = [str(ANCHORS / "python"), "-c", code]
        run = subprocess.run(
            words, input=json.dumps(texts), capture_output=True, text=True, check=True
        )
        answer: list[list[str]] = json.loads(run.stdout[run.stdout.index("[") :])
        return answer

    return find


def report_of(printed: str) -> dict[str, Any]:
    """What kingfisher tells first; a summary stands behind it."""
    report: dict[str, Any] = json.JSONDecoder().raw_decode(printed)[0]
    return report


def by_kingfisher(texts: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in texts]
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number}.txt").write_text(text)
        words = "--no-validate --no-update-check --no-dedup --format json -c low -j 1".split()
        run = subprocess.run(
            [str(ANCHORS / "kingfisher"), "scan", folder, *words], capture_output=True, text=True
        )
        for item in report_of(run.stdout)["findings"]:
            found[int(Path(item["finding"]["path"]).stem)].append(item["finding"]["snippet"])
    return found


def tools() -> Iterator[tuple[str, Found, Found | None]]:
    """The name of each scanner, what finds secrets, and what finds personal data."""
    yield "ours", ours("secrets"), ours("pii")
    if (ANCHORS / "kingfisher").exists():
        yield "kingfisher 2.14.0, -c low", by_kingfisher, None
    else:
        print("  kingfisher is not installed: skipped")
    for name, code in SCRIPTS.items():
        package = name.split(",")[0].replace("-", "_")
        probe = [str(ANCHORS / "python"), "-c", f"import {package}"]
        if (
            not (ANCHORS / "python").exists()
            or subprocess.run(probe, capture_output=True).returncode
        ):
            print(f"  {package} is not installed: skipped")
            continue
        find = by_script(code)
        yield name, find, None if package == "detect_secrets" else find


def is_covered(text: str, start: int, end: int, values: list[str]) -> bool:
    """Whether four fifths of a span lie in what was found."""
    covered: set[int] = set()
    for value in values:
        place = text.find(value) if value else -1
        while place >= 0:
            covered.update(range(max(start, place), min(end, place + len(value))))
            place = text.find(value, place + 1)
    return len(covered) >= 0.8 * (end - start)


def found_in(find: Found, rows: list[dict[str, Any]]) -> list[list[str]]:
    return find([row["text"] for row in rows])


def recall(found: list[list[str]], rows: list[dict[str, Any]], kind: str = "") -> str:
    spans = [
        is_covered(row["text"], span["start"], span["end"], values)
        for row, values in zip(rows, found, strict=True)
        for span in row.get("spans") or []
        if span["type"].lower() == kind or not kind
    ]
    return f"{100 * sum(spans) / len(spans):5.1f}"


def alarms(find: Found, name: str) -> str:
    texts = [row["text"] for row in rows_of(name)]
    return f"{100 * sum(map(bool, find(texts))) / len(texts):5.1f}"


def score() -> None:
    secrets, personal = rows_of("secret"), rows_of("pii")
    kept_back = list(filter(is_kept_back, secrets))
    kinds = ("email", "phone", "credit_card", "iban", "ip", "us_ssn", "address", "person")
    for name, find, find_personal in tools():
        told = " ".join(f"{clean} {alarms(find, clean)}" for clean in CLEAN)
        found, of_kept_back = found_in(find, secrets), found_in(find, kept_back)
        print(
            f"  {name:28} secrets {recall(found, secrets)} kept back {recall(of_kept_back, kept_back)} false: {told}"
        )
        if find_personal:
            found = found_in(find_personal, personal)
            told = " ".join(f"{kind} {recall(found, personal, kind)}" for kind in kinds)
            print(f"  {'':28} {told} false: {alarms(find_personal, 'clean_real')} on clean_real")


class Took(NamedTuple):
    """What a command took, in seconds: by the clock, of the processor, and what it told of its own
    work."""

    wall: float
    cpu: float
    own: float = 0.0


def whole_command(words: list[str]) -> Took:
    """A command from its start to its end; kingfisher also tells how long its scan took."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.DEVNULL)
        used = os.wait4(process.pid, 0)[2]
        wall = time.perf_counter() - begin
        out.seek(0)
        told = (
            out.read(1 << 24).decode("utf-8", "replace") if words[0].endswith("kingfisher") else ""
        )
    scan = report_of(told)["audit"]["repositories"][0]["scan"]["duration_seconds"] if told else 0.0
    return Took(wall, used.ru_utime + used.ru_stime, scan)


def speed(path: Path) -> None:
    """Ours within a process, then whole commands of ours and of kingfisher in turn, three
    rounds."""
    size = path.stat().st_size / 1e6
    seconds = {
        level: timed(OURS, str(path), f"redact={level}") for level in ("none", "secrets", "pii")
    }
    for level, spent in seconds.items():
        than = f"{spent / seconds['none']:5.2f} x redact=none"
        print(
            f"  ours, export redact={level:8} {size / spent:6.0f} MB/s  {than}  ({1000 * spent:.0f} ms of CPU)"
        )
    export = [str(OPEN_TOKEN), "export", str(path), "mode=ndjson"]
    commands = {
        f"open-token export redact={level}": [*export, f"redact={level}"]
        for level in ("secrets", "pii")
    }
    if (ANCHORS / "kingfisher").exists():
        words = "--no-validate --no-update-check --format json --no-limits".split()
        for jobs in (1, 2):
            words_of_scan = [
                str(ANCHORS / "kingfisher"),
                "scan",
                str(path),
                *words,
                "-j",
                str(jobs),
            ]
            commands[f"kingfisher scan, {jobs} at once"] = words_of_scan
    rounds = [{name: whole_command(words) for name, words in commands.items()} for _ in range(3)]
    for name in commands:
        wall, cpu, own = (
            min(values) for values in zip(*(told[name] for told in rounds), strict=True)
        )
        scan = f", its own scan {own:.3f} s, {size / own:.0f} MB/s" if own else ""
        print(
            f"  {name:34} {wall:6.2f} s by the clock, {cpu:6.2f} s of CPU, {size / wall:4.0f} MB/s{scan}",
            flush=True,
        )


def start() -> None:
    """What the engine needs before the first search, with its database kept from before."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        Detector(load_rules("secrets", cache), cache, "hyperscan").find(["a"])
        code = (
            "import sys, time, open_token.pipeline; from pathlib import Path; start = time.process_time()\n"
            "from open_token.redaction.detector import Detector; from open_token.redaction.ruleset import load_rules\n"
            "Detector(load_rules('secrets', Path(sys.argv[1])), Path(sys.argv[1])).find(['a token'])\n"
            "print(time.process_time() - start)"
        )
        print(f"  start of the engine           {1000 * timed(code, folder):6.0f} ms")


def hostile(rule: Rule) -> Iterator[str]:
    """Texts that begin like a match again and again and never end like one."""
    word = next(iter(rule.keywords), "1 Aa ")
    yield f"{word}="
    yield f"{word} {word}-"


class Grown(NamedTuple):
    """How the time of a search grew from half a size to the size."""

    name: str
    size: int
    seconds: float
    ratio: float

    @classmethod
    def of(cls, detector: Detector, piece: str, name: str, most: float = SHORT) -> "Grown":
        """At the largest size that takes about so many seconds; a ratio that says too much is
        measured again."""
        elapsed(detector, piece, PROBE)  # whatever is compiled and loaded at first
        pace = max(elapsed(detector, piece, PROBE), 1e-6) / PROBE
        size = LARGEST
        while size > 2 * PROBE and pace * size > most:
            size //= 2
        if size == LARGEST and (short := elapsed(detector, piece, size)) < NOISE:
            size = min(FURTHER, size << math.ceil(math.log2(2 * NOISE / short)))
        ratios = []
        for _ in range(AGAIN):
            once, twice = elapsed(detector, piece, size // 2), elapsed(detector, piece, size)
            ratios.append(twice / once)
            if ratios[-1] <= LIMIT:
                break
        return cls(name, size, twice, min(ratios))

    def told(self) -> str:
        return f"{self.name}, {self.size / 1e6:.1f} MB in {self.seconds:.2f} s"


def growth(until: float) -> None:
    """All rules together on as much as may be, then each by itself on what is hostile to it, while
    there is time."""
    keep_memory()
    rules = load_rules("pii")
    detector = Detector(rules, engine="hyperscan")
    for piece in TOGETHER:
        item = Grown.of(detector, piece, f"all rules, {piece!r}", LONG)
        print(f"  {item.told()}: {item.ratio:.2f}")
    grown: list[Grown] = []
    # By lot, always the same: what there was time for is no matter of where rules stand.
    for number, rule in enumerate(random.Random(7).sample(rules, len(rules))):
        if time.perf_counter() > until:
            print(f"  out of time: {len(rules) - number} rules were not measured")
            break
        detector = Detector((rule,), engine="hyperscan")
        grown += [Grown.of(detector, piece, rule.id) for piece in hostile(rule)]
    tell_growth(grown)


def tell_growth(grown: list[Grown]) -> None:
    """How many texts were judged, those that could not be, and those that took more than twice as
    long for twice."""
    judged = [item for item in grown if item.seconds > NOISE]
    further = [item for item in judged if item.size > LARGEST]
    short = [item for item in grown if item.size < LARGEST]
    print(f"  {len(grown)} texts, {len(further)} of them longer than {LARGEST // 10**6} MB")
    print("  too slow for that size:", ", ".join(item.told() for item in short) or "none")
    fast = [item for item in grown if item not in judged]
    print(
        f"  too fast to be judged at {FURTHER // 10**6} MB:",
        ", ".join(item.told() for item in fast) or "none",
    )
    worst = max(judged, key=lambda item: item.ratio)
    print(f"  time(2n) / time(n), worst rule {worst.ratio:6.2f}  ({worst.told()})")
    above = [f"{item.told()}: {item.ratio:.2f}" for item in judged if item.ratio > LIMIT]
    print(f"  over {LIMIT}: {len(above)} of {len(judged)}", *above, sep="\n    ")
    slowest = max(grown, key=lambda item: item.seconds / item.size)
    print(f"  slowest {slowest.size / slowest.seconds / 1e6:.1f} MB/s ({slowest.told()})")


def keep_memory() -> None:
    """Let the process keep what it has had: else to take 10 MB anew costs more than many a search
    of them."""
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    try:
        libc = ctypes.CDLL(None)
        for option in (trim_threshold, top_pad, mmap_threshold):
            libc.mallopt(option, 1 << 30)
    except (AttributeError, OSError):
        print("  this system's allocator cannot be told to keep memory: short times tell less")


def elapsed(detector: Detector, piece: str, size: int) -> float:
    """CPU seconds of a search, the better of two if it is short; nothing is remembered from
    before."""
    text, best = piece * (size // len(piece)), float("inf")
    for _ in range(2):
        detector._window_matches.clear()
        begin = time.process_time()
        detector._search([text])
        best = min(best, time.process_time() - begin)
        if best > SHORT / 4:
            break
    return best


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    begin = time.perf_counter()
    print(f"load {os.getloadavg()[0]:.1f}")
    if SET.is_dir():
        score()
    else:
        print("  the labelled set is not there: only speed is measured")
    start()
    with tempfile.TemporaryDirectory() as folder:
        if LONGEST_SESSION.exists():
            print(
                f"  one real session, {LONGEST_SESSION.stat().st_size / 1e6:.1f} MB; load {os.getloadavg()[0]:.1f}"
            )
            speed(LONGEST_SESSION)
        for fresh in (False, True):
            path = Path(folder) / "session.jsonl"
            session.write(path, size * 1_000_000, fresh=fresh)
            kind = "no string twice" if fresh else "real sessions repeated"
            print(f"  {size} MB, {kind}; load {os.getloadavg()[0]:.1f}")
            speed(path)
    growth(begin + MINUTES * 60)
    print(
        f"load {os.getloadavg()[0]:.1f}; the whole run took {(time.perf_counter() - begin) / 60:.0f} minutes"
    )


if __name__ == "__main__":
    main()
