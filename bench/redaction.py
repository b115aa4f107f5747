"""Redaction: recall, false alarms and MB/s of ours and of every other scanner that is installed, in one run.

    bench/anchors.sh; python bench/redaction.py [MEGABYTES]

Recall counts labelled spans of which four fifths are gone, or found; a false alarm is a clean text with any finding.
Speed: CPU seconds, the best of three. Growth: time for twice the text over time for it, the worst of all rules.
"""

import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import session
from export import OURS, timed

from open_token.passes._detect import Detector
from open_token.passes._rules import Rule, load_rules

SET = Path(__file__).parents[2] / "shared" / "corpus" / "redaction"
ANCHORS = Path(__file__).parent / "out" / "anchors" / "bin"
CLEAN = ("clean_real", "clean_rulefp", "clean_prose")
LARGEST, PROBE = 10_000_000, 20_000
SHORT, LONG = 0.1, 8.0
"""Seconds that a rule, and that all rules together, may take for the longest text of theirs."""
LIMIT, AGAIN = 2.2, 3
NOISE = 0.1
"""What takes less, in seconds, tells nothing of growth."""
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
            found[number] = [raw[item.start : item.end].decode("utf-8", "replace") for item in items]
        return found

    return find


def by_script(code: str) -> Found:
    def find(texts: list[str]) -> list[list[str]]:
        words = [str(ANCHORS / "python"), "-c", code]
        run = subprocess.run(words, input=json.dumps(texts), capture_output=True, text=True, check=True)
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
        run = subprocess.run([str(ANCHORS / "kingfisher"), "scan", folder, *words], capture_output=True, text=True)
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
        if not (ANCHORS / "python").exists() or subprocess.run(probe, capture_output=True).returncode:
            print(f"  {package} is not installed: skipped")
            continue
        find = by_script(code)
        yield name, find, None if package == "detect_secrets" else find


def is_covered(text: str, start: int, end: int, values: list[str]) -> bool:
    """Whether four fifths of a span lie in what was found."""
    covered = set()
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
        print(f"  {name:28} secrets {recall(found, secrets)} kept back {recall(of_kept_back, kept_back)} false: {told}")
        if find_personal:
            found = found_in(find_personal, personal)
            told = " ".join(f"{kind} {recall(found, personal, kind)}" for kind in kinds)
            print(f"  {'':28} {told} false: {alarms(find_personal, 'clean_real')} on clean_real")


def speed(path: Path) -> None:
    """Ours end to end, against kingfisher's own scan of the same file."""
    size = path.stat().st_size / 1e6
    without = timed(OURS, str(path), "redact=none")
    for level in ("none", "secrets", "pii"):
        seconds = timed(OURS, str(path), f"redact={level}")
        print(f"  ours, export redact={level:8} {size / seconds:6.0f} MB/s  {seconds / without:5.2f} x redact=none")
    if (ANCHORS / "kingfisher").exists():
        words = "--no-validate --no-update-check --format json -j 1 --no-limits".split()
        times = []
        for _ in range(3):
            command = [str(ANCHORS / "kingfisher"), "scan", str(path), *words]
            run = subprocess.run(command, capture_output=True, text=True)
            times.append(report_of(run.stdout)["audit"]["repositories"][0]["scan"]["duration_seconds"])
        print(f"  kingfisher, its own scan time {size / min(times):6.0f} MB/s (wall clock, raw bytes)")


def start() -> None:
    """What the engine needs before the first search, with its database kept from before."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        Detector(load_rules("secrets", cache), cache, "hyperscan").find(["a"])
        code = (
            "import sys, time, open_token.pipeline; from pathlib import Path; start = time.process_time()\n"
            "from open_token.passes._detect import Detector; from open_token.passes._rules import load_rules\n"
            "Detector(load_rules('secrets', Path(sys.argv[1])), Path(sys.argv[1])).find(['a token'])\n"
            "print(time.process_time() - start)"
        )
        print(f"  start of the engine           {1000 * timed(code, folder):6.0f} ms")


def hostile(rule: Rule) -> Iterator[str]:
    """Texts that begin like a match again and again and never end like one."""
    word = next(iter(rule.keywords), "1 Aa ")
    yield f"{word}="
    yield f"{word} {word}-"


def growth() -> None:
    """Each rule by itself on what is hostile to it, and all of them together on as much as may be."""
    rules = load_rules("pii")
    grown = []
    for rule in rules:
        detector = Detector((rule,), engine="hyperscan")
        grown += [Grown.of(detector, piece, rule.id) for piece in hostile(rule)]
    told = [item for item in grown if item.seconds > NOISE]
    worst = max(told, key=lambda item: item.ratio)
    largest = sum(item.size == LARGEST for item in grown)
    print(f"  time(2n) / time(n), worst rule {worst.ratio:6.2f}  ({worst.told()})")
    print(f"  {len(grown)} texts for {len(rules)} rules, {largest} of them up to {LARGEST // 10**6} MB")
    print(f"  over {LIMIT}:", ", ".join(item.told() for item in told if item.ratio > LIMIT) or "none")
    slowest = max(grown, key=lambda item: item.seconds / item.size)
    print(f"  slowest {slowest.size / slowest.seconds / 1e6:.1f} MB/s ({slowest.told()})")
    detector = Detector(rules, engine="hyperscan")
    for piece in TOGETHER:
        item = Grown.of(detector, piece, f"all rules, {piece!r}", LONG)
        print(f"  {item.told()}: {item.ratio:.2f}")


class Grown(NamedTuple):
    """How the time of a search grew from half a size to the size."""

    name: str
    size: int
    seconds: float
    ratio: float

    @classmethod
    def of(cls, detector: Detector, piece: str, name: str, most: float = SHORT) -> "Grown":
        """At the largest size that takes about so many seconds; a ratio that says too much is measured again."""
        pace = max(elapsed(detector, piece, PROBE), 1e-6) / PROBE
        size = LARGEST
        while size > 2 * PROBE and pace * size > most:
            size //= 2
        ratios = []
        for _ in range(AGAIN):
            once, twice = elapsed(detector, piece, size // 2), elapsed(detector, piece, size)
            ratios.append(twice / once)
            if twice <= NOISE or twice / once <= LIMIT:
                break
        return cls(name, size, twice, min(ratios))

    def told(self) -> str:
        return f"{self.name}, {self.size / 1e6:.1f} MB in {self.seconds:.2f} s"


def elapsed(detector: Detector, piece: str, size: int) -> float:
    """CPU seconds of a search, the better of two; nothing is remembered from before."""
    text, best = piece * (size // len(piece)), float("inf")
    for _ in range(2):
        detector._windows.clear()
        begin = time.process_time()
        detector._search([text])
        best = min(best, time.process_time() - begin)
    return best


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    if SET.is_dir():
        score()
    else:
        print("  the labelled set is not there: only speed is measured")
    start()
    with tempfile.TemporaryDirectory() as folder:
        for fresh in (False, True):
            path = Path(folder) / "session.jsonl"
            session.write(path, size * 1_000_000, fresh=fresh)
            print(f"  {size} MB, {'no string twice' if fresh else 'real sessions repeated'}")
            speed(path)
    growth()


if __name__ == "__main__":
    main()
