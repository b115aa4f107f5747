"""Recall and false positives of redaction: ours and every other scanner that is installed, in one
run.

    bench/anchors.sh; python bench/redaction.py [--half development|test] [--only TEXT] [--no-peers]
        [--show-missed] [--sessions]

Three kinds of texts, each searched by itself: generated ones (redaction_data.py), the labelled set
of ../shared, and clean developers' texts. Ours is measured as an export does it, the others by what
they report. Recall is the share of values of which four fifths are gone; a false positive is a
clean text in which anything is masked. --sessions also exports the real sessions of ../shared and
counts what is masked there, once by value and once by occurrence; its list is for people to judge,
who write `right` or `wrong` before a line into bench/out/judged.tsv. What is missed is shown of the
development half only."""

import argparse
import gzip
import hashlib
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import redaction_data as data

from open_token import api
from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.markers import MARKER
from open_token.redaction.redactor import redact

SHARED = Path(__file__).parents[2] / "shared" / "corpus"
OUT = Path(__file__).parent / "out"
PEERS = OUT / "anchors" / "bin"
CLEAN = ("clean_real", "clean_rulefp", "clean_prose", "clean_piifp")
SHARED_TYPES = ("person", "address", "phone", "email", "ip", "iban", "credit_card", "us_ssn")
NO_SESSIONS = frozenset(("redaction", "jcs", "jsontestsuite", "native_minimal"))
Spans = list[tuple[int, int]]
Search = Callable[[list[data.Sample]], list[Spans]]

SCRIPTS = {
    "detect-secrets 1.5.0": """
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
    "credsweeper 1.19.5": """
import json, sys
from credsweeper.app import CredSweeper
from credsweeper.file_handler.byte_content_provider import ByteContentProvider
sweeper = CredSweeper(log_level="ERROR")
found = []
for text in json.load(sys.stdin):
    sweeper.credential_manager.candidates.clear()
    provider = ByteContentProvider(text.encode(), file_path="a.txt")
    sweeper.credential_manager.set_credentials(sweeper.file_scan(provider))
    sweeper.post_processing(None)
    found.append([line.value for item in sweeper.credential_manager.get_credentials() for line in item.line_data_list])
json.dump(found, sys.stdout)
""",
    "presidio-analyzer 2.2.366, patterns alone": """
import json, sys, spacy
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import SpacyNlpEngine
nlp_engine = SpacyNlpEngine()
nlp_engine.nlp = {"en": spacy.blank("en")}
nlp_engine.is_loaded = lambda: True
analyzer = AnalyzerEngine(nlp_engine=nlp_engine)
kinds = set(analyzer.get_supported_entities()) - {"DATE_TIME", "NRP", "URL", "PERSON", "LOCATION", "ORGANIZATION"}
found = []
for text in json.load(sys.stdin):
    items = analyzer.analyze(text, "en", entities=sorted(kinds))
    found.append([text[item.start:item.end] for item in items])
json.dump(found, sys.stdout)
""",
    "scrubadub 2.0.1": """
import json, sys, scrubadub
scrubber = scrubadub.Scrubber()
json.dump([[item.text for item in scrubber.iter_filth(text)] for text in json.load(sys.stdin)], sys.stdout)
""",
    "datafog 4.9.0": """
import json, sys
from datafog.processing.text_processing.regex_annotator import RegexAnnotator
found = [RegexAnnotator().annotate(text) for text in json.load(sys.stdin)]
json.dump([[item for items in kinds.values() for item in items] for kinds in found], sys.stdout)
""",
}
COMPROMISE = """
const nlp = require("compromise");
let input = "";
process.stdin.on("data", (part) => (input += part));
process.stdin.on("end", () => {
  const found = JSON.parse(input).map((text) => nlp(text).people().out("array"));
  process.stdout.write(JSON.stringify(found));
});
"""


class Tool(NamedTuple):
    """A scanner, and whether it finds secrets or personal data."""

    name: str
    search: Search
    levels: tuple[str, ...] = ("secrets", "pii")


def build_event(number: int, type_name: str, **fields: Any) -> Any:
    actor = {"message": 1, "tool_use": 2, "tool_result": 3}[type_name]
    return {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": type_name,
        "actor_id": f"act_{actor:03d}",
        "visibility": "public",
        **fields,
    }


def build_record(sample: data.Sample) -> Record:
    """Return a conversation of one message, or of a command and its output."""
    text = {"mime": "text/plain", "text": sample.text}
    if sample.call:
        call = {"tool_name": "bash", "arguments": {"command": sample.call}}
        events = [
            build_event(
                1,
                "tool_use",
                links={"call_id": "call_1"},
                content={"mime": "application/json", "data": call},
            ),
            build_event(2, "tool_result", links={"call_id": "call_1"}, content=text),
        ]
    else:
        events = [build_event(1, "message", role="user", content=text)]
    return Record(conversation={"id": "conv_1"}, participants=[], events=events)


def create_context(level: str) -> Context:
    cache = OUT / "rules"
    cache.mkdir(parents=True, exist_ok=True)
    options = ExportOptions.of({"redact": level, "images": "keep"})
    return Context(options, key=b"bench", rule_cache=cache)


def find_masked(original: str, redacted: str) -> Spans:
    """Return the spans of a text in whose place the redacted one has markers."""
    spans = []
    position = 0
    end = 0
    for match in MARKER.finditer(redacted):
        kept = redacted[end : match.start()]
        position += len(kept)
        end = match.end()
        following = MARKER.search(redacted, end)
        between = redacted[end : following.start() if following else len(redacted)]
        if between:
            after = original.find(between, position) if following else len(original) - len(between)
        else:
            after = position if following else len(original)
        spans.append((position, max(after, position)))
        position = max(after, position)
    return spans


def search_ours(level: str) -> Search:
    def search(samples: list[data.Sample]) -> list[Spans]:
        context = create_context(level)
        found = []
        for sample in samples:
            events = list(redact(build_record(sample), context, "hyperscan").events)
            content: Any = events[-1]["content"]
            found.append(find_masked(sample.text, content["text"]))
        return found

    return search


def find_values(text: str, values: list[str]) -> Spans:
    """Return the spans of all occurrences of values."""
    spans = []
    for value in values:
        position = text.find(value) if value else -1
        while position >= 0:
            spans.append((position, position + len(value)))
            position = text.find(value, position + 1)
    return spans


def search_by_command(words: list[str]) -> Search:
    def search(samples: list[data.Sample]) -> list[Spans]:
        texts = [sample.text for sample in samples]
        run = subprocess.run(
            words, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=OUT
        )
        values = json.loads(run.stdout[run.stdout.index("[") :])
        return [find_values(text, found) for text, found in zip(texts, values, strict=True)]

    return search


def search_by_kingfisher(samples: list[data.Sample]) -> list[Spans]:
    values: list[list[str]] = [[] for _ in samples]
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(samples):
            (Path(folder) / f"{number}.txt").write_text(sample.text)
        words = "--no-validate --no-update-check --no-dedup --format json -c low -j 1".split()
        run = subprocess.run(
            [str(PEERS / "kingfisher"), "scan", folder, *words], capture_output=True, text=True
        )
        for item in json.JSONDecoder().raw_decode(run.stdout)[0]["findings"]:
            values[int(Path(item["finding"]["path"]).stem)].append(item["finding"]["snippet"])
    return [find_values(sample.text, found) for sample, found in zip(samples, values, strict=True)]


def list_peers() -> Iterator[Tool]:
    """Yield the other scanners that are installed."""
    if (PEERS / "kingfisher").exists():
        yield Tool("kingfisher 2.14.0, -c low", search_by_kingfisher, ("secrets",))
    for name, script in SCRIPTS.items():
        words = [str(PEERS / "python"), "-c", script]
        try:
            subprocess.run(words, input="[]", capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            print(f"{name} is not installed: skipped")
            continue
        is_for_secrets = name.startswith(("detect-secrets", "credsweeper"))
        yield Tool(name, search_by_command(words), ("secrets",) if is_for_secrets else ("pii",))
    if (OUT / "node_modules" / "compromise").is_dir():
        yield Tool("compromise (npm)", search_by_command(["node", "-e", COMPROMISE]), ("pii",))


def is_covered(start: int, end: int, spans: Spans) -> bool:
    """Return whether four fifths of a value lie in spans."""
    covered: set[int] = set()
    for first, last in spans:
        covered.update(range(max(start, first), min(end, last)))
    return len(covered) >= 0.8 * (end - start)


def read_shared(name: str) -> list[dict[str, Any]]:
    with gzip.open(SHARED / "redaction" / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def is_unseen(row: dict[str, Any]) -> bool:
    """Return whether the texts of a provider are not read while rules are written."""
    return int(hashlib.sha256(row["provider"].encode()).hexdigest(), 16) % 5 == 0


def iter_shared() -> Iterator[data.Sample]:
    """Yield the labelled set: a text once for each value in it, and the clean texts."""
    if not (SHARED / "redaction").is_dir():
        print(f"the labelled set is not there: {SHARED / 'redaction'}")
        return
    for name, level in (("secret", "secrets"), ("pii", "pii")):
        for row in read_shared(name):
            part = "unseen" if is_unseen(row) else "seen"
            for span in row["spans"]:
                label = "secret" if name == "secret" else span["type"].lower()
                if label not in ("secret", *SHARED_TYPES):
                    label = "other id"
                text, start, end = row["text"], span["start"], span["end"]
                yield data.Sample(f"shared, {part}: {label}", level, part, text, start, end)
    for name in CLEAN:
        for level in ("secrets", "pii"):
            if name == "clean_piifp" and level == "secrets":
                continue
            for row in read_shared(name):
                yield data.Sample(
                    f"shared: {name} at {level}", level, "", row["text"], 0, 0, clean=True
                )


class Score:
    """What a tool found, by class."""

    def __init__(self) -> None:
        self.hits: dict[str, list[bool]] = defaultdict(list)
        self.missed: list[data.Sample] = []

    def add(self, sample: data.Sample, spans: Spans) -> None:
        hit = bool(spans) if sample.clean else is_covered(sample.start, sample.end, spans)
        self.hits[sample.name].append(hit)
        if hit == sample.clean:
            self.missed.append(sample)

    def measure(self, name: str) -> str:
        hits = self.hits.get(name)
        return f"{100 * sum(hits) / len(hits):.1f}" if hits else ""


def score_tool(tool: Tool, samples: list[data.Sample]) -> Score:
    score = Score()
    own = [sample for sample in samples if sample.level in tool.levels]
    # The texts of the set have several values: each is searched once.
    by_text: dict[tuple[str, str], list[data.Sample]] = defaultdict(list)
    for sample in own:
        by_text[sample.text, sample.call].append(sample)
    firsts = [group[0] for group in by_text.values()]
    for group, spans in zip(by_text.values(), tool.search(firsts), strict=True):
        for sample in group:
            score.add(sample, spans)
    return score


def print_table(samples: list[data.Sample], scores: dict[str, Score]) -> None:
    """Print a table with a row for each class and a column for each tool."""
    counts = Counter(sample.name for sample in samples)
    clean = {sample.name for sample in samples if sample.clean}
    print("| class | texts |", " | ".join(scores), "|")
    print("|---|---|" + "---|" * len(scores))
    for name, count in counts.items():
        row = [score.measure(name) for score in scores.values()]
        print(
            f"| {'false positives: ' if name in clean else ''}{name} | {count} |",
            " | ".join(row),
            "|",
        )


def iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from iter_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_strings(item)


def iter_session_documents() -> Iterator[dict[str, Any]]:
    """Yield the conversations of the real sessions, without redaction."""
    for path in sorted(SHARED.rglob("*")):
        if not path.is_file() or path.relative_to(SHARED).parts[0] in NO_SESSIONS:
            continue
        try:
            # A file with one conversation lists none.
            ids: list[str | None] = [item.id for item in api.conversations(path)] or [None]
        except OpenTokenError:
            continue
        for conversation in ids:
            try:
                yield dict(api.export(path, conversation=conversation, redact="none"))
            except OpenTokenError:
                continue


def count_in_sessions(level: str) -> None:
    """Print what is masked in the real sessions, by type, with what people judged of it."""
    masks: Counter[tuple[str, str]] = Counter()
    around: dict[tuple[str, str], str] = {}
    size = 0
    context = create_context(level)
    for document in iter_session_documents():
        record = Record(document["conversation"], document["participants"], document["events"])
        after = redact(record, context, "hyperscan").events
        for old, new in zip(document["events"], after, strict=True):
            for before, text in zip(iter_strings(old), iter_strings(new), strict=False):
                size += len(before)
                if before is text or before == text:
                    continue
                types = [match["type"] for match in MARKER.finditer(text)]
                for kind, (start, end) in zip(types, find_masked(before, text), strict=False):
                    key = kind, before[start:end]
                    masks[key] += 1
                    around.setdefault(key, before[max(0, start - 40) : end + 20])
    judged_path = OUT / "judged.tsv"
    judged = {}
    if judged_path.exists():
        lines = (line.split("\t", 2) for line in judged_path.read_text().splitlines())
        judged = {(line[1], json.loads(line[2])): line[0] for line in lines}
    print(f"real sessions at {level}: {size / 1e6:.1f} million characters")
    for kind in sorted({key[0] for key in masks}):
        keys = [key for key in masks if key[0] == kind]
        wrong = [key for key in keys if judged.get(key) == "wrong"]
        unknown = sum(key not in judged for key in keys)
        print(
            f"  {kind}: {len(keys)} values, {sum(masks[key] for key in keys)} occurrences; "
            f"wrong {len(wrong)} and {sum(masks[key] for key in wrong)}; not judged {unknown}"
        )
    (OUT / f"masks_{level}.tsv").write_text(
        "".join(
            f"\t{kind}\t{json.dumps(value)}\t{around[kind, value]!r}\n" for kind, value in masks
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--half", choices=data.HALVES, default="test")
    parser.add_argument("--only", default="", help="classes whose names contain this text")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--show-missed", action="store_true")
    parser.add_argument("--sessions", action="store_true")
    arguments = parser.parse_args()
    if arguments.show_missed and arguments.half == "test":
        parser.error("what is missed of the test half is not shown: use --half development")
    OUT.mkdir(exist_ok=True)
    samples = [*data.iter_samples(arguments.half), *iter_shared()]
    samples = [sample for sample in samples if arguments.only in sample.name]
    scores = {}
    ours = Score()
    for level in ("secrets", "pii"):
        score = score_tool(Tool("ours", search_ours(level), (level,)), samples)
        ours.hits.update(score.hits)
        ours.missed += score.missed
    scores["ours"] = ours
    for tool in () if arguments.no_peers else list_peers():
        scores[tool.name] = score_tool(tool, samples)
    print_table(samples, scores)
    if arguments.show_missed:
        for sample in ours.missed:
            if sample.half not in ("unseen", "test"):
                print(sample.name, repr(sample.value), repr(sample.text[:300]), sep="\t")
    if arguments.sessions:
        for level in ("secrets", "pii"):
            count_in_sessions(level)


if __name__ == "__main__":
    main()
