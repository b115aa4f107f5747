"""The target behind fuzz_readers.py: any bytes give an error of ours or an export that keeps every
promise."""

import atexit
import importlib.util
import io
import random
import re
import shutil
import tempfile
import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

import msgspec

from fuzzing import seeds as known
from fuzzing.campaign import Violated
from fuzzing.folders import WHOLE, lay_out, unpack
from fuzzing.mutate import CANARY, TOKEN
from fuzzing.whole import check_follow, check_report, check_whole, chosen
from open_token import agents, formats
from open_token.context import Context
from open_token.errors import OpenTokenError, SizeLimitError
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.options import OPTIONS, ExportOptions
from open_token.pipeline import Receipt, export
from open_token.registry import READERS, detect_format, load_reader
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

SIZES = (1, 200, 600, 900, 1300, 2000, 3000, 5000, 9000, 20_000, 60_000)
CHOICES = {
    option.name: option.values
    for option in OPTIONS
    if option.name not in ("mode", "max_bytes", "exported_at")
}
PEEK = 1 << 15
EXPORTS = 5
"""One seed in so many is an export: they have a target of their own."""
RARELY = 8
"""One input in so many is also restored, another one reported on, another one followed."""
ENVELOPE = ("id", "seq", "ts", "type", "actor_id", "visibility", "role", "links", "usage")
UNTOUCHED = re.compile("data|mime|.*[Ii][Dd]s?|.*signature|encrypted.*|base64|sha.*", re.DOTALL)
STALE = {"OT905", "OT906", "OT907", "OT908"}
"""Hashes that do not match, which an export makes anew; with any other error an export may stay as
bad as it is."""


def _peer() -> Any:
    path = known.TESTS.parent.parent / "shared" / "tools" / "check_export.py"
    spec = importlib.util.spec_from_file_location("check_export", path)
    if not path.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PEER = _peer()
for _package in (agents, formats):
    for _module in walk_packages(_package.__path__, f"{_package.__name__}."):
        import_module(_module.name)


class Settings(NamedTuple):
    """How one input is read and exported."""

    reader: str | None
    words: dict[str, Any]


class Answer(NamedTuple):
    """What came of one export: the bytes and the receipt, or the error."""

    data: bytes
    receipt: Receipt | None
    problem: OpenTokenError | None


class _Ground:
    """A folder for inputs of several files, made when the first one comes."""

    path: Path | None = None

    def folder(self, name: str) -> Path:
        if self.path is None:
            shared_memory = Path("/dev/shm")
            place = str(shared_memory) if shared_memory.is_dir() else None
            self.path = Path(tempfile.mkdtemp(prefix="open-token-fuzz-", dir=place))
            atexit.register(shutil.rmtree, self.path, ignore_errors=True)
        return self.path / name


_GROUND = _Ground()


def seeds(more: list[Path], one_in: int = 1) -> list[bytes]:
    """Conversations of every reader, and exports of them."""
    found = known.conversations(more or known.real())[::one_in]
    return found + known.exports(found)[::EXPORTS]


def kind(data: bytes) -> str:
    """The reader that takes a seed, so that none is tried more than another."""
    try:
        return detect_format(source_of(data))
    except OpenTokenError:
        return ""


def settings_for(data: bytes) -> Settings:
    """Options at random, half of them at their default; a reader is forced on one input in five."""
    rng = random.Random(zlib.crc32(data))
    words: dict[str, Any] = {"exported_at": "omit"}
    for name, values in CHOICES.items():
        if rng.random() < 0.5:
            words[name] = rng.choice(values)
    if rng.random() < 0.35:
        words["max_bytes"] = rng.choice(SIZES) + rng.randrange(100)
    return Settings(rng.choice(list(READERS)) if rng.random() < 0.2 else None, words)


def check(data: bytes, settings: Settings) -> None:
    """Every promise that the export of an input makes."""
    check_peek(data)
    as_json = exported(data, settings, "json")
    as_ndjson = exported(data, settings, "ndjson")
    for answer in (as_json, as_ndjson):
        check_words(answer)
        if answer.receipt:
            check_export(answer, data, settings)
    if "max_bytes" not in settings.words:
        check_shapes(as_json, as_ndjson)
    check_uses(data, settings)


def check_uses(data: bytes, settings: Settings) -> None:
    """What takes longer is done with some inputs only, decided by the input alone."""
    lot = zlib.crc32(data, 1) % RARELY
    words = ExportOptions.of(settings.words)
    if lot == 0:
        check_whole(source_of(data), settings.reader, known.KEY, _GROUND.folder("whole"))
    elif lot == 1:
        check_report(source_of(data), settings.reader, Context(words, key=known.KEY))
    elif lot == 2:
        files = unpack(data) or {"input": data}
        if WHOLE not in files:
            check_follow(
                lay_out(files, _GROUND.folder("input")),
                settings.reader,
                Context(words, key=known.KEY),
            )


def check_peek(data: bytes) -> None:
    """Every reader that can find a title in the first lines does so from anything, in text or not
    at all."""
    try:
        records = Source("input", data=data).read_opening(PEEK)
    except OpenTokenError:
        return
    for name in READERS:
        reader = load_reader(name)
        if reader.can_peek and not all(
            isinstance(fact, str) for fact in reader.peek(records).values()
        ):
            raise Violated(f"peek of {name}: its value is no text")


def exported(data: bytes, settings: Settings, mode: str) -> Answer:
    """One export in memory; only errors of ours are caught."""
    options = ExportOptions.of(settings.words | {"mode": mode})
    out = io.BytesIO()
    try:
        source = source_of(data)
        reader = settings.reader or detect_format(source)
        chosen(source, reader, zlib.crc32(data, 2))
        receipt = export(source, out, Context(options, key=known.KEY), reader)
    except OpenTokenError as problem:
        return Answer(b"", None, problem)
    return Answer(out.getvalue(), receipt, None)


def source_of(data: bytes) -> Source:
    """The input, on a disk only when it is a folder."""
    files = unpack(data)
    if not files:
        return Source("input", data=data)
    path = lay_out(files, _GROUND.folder("input"))
    return Source.of_folder(path) if WHOLE in files else Source.of(path)


def check_words(answer: Answer) -> None:
    """Messages can be printed and contain nothing of what was said."""
    said = [str(answer.problem)] if answer.problem else []
    if answer.problem and (
        "cannot be hashed" in answer.problem.what or answer.problem.code == "redaction.unfinished"
    ):
        raise Violated(f"{re.sub('[0-9]+', 'n', answer.problem.what)}: a reader let it through")
    if answer.receipt:
        said += [f"{note.code} {note.place} {note.detail}" for note in answer.receipt.notes]
        "".join(answer.receipt.redaction).encode()
    for text in said:
        text.encode()
        if CANARY in text:
            raise Violated("content in a message: an error or a note repeats what was said")


def check_export(answer: Answer, data: bytes, settings: Settings) -> None:
    """The export is valid, verifiable, small enough, and its own export."""
    assert answer.receipt
    limit = settings.words.get("max_bytes")
    if answer.receipt.bytes != len(answer.data):
        raise Violated("receipt: names another size than was written")
    if limit and len(answer.data) > limit:
        raise Violated(f"max_bytes: {len(answer.data)} bytes for a limit of {limit}")
    errors = errors_of(answer.data)
    if errors and not (answer.receipt.reader == "open_token" and errors_of(data) - STALE):
        raise Violated(f"not valid {' '.join(sorted(errors))}: {first_error(answer.data, errors)}")
    if settings.words.get("redact") != "none" and TOKEN.encode() in answer.data:
        for event in document_of(answer.data)["events"]:
            check_exposed({key: item for key, item in event.items() if key not in ENVELOPE})
    if PEER is not None and answer.receipt.reader != "open_token":
        check_as_peer(answer, settings)
    verdict = verify_bytes(answer.data)
    if verdict.status != VERIFIED and settings.words.get("integrity") != "none":
        raise Violated(f"not verified {verdict.status}: {verdict.reasons}")
    check_again(answer, settings)


def check_exposed(value: Any, name: str = "content") -> None:
    """No token stands in an event, but where ids, signatures and files stand that must stay as they
    are."""
    if isinstance(value, str) and TOKEN in value:
        raise Violated(f"not masked under {name}: a token in a text")
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        if isinstance(key, str) and TOKEN in key:
            raise Violated(f"not masked under {name}: a token in a key")
        special = isinstance(key, str) and UNTOUCHED.fullmatch(key) is not None
        if not (special and isinstance(item, str) and " " not in item):
            check_exposed(item, str(key) if special else name)


def check_as_peer(answer: Answer, settings: Settings) -> None:
    """A check that shares nothing with this project, where it lies beside the checkout, finds
    nothing either."""
    document, _, faults = PEER.load(answer.data)
    faults += PEER.check(document, settings.words.get("redact", "secrets"))
    if "integrity" in document and document["integrity"]["events_hash"] != PEER.events_hash(
        document
    ):
        faults.append("events_hash")
    if faults:
        raise Violated(f"peer {re.sub('[0-9]+|[{].*', '', faults[0])}: {faults[:3]}")


def errors_of(data: bytes) -> set[str]:
    """The checks that find an error."""
    return {problem.id for problem in validate_bytes(data) if problem.severity == "error"}


def first_error(data: bytes, ids: set[str]) -> str:
    """The first of those errors, in words."""
    return next(f"{p.place} {p.message}" for p in validate_bytes(data) if p.id in ids)


def check_again(answer: Answer, settings: Settings) -> None:
    """An export of the export with the same options is the same bytes."""
    mode = "ndjson" if answer.data.startswith(b'{"type":"header"') else "json"
    again = exported(answer.data, Settings(None, settings.words), mode)
    if again.problem:
        raise Violated(f"export of an export {again.problem.code} {again.problem.what}: refused")
    if again.data != answer.data:
        part = changed_part(answer.data, again.data)
        raise Violated(f"export of an export {part} changed: other bytes come out")


def changed_part(before: bytes, after: bytes) -> str:
    """Which part of a document is not the same, to distinguish findings."""
    old, new = document_of(before), document_of(after)
    names = [
        name
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name) and name != "integrity"
    ]
    if "events" not in names:
        return " ".join(names) or "integrity or layout"
    if len(old["events"]) != len(new["events"]):
        return "number of events"
    pairs = zip(old["events"], new["events"], strict=True)
    one, other = next((one, other) for one, other in pairs if one != other)
    return f"{one['type']} {' '.join(key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key))}"


def check_shapes(as_json: Answer, as_ndjson: Answer) -> None:
    """Both shapes are read the same, or fail alike."""
    if as_json.problem or as_ndjson.problem:
        codes = [
            answer.problem and (answer.problem.code, answer.problem.what)
            for answer in (as_json, as_ndjson)
        ]
        if codes[0] != codes[1]:
            raise Violated(f"json and ndjson fail differently: {codes}")
        if isinstance(as_json.problem, SizeLimitError):
            raise Violated("does not fit: without a limit")
        return
    if document_of(as_json.data) != document_of(as_ndjson.data):
        raise Violated(
            f"json and ndjson differ in {changed_part(as_json.data, as_ndjson.data)}: two records"
        )


def document_of(data: bytes) -> dict[str, Any]:
    """An export of either shape as one document."""
    if not data.startswith(b'{"type":"header"'):
        document: dict[str, Any] = msgspec.json.decode(data)
        return document
    header, *events, footer = (msgspec.json.decode(line) for line in data.splitlines())
    for event in events:
        event["type"] = event.pop("event_type")
    del header["type"], footer["type"]
    return {**header, "events": events, **footer}
