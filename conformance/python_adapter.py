"""Answers the questions of the conformance kit with the library, one JSON object a line."""

import json
import sys
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from open_token.integrity.commitments import SourceCommitments
from open_token.integrity.signatures.results import TRUSTED, UNKNOWN
from open_token.integrity.strict_reader import (
    BROKEN,
    NdjsonReader,
    is_stream,
    iter_lines,
    read_document,
)
from open_token.integrity.verify import verify_bytes
from open_token.jsontools.canonical import CanonicalError, encode_canonical
from open_token.jsontools.strict import StrictError, parse_strict
from open_token.passes.truncate_cuts import cut_text
from open_token.redaction.marker_factory import build_keyed_factory
from open_token.redaction.markers import MARKER, split_at_markers
from open_token.validation.validate import validate_bytes

Answer = dict[str, Any]

_COMPUTED = {
    "events_hash": "events_hash",
    "document_hash": "document_hash",
    "tree.root": "tree_root",
}


def canonicalize(question: Answer) -> Answer:
    """The RFC 8785 text of a JSON text."""
    try:
        value, faults = parse_strict(b64decode(question["file"]))
        canonical = encode_canonical(value).decode()
    except (StrictError, CanonicalError):
        return {"error": True}
    return {"error": True} if faults else {"canonical": canonical}


def read(question: Answer) -> Answer:
    """The document of an export in any form."""
    raw = b64decode(question["file"])
    problems: list[str] = []

    def report(check: str, place: str, message: str) -> None:
        # Integers beyond 2^53-1, and streams that are not complete yet, can be read.
        if check <= "OT014" and check != "OT007":
            problems.append(message)

    if not is_stream(raw):
        document = read_document(raw, report)
        return (
            {"error": True}
            if problems or document is BROKEN
            else {"document": document, "complete": True}
        )
    reader = NdjsonReader(iter_lines(raw), report)
    events = list(reader)
    if problems:
        return {"error": True}
    return {"document": {**reader.document, "events": events}, "complete": reader.has_footer}


def verify(question: Answer) -> Answer:
    """The verdict on an export."""
    verdict = verify_bytes(b64decode(question["file"]))
    answer: Answer = {"status": verdict.status, "parts": {}, "source": None}
    for part in verdict.parts:
        if part.name in _COMPUTED:
            answer[_COMPUTED[part.name]] = part.found
        if part.name == "source" and part.state == "match":
            counts = (word.split()[:2] for word in part.found.split(", "))
            answer["source"] = {name: int(number) for number, name in counts}
        else:
            answer["parts"][part.name] = part.state
    answer["signatures"] = [
        {
            "scheme": one.scheme,
            "keyid": one.keyid,
            "state": "valid" if one.state in (TRUSTED, UNKNOWN) else one.state,
        }
        for one in verdict.signatures
    ]
    answer["statement"] = verdict.statement or None
    answer["covered"] = not verdict.uncovered
    return answer


def validate(question: Answer) -> Answer:
    """The rules that an export breaks."""
    problems = validate_bytes(b64decode(question["file"]))
    errors = sorted({problem.id for problem in problems if problem.severity == "error"})
    return {"valid": not errors, "checks": errors}


def find_markers(question: Answer) -> Answer:
    """The redaction markers of a text, and the texts between them."""
    text = question["text"]
    markers = [{"type": one["type"], "hash8": one["hash"]} for one in MARKER.finditer(text)]
    return {"markers": markers, "rest": split_at_markers(text)}


def marker(question: Answer) -> Answer:
    """The marker of a value."""
    factory = build_keyed_factory(bytes.fromhex(question["key"]), question["scope"])
    return {"marker": factory.build_marker(question["type"], question["value"])}


def truncate(question: Answer) -> Answer:
    """A text, cut as max_bytes does."""
    return {"text": cut_text(question["text"])}


def commit(question: Answer) -> Answer:
    """The commitments to the events of a source."""
    source = SourceCommitments(bytes.fromhex(question["key"]), question["conversation"])
    salts = []
    for index, event in enumerate(question["events"]):
        source.add(event)
        content = encode_canonical(event.get("content"))
        salts.append(source.salt(index, content).hex())
    commitments = [source.commitment(index).hex() for index in range(source.size)]
    return {"size": source.size, "root": source.root, "salts": salts, "commitments": commitments}


TASKS: dict[str, Callable[[Answer], Answer]] = {
    "canonicalize": canonicalize,
    "read": read,
    "verify": verify,
    "validate": validate,
    "find_markers": find_markers,
    "marker": marker,
    "truncate": truncate,
    "commit": commit,
}


def answer_questions() -> None:
    """Answer every line of standard input."""
    for line in sys.stdin:
        question = json.loads(line)
        task = TASKS.get(question["task"])
        answer = task(question) if task else {"skip": "not implemented"}
        print(json.dumps({"id": question["id"], **answer}), flush=True)


if __name__ == "__main__":
    answer_questions()
