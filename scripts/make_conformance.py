"""Makes the conformance kit in `conformance/` from the made-up conversation below.

Run by `make accept`. What a case expects is written down here by hand: which status, which part is
wrong. Only hashes, which nobody can write by hand, are computed by the library.
"""

import copy
import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256, sha512
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from open_token.integrity.commitments import SourceCommitments, build_disclosure
from open_token.integrity.merkle import MerkleTree
from open_token.integrity.signatures import dsse, sshsig
from open_token.integrity.signatures.keys import (
    compute_fingerprint,
    encode_ssh_string,
    format_public_key,
    from_raw_ed25519,
)
from open_token.integrity.signatures.statement import build_statement
from open_token.jsontools.canonical import encode_canonical, hash_document, hash_events
from open_token.redaction.marker_factory import build_keyed_factory

Document = dict[str, Any]
Case = dict[str, Any]
Change = Callable[[Document], None]

KEY = bytes(range(32))
"""The local key of the kit. It protects nothing."""
MARKER = "[REDACTED:api_key:0a1b2c3d]"


def text(words: str) -> Document:
    """Content that is text."""
    return {"mime": "text/plain", "text": words}


def data(value: Any) -> Document:
    """Content that is data."""
    return {"mime": "application/json", "data": value}


def event(seq: int, kind: str, actor: int, content: Document | None, **more: Any) -> Document:
    """An event; internal unless it says otherwise."""
    made = {
        "id": f"evt_{seq:06d}",
        "seq": seq,
        "type": kind,
        "actor_id": f"act_{actor:03d}",
        "visibility": "internal",
    }
    if content is not None:
        made["content"] = content
    return made | more


def build_conversation() -> Document:
    """Return an export without integrity that uses everything the format has."""
    call = {"call_id": "call_000001"}
    span = {"span_id": "span_000001"}
    numbers = [0.1, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 2**53 - 1, -1.5, 100.0]
    arguments = {
        "place": "Norderney",
        "numbers": numbers,
        # Sorted by UTF-16: U+1F30A comes before U+FB33, and after it by code points.
        "keys": {"\ufb33": 1, "\U0001f30a": 2, "é": 3, "e\u0301": 4, "": 5, "Z": 6, "a": 7},
    }
    image = {"media_type": "image/png", "encoding": "base64", "bytes": 3, "base64": "AQID"}
    image["sha256"] = sha256(bytes([1, 2, 3])).hexdigest()
    usage = {
        "input_tokens": 120,
        "output_tokens": 30,
        "reasoning_tokens": 8,
        "cache_read_tokens": 100,
        "cache_write_tokens": 0,
    }
    cut = text("The tide comes in and…goes out.") | {
        "data": {"truncated": True, "original_length": 2460}
    }
    return {
        "open_token_version": "0.1",
        "exported_at": "2026-11-18T09:30:00Z",
        "conversation": {
            "id": "conv_20261118_7e1de0aa",
            "title": "High tide at Norderney \U0001f30a",
            "started_at": "2026-11-18T09:00:00.5+01:00",
            "timezone": "Europe/Berlin",
            "source_runtime": "cli",
            "provider": "other",
            "internal_availability": "available",
            "redaction": {
                "mode": "secrets",
                "strategy": "mask",
                "notes": ["masked 1 api_key (1 distinct value)"],
            },
        },
        "participants": [
            {"actor_id": "act_001", "kind": "system", "name": "system"},
            {"actor_id": "act_002", "kind": "human", "name": "user"},
            {"actor_id": "act_003", "kind": "model", "name": "assistant", "model": "example-1"},
            {"actor_id": "act_004", "kind": "tool", "name": "tide_table"},
            {"actor_id": "act_005", "kind": "model", "name": "reader", "instance_id": "1"},
        ],
        "events": [
            event(1, "message", 1, text("Be exact."), role="system"),
            event(
                2,
                "message",
                2,
                text(f'Wann ist Flut? שלום\u2028e\u0301 \u0001\t"\\/ with {MARKER}'),
                role="user",
                visibility="public",
                ts="2026-11-18T08:00:01Z",
            ),
            event(
                3,
                "message",
                3,
                text("I look it up."),
                role="assistant_thought",
                links={"replies_to": "evt_000002"},
                usage=usage,
            ),
            event(
                4,
                "tool_use",
                3,
                data({"tool_name": "tide_table", "arguments": arguments}),
                role="assistant",
                links=call,
            ),
            event(5, "tool_result", 4, cut, role="tool", links=call),
            event(
                6,
                "annotation",
                4,
                data({"kind": "result_facts", "exit_code": 0, "duration_s": 0.25}),
                visibility="metadata",
                links={"parent_id": "evt_000005"},
            ),
            event(7, "span_start", 3, data({"kind": "subagent", "model": "example-1"}), links=span),
            event(8, "message", 5, text("It is at 11:42."), role="assistant", links=span),
            event(9, "span_end", 3, None, links=span),
            event(
                10,
                "message",
                3,
                data([{"type": "text", "text": "At 11:42."}, {"type": "image", **image}]),
                role="assistant",
                visibility="public",
            ),
        ],
    }


# --- integrity ---


def seal(document: Document, **more: Any) -> Document:
    """Add the integrity object of our profile; `more` has further fields, or others."""
    events = document["events"]
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    events_hash = hash_events(events)
    document["integrity"] = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": events_hash,
        "profile": "ot-int/1",
        "c14n": "rfc8785",
        "event_count": len(events),
        "document_hash": hash_document(head, events_hash),
    } | more
    return document


def seal_as_others_do(document: Document) -> Document:
    """Add what the specification asks for, and nothing of our profile."""
    document["integrity"] = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": hash_events(document["events"]),
    }
    return document


def compute_root(events: Iterable[Any]) -> str:
    """Return the root of the tree over events."""
    tree = MerkleTree()
    for one in events:
        tree.add(encode_canonical(one))
    return tree.root().hex()


def build_sealed(level: str = "hash") -> Document:
    """Return the conversation with its hashes; `tree` or `source` adds that."""
    document = build_conversation()
    events = document["events"]
    if level == "tree":
        tree = {"alg": "rfc9162-sha256", "size": len(events), "root": compute_root(events)}
        return seal(document, tree=tree)
    if level == "source":
        return seal(document, source=build_disclosure(commit_to(events), events))
    return seal(document)


def commit_to(events: Iterable[Document]) -> SourceCommitments:
    """Return the commitments to the events of a source."""
    commitments = SourceCommitments(KEY, build_conversation()["conversation"]["id"])
    for one in events:
        commitments.add(one)
    return commitments


def build_withheld() -> Document:
    """Return an export with an altered, an inserted and two dropped events of its source."""
    commitments = commit_to(build_conversation()["events"])
    document = build_conversation()
    events = document["events"]
    events[1]["content"] = text(f"{MARKER} and nothing else")
    # Three events of the source are not in the export: two subtrees of the proof cover them.
    del events[6:9]
    note = event(11, "annotation", 3, data({"kind": "notice"}), visibility="metadata")
    events.insert(0, note)
    for seq, one in enumerate(events, 1):
        one["seq"] = seq
    return seal(document, source=as_json(build_disclosure(commitments, events)))


def as_json(value: Any) -> Any:
    """Return the value as it is read from a file."""
    return json.loads(json.dumps(value))


# --- signatures ---


def make_key(name: str) -> Ed25519PrivateKey:
    """Return the key of somebody; it protects nothing."""
    return Ed25519PrivateKey.from_private_bytes(
        sha256(f"conformance kit: {name}".encode()).digest()
    )


def state(document: Document) -> bytes:
    """Return the statement of a document."""
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    events = document["events"]
    return build_statement(
        head, document["integrity"], hash_events(events), len(events), compute_root(events)
    )


def sign_dsse(document: Document, name: str = "mia") -> Document:
    """Return a signature of the scheme dsse-ed25519."""
    key = make_key(name)
    public = from_raw_ed25519(key.public_key().public_bytes_raw())
    return {
        "scheme": "dsse-ed25519",
        "keyid": compute_fingerprint(public),
        "key": format_public_key(public),
        "sig": b64encode(key.sign(dsse.encode_payload(state(document)))).decode(),
    }


def sign_ssh(document: Document, name: str = "mia", namespace: bytes = b"open-token") -> Document:
    """Return a signature of the scheme sshsig, as ssh-keygen makes it."""
    key = make_key(name)
    public = from_raw_ed25519(key.public_key().public_bytes_raw())
    fields = (namespace, b"", b"sha512", sha512(state(document)).digest())
    signed = b"SSHSIG" + b"".join(map(encode_ssh_string, fields))
    signature = encode_ssh_string(b"ssh-ed25519") + encode_ssh_string(key.sign(signed))
    parts = (public, namespace, b"", b"sha512", signature)
    blob = b"SSHSIG\x00\x00\x00\x01" + b"".join(map(encode_ssh_string, parts))
    return {
        "scheme": "sshsig",
        "keyid": compute_fingerprint(public),
        "sig": sshsig.format_armored(blob),
    }


def build_signed(*signatures: Callable[[Document], Document]) -> Document:
    """Return the conversation with signatures."""
    document = build_sealed("tree")
    document["integrity"]["signatures"] = [sign(document) for sign in signatures]
    return document


# --- files ---


def write_json(document: Any) -> bytes:
    """One object in one line."""
    return orjson.dumps(document) + b"\n"


def write_pretty(document: Any) -> bytes:
    """One object in many lines."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def write_lines(records: Iterable[Any]) -> bytes:
    """One record a line."""
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def list_records(document: Document, shape: str = "flat") -> list[Document]:
    """Return the records of the NDJSON form."""
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    records: list[Document] = [{"type": "header", **head}]
    records += [shape_event(one, shape) for one in document["events"]]
    if "integrity" in document:
        records.append({"type": "footer", "integrity": document["integrity"]})
    return records


def shape_event(one: Document, shape: str) -> Document:
    """Return the line of an event in one of three shapes."""
    if shape == "nested":
        return {"type": "event", "event": one}
    if shape == "bare":
        return one
    rest = {name: value for name, value in one.items() if name != "type"}
    return {"type": "event", "event_type": one["type"], **rest}


class Kit:
    """Collects cases and files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._groups: dict[str, Document] = {}

    def begin(self, task: str, about: str) -> None:
        """Begin the cases of a task."""
        self._groups[task] = {"task": task, "about": about, "cases": []}

    def add(self, task: str, id: str, about: str, question: Document, expect: Document) -> None:
        """Add a case."""
        case = {"id": id, "about": about, "input": question, "expect": expect}
        self._groups[task]["cases"].append(case)

    def add_file(self, task: str, name: str, about: str, raw: bytes, expect: Document) -> None:
        """Add a case whose input is a file."""
        path = f"fixtures/{task}/{name}"
        self.files[path] = raw
        self.add(task, name, about, {"file": path}, expect)

    def build(self) -> dict[str, bytes]:
        """Return all files of the kit, by their paths in its folder."""
        groups = {
            f"cases/{task}.json": json.dumps(group, indent=1, ensure_ascii=True).encode() + b"\n"
            for task, group in self._groups.items()
        }
        return self.files | groups


def change(document: Document, *changes: Change) -> Document:
    """Return a changed copy."""
    changed = copy.deepcopy(document)
    for one in changes:
        one(changed)
    return changed


def put(path: str, value: Any) -> Change:
    """Return a change that sets the value at a path of keys and indexes, separated by spaces."""

    def apply(document: Document) -> None:
        target, last = _walk(document, path)
        target[last] = value

    return apply


def remove(path: str) -> Change:
    """Return a change that removes what is at a path."""

    def apply(document: Document) -> None:
        target, last = _walk(document, path)
        del target[last]

    return apply


def _walk(document: Any, path: str) -> tuple[Any, Any]:
    *steps, last = path.split(" ")
    for step in steps:
        document = document[int(step) if isinstance(document, list) else step]
    return document, int(last) if isinstance(document, list) else last


# --- the cases ---


def add_canonicalize(kit: Kit) -> None:
    """JSON texts and their canonical bytes."""
    kit.begin(
        "canonicalize",
        "The RFC 8785 text of a JSON text; {error: true} if two parsers may read it differently.",
    )
    good = {
        "literals": '[null, true, false, "", {}, []]',
        "order-by-utf16": '{"\\ufb33":1,"\\ud83c\\udf0a":2,"\\u00e9":3,"e\\u0301":4,"":5,"Z":6,"a":7,"10":8,"9":9}',
        "nested-order": '{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":0}',
        "escapes": '"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\\"\\\\\\/\\u007f\\u0080\\u2028\\ud83c\\udf0a"',
        "not-normalized": '["\\u00e9", "e\\u0301", "\\u212b"]',
        "integers": "[0, -0, -0.0, 1, -1, 9007199254740991, -9007199254740991]",
        "written-integers": "[1.0, 1e2, 100e-2, 123456789012345680000.0, 1e20]",
        "exponents": "[1e21, 1e-6, 1e-7, 123e-20, 1E+3]",
        "limits": "[5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-400]",
        "shortest": "[0.1, 0.2, 0.30000000000000004, 333333333.33333329, 4.5, 2e-3, 0.000001]",
        "ties": "[9007199254740993.0, 295147905179352830000.0, 1.0000000000000002]",
        "prototype": '{"__proto__": {"a": 1}, "constructor": 2, "hasOwnProperty": 3}',
        "spaces": ' \t\n{ "a" :\r [ 1 , 2 ] } ',
        "depth-128": "[" * 128 + "]" * 128,
    }
    for name, source in good.items():
        canonical = encode_canonical(orjson.loads(source)).decode()
        kit.add_file(
            "canonicalize", f"{name}.json", name, source.encode(), {"canonical": canonical}
        )
    bad: dict[str, tuple[str, bytes]] = {
        "byte-order-mark": ("a byte order mark", b"\xef\xbb\xbf{}"),
        "invalid-utf8": ("a byte that is not UTF-8", b'"\xff"'),
        "surrogate-in-utf8": ("an encoded surrogate", b'"\xed\xa0\x80"'),
        "overlong": ("an overlong encoding", b'"\xc0\xaf"'),
        "duplicate-key": ("a key twice", b'{"a":1,"b":2,"a":1}'),
        "duplicate-escaped-key": ("a key twice, once escaped", b'{"a":1,"\\u0061":1}'),
        "lone-surrogate": ("half a surrogate pair", b'"\\ud83c"'),
        "swapped-surrogates": ("a surrogate pair in the wrong order", b'"\\udf0a\\ud83c"'),
        "surrogate-key": ("half a surrogate pair in a key", b'{"\\udc00":1}'),
        "nan": ("NaN", b"[NaN]"),
        "infinity": ("Infinity", b"[-Infinity]"),
        "too-large": ("a number beyond every float", b"[1e400]"),
        "big-integer": ("an integer that loses digits", b"[9007199254740993]"),
        "too-deep": ("129 arrays in each other", b"[" * 129 + b"]" * 129),
        "trailing-comma": ("a comma at the end", b"[1,]"),
        "leading-zero": ("a number with a leading zero", b"[01]"),
        "plus": ("a number with a plus sign", b"[+1]"),
        "bare-point": ("a number without digits after the point", b"[1.]"),
        "single-quotes": ("single quotes", b"['a']"),
        "control-character": ("a line end in a string", b'"a\nb"'),
        "bad-escape": ("an unknown escape", b'"\\x41"'),
        "comment": ("a comment", b"[1] // one"),
        "second-value": ("a second value", b"[] []"),
        "unfinished": ("a file that breaks off", b'{"a": [1, 2'),
        "empty": ("no value", b""),
        "other-space": ("a space that JSON does not know", b"[\xc2\xa01]"),
    }
    for name, (about, raw) in bad.items():
        kit.add_file("canonicalize", f"{name}.json", about, raw, {"error": True})


def add_read(kit: Kit) -> None:
    """Forms of an export and the document that they hold."""
    kit.begin(
        "read",
        "The document that an export holds, and whether it is complete; {error: true} if it cannot be read.",
    )
    document = build_sealed()
    whole = {"document": document, "complete": True}
    kit.add_file("read", "pretty.json", "one object", write_pretty(document), whole)
    kit.add_file("read", "flat.ndjson", "flat lines", write_lines(list_records(document)), whole)
    plain = seal_as_others_do(build_conversation())
    for shape in ("nested", "bare"):
        raw = write_lines(list_records(plain, shape))
        about = f"{shape} lines"
        kit.add_file("read", f"{shape}.ndjson", about, raw, {"document": plain, "complete": True})
    open_document = {name: value for name, value in document.items() if name != "integrity"}
    raw = write_lines(list_records(open_document))
    expect = {"document": open_document, "complete": False}
    kit.add_file("read", "no-footer.ndjson", "a stream that goes on", raw, expect)
    crlf = write_lines(list_records(document)).replace(b"\n", b"\r\n")
    kit.add_file("read", "crlf.ndjson", "lines that end with CR LF", crlf, whole)
    unended = write_lines(list_records(document)).rstrip(b"\n")
    kit.add_file("read", "no-last-line-end.ndjson", "no line end at the end", unended, whole)
    add_read_footers(kit)
    add_read_errors(kit)


def add_read_footers(kit: Kit) -> None:
    """Footers that say something about the conversation and the participants."""
    records = list_records(build_conversation())
    title = "Low tide"
    late = {"actor_id": "act_006", "kind": "tool", "name": "late"}
    footer = {
        "type": "footer",
        "conversation": {"title": title, "provider": "google"},
        "participants": [build_conversation()["participants"][0], late],
    }
    merged = build_conversation()
    merged["conversation"] |= footer["conversation"]  # type: ignore[operator]
    merged["participants"].append(late)
    about = "the footer adds a participant and corrects the conversation"
    raw = write_lines([*records, footer])
    kit.add_file("read", "late-facts.ndjson", about, raw, {"document": merged, "complete": True})


def add_read_errors(kit: Kit) -> None:
    """Streams that are not what they should be."""
    records = list_records(build_sealed())
    lines = write_lines(records).splitlines(keepends=True)
    broken = {
        "empty-line": ("an empty line", [*lines[:3], b"\n", *lines[3:]]),
        "torn-line": ("a line that breaks off", [*lines[:3], lines[3][:40] + b"\n", *lines[4:]]),
        "two-headers": ("two headers", [lines[0], *lines]),
        "no-header": ("no header", lines[1:]),
        "after-footer": ("an event after the footer", [*lines, lines[1]]),
        "two-footers": ("two footers", [*lines, lines[-1]]),
        "unknown-record": (
            "a record of another kind",
            [*lines[:2], b'{"type":"ping"}\n', *lines[2:]],
        ),
        "not-an-object": ("a line that is no object", [*lines[:2], b"[]\n", *lines[2:]]),
        "duplicate-key": (
            "a key twice in a line",
            [lines[0], b'{"type":"event","type":"event"}\n', *lines[1:]],
        ),
    }
    for name, (about, pieces) in broken.items():
        kit.add_file("read", f"{name}.ndjson", about, b"".join(pieces), {"error": True})
    kit.add_file("read", "not-json.json", "no JSON", b"# Tides\n\n{}", {"error": True})


def expect_verdict(
    document: Document, status: str = "verified", wrong: tuple[str, ...] = (), **more: Any
) -> Document:
    """Return the expected verdict: which parts are wrong is said by hand, hashes are computed."""
    integrity = document["integrity"]
    names = [name for name in ("events_hash", "event_count", "document_hash") if name in integrity]
    if "tree" in integrity:
        names += ["tree.root", "tree.size"]
    if "source" in integrity and not any(name.startswith("source") for name in wrong):
        names.append("source.root")
    parts = dict.fromkeys(names, "match") | dict.fromkeys(wrong, "mismatch")
    events = document["events"]
    return {
        "status": status,
        "parts": parts,
        "events_hash": hash_events(events),
        "signatures": [],
        "covered": True,
    } | more


def add_verify(kit: Kit) -> None:
    """Exports and their verdicts."""
    kit.begin(
        "verify",
        "The verdict on an export: its status, the state of each hash that it claims, and what is computed.",
    )
    add_verified(kit)
    add_tampered(kit)
    add_unverifiable(kit)
    add_committed(kit)
    add_signed(kit)


def add_verified(kit: Kit) -> None:
    """Exports that nobody changed."""
    document = build_sealed("tree")
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    hashes = {
        "document_hash": hash_document(head, hash_events(document["events"])),
        "tree_root": compute_root(document["events"]),
        "statement": state(document).decode(),
    }
    expect = expect_verdict(document, **hashes)
    # Other order of keys, other escapes, other numbers: the same values.
    respelled = json.dumps(_reverse_keys(document), ensure_ascii=True, indent="\t")
    respelled = respelled.replace("1e+21", "1000000000000000000000.0").replace(" 100.0", " 1E2")
    files = {
        "pretty.json": write_pretty(document),
        "compact.json": write_json(document),
        "respelled.json": respelled.encode(),
        "flat.ndjson": write_lines(list_records(document)),
    }
    for name, raw in files.items():
        kit.add_file("verify", name, "the same export in another form", raw, expect)
    plain = seal_as_others_do(build_conversation())
    for shape in ("nested", "bare"):
        raw = write_lines(list_records(plain, shape))
        about = f"{shape} lines of another program"
        kit.add_file("verify", f"{shape}.ndjson", about, raw, expect_verdict(plain))
    empty = seal(build_conversation() | {"events": []})
    kit.add_file("verify", "no-events.json", "no events", write_json(empty), expect_verdict(empty))
    late = build_sealed()
    records = list_records(late)
    records[0]["conversation"] = {"id": late["conversation"]["id"]}
    records[-1]["conversation"] = late["conversation"]
    about = "the footer says what the header did not know"
    kit.add_file("verify", "late-title.ndjson", about, write_lines(records), expect_verdict(late))
    large = build_conversation()
    large["events"][5]["content"]["data"]["exit_code"] = float(2**53)
    large = seal(large)
    raw = write_json(large).replace(b":9007199254740992.0", b":9007199254740993")
    about = "an integer beyond 2^53-1 is hashed as the float it is read as; nothing can sign it"
    kit.add_file("verify", "big-integer.json", about, raw, expect_verdict(large, statement=None))


def _reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reverse_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_reverse_keys(item) for item in value]
    return value


def add_tampered(kit: Kit) -> None:
    """Exports that somebody changed, and which part shows it."""
    document = build_sealed("tree")

    def swap(changed: Document) -> None:
        events = changed["events"]
        events[4], events[5] = events[5], events[4]

    def double(changed: Document) -> None:
        changed["events"].insert(3, copy.deepcopy(changed["events"][3]))

    in_events = ("events_hash", "tree.root")
    counted = (*in_events, "event_count", "tree.size")
    tampers: dict[str, tuple[str, Change, tuple[str, ...]]] = {
        "changed-text": (
            "other words",
            put("events 9 content data 0 text", "At 12:42."),
            in_events,
        ),
        "changed-actor": ("another speaker", put("events 7 actor_id", "act_002"), in_events),
        "changed-role": ("another role", put("events 0 role", "user"), in_events),
        "changed-number": ("a digit", put("events 5 content data exit_code", 1), in_events),
        "changed-usage": ("a count", put("events 2 usage output_tokens", 31), in_events),
        "composed-letter": (
            "another form of the same letter",
            put("events 1 content text", f'Wann ist Flut? שלום\u2028é \u0001\t"\\/ with {MARKER}'),
            in_events,
        ),
        "added-key": ("a key more", put("events 0 note", "x"), in_events),
        "removed-key": ("a key less", remove("events 1 ts"), in_events),
        "swapped-events": ("two events in the other order", swap, in_events),
        "removed-event": ("an event less", remove("events 5"), counted),
        "removed-last-event": ("the end cut off", remove("events -1"), counted),
        "doubled-event": ("an event twice", double, counted),
        "changed-title": ("another title", put("conversation title", "x"), ("document_hash",)),
        "changed-participant": (
            "another name",
            put("participants 1 name", "x"),
            ("document_hash",),
        ),
        "removed-time": ("no time of export", remove("exported_at"), ("document_hash",)),
        "added-top-key": ("a key beside the six", put("more", 1), ("document_hash",)),
        "changed-count": ("another count", put("integrity event_count", 9), ("event_count",)),
        "changed-root": ("another root", put("integrity tree root", "0" * 64), ("tree.root",)),
        "changed-size": ("another size of the tree", put("integrity tree size", 9), ("tree.size",)),
        "upper-case-hash": (
            "a hash in upper case is another text",
            put("integrity document_hash", document["integrity"]["document_hash"].upper()),
            ("document_hash",),
        ),
        "changed-events-hash": (
            "another hash of the events, on which the document hash depends",
            put("integrity events_hash", "0" * 64),
            ("events_hash", "document_hash"),
        ),
    }
    for name, (about, tamper, wrong) in tampers.items():
        changed = change(document, tamper)
        expect = expect_verdict(changed, "mismatch", wrong)
        kit.add_file("verify", f"{name}.json", about, write_json(changed), expect)
    changed = change(document, remove("integrity document_hash"))
    about = "the document hash, which our profile always has, was removed"
    expect = expect_verdict(changed, "mismatch")
    kit.add_file("verify", "removed-document-hash.json", about, write_json(changed), expect)


def add_unverifiable(kit: Kit) -> None:
    """Exports about which nothing can be said."""
    unverifiable = {"status": "unverifiable"}
    document = build_sealed()
    changes: dict[str, tuple[str, Change]] = {
        "no-integrity": ("no integrity", remove("integrity")),
        "integrity-no-object": ("integrity is no object", put("integrity", "sha256")),
        "no-events-hash": ("no hash of the events", remove("integrity events_hash")),
        "other-algorithm": ("another hash function", put("integrity hash_alg", "sha512")),
        "events-no-array": ("events are no array", put("events", {})),
    }
    for name, (about, one) in changes.items():
        raw = write_json(change(document, one))
        kit.add_file("verify", f"{name}.json", about, raw, unverifiable)
    other = change(document, put("integrity c14n", "other"), put("integrity events_hash", "0" * 64))
    about = "a hash over another canonical form cannot be compared"
    kit.add_file("verify", "other-form.json", about, write_json(other), unverifiable)
    raw = write_json(document)
    spellings: dict[str, tuple[str, bytes]] = {
        "bom": ("a byte order mark", b"\xef\xbb\xbf" + raw),
        "duplicate-key": ("a key twice", raw.replace(b'"seq":1,', b'"seq":1,"seq":1,', 1)),
        "nan": ("NaN", raw.replace(b'"exit_code":0', b'"exit_code":NaN')),
        "surrogate": ("half a surrogate pair", raw.replace(b"Be exact.", b"Be \\ud800.")),
        "invalid-utf8": ("a byte that is not UTF-8", raw.replace(b"Be exact.", b"Be \xff.")),
        "text-around": ("words before the object", b"Here it is:\n" + raw),
        "array": ("an array", b"[" + raw + b"]"),
    }
    for name, (about, spelled) in spellings.items():
        kit.add_file("verify", f"{name}.json", about, spelled, unverifiable)
    records = list_records(document)
    lines = {
        "no-footer": ("a stream without a footer", records[:-1]),
        "wrapped-line": ("one line was wrapped", [
            *records[:3], shape_event(document["events"][2], "nested"), *records[4:]
        ]),
        "all-wrapped": ("all lines were wrapped, which our profile does not write",
                        list_records(document, "nested")),
        "all-bare": ("all lines were unwrapped", list_records(document, "bare")),
        "second-footer": ("a second footer", [*records, records[-1]]),
        "second-header": ("a second header", [records[0], *records]),
        "after-footer": ("an event after the footer", [*records, records[3]]),
        "disputed": ("header and footer differ in the integrity", [
            {**records[0], "integrity": {}}, *records[1:]
        ]),
        "events-in-header": ("events in the header", [
            {**records[0], "events": []}, *records[1:]
        ]),
    }  # fmt: skip
    for name, (about, written) in lines.items():
        kit.add_file("verify", f"{name}.ndjson", about, write_lines(written), unverifiable)


def add_committed(kit: Kit) -> None:
    """Exports with commitments to their source."""
    whole = as_json(build_sealed("source"))
    counts = {"verbatim": 10, "altered": 0, "inserted": 0, "dropped": 0}
    expect = expect_verdict(whole, source=counts)
    kit.add_file("verify", "source.json", "nothing is withheld", write_json(whole), expect)
    part = build_withheld()
    counts = {"verbatim": 6, "altered": 1, "inserted": 1, "dropped": 3}
    expect = expect_verdict(part, source=counts)
    about = "one event altered, one inserted, three dropped: the same root"
    assert part["integrity"]["source"]["root"] == whole["integrity"]["source"]["root"]
    kit.add_file("verify", "source-withheld.json", about, write_json(part), expect)
    source = part["integrity"]["source"]
    [altered] = source["commitments"]
    other = "00" * 32
    shifted = copy.deepcopy(source["map"])
    shifted[0][2] += 1
    tampers: dict[str, tuple[str, Change, str]] = {
        "root": ("another root", put("integrity source root", other), "root"),
        "map": ("rows that count too much", put("integrity source map", shifted), "map"),
        "map-order": (
            "rows in another order",
            put("integrity source map", source["map"][::-1]),
            "map",
        ),
        "map-type": ("a map that is no array", put("integrity source map", {}), "map"),
        "salts-short": (
            "a salt less",
            put("integrity source salts", source["salts"][:-24]),
            "salts",
        ),
        "salts-missing": ("no salts", remove("integrity source salts"), "salts"),
        "salt-spelling": (
            "base64 in another spelling",
            put("integrity source salts", source["salts"][:-1]),
            "salts",
        ),
        "commitment": (
            "another commitment",
            put(f"integrity source commitments {altered}", other),
            "root",
        ),
        "commitment-missing": ("no commitment", put("integrity source commitments", {}), "salts"),
        "commitment-unused": (
            "a commitment for no event",
            put("integrity source commitments 99", other),
            "commitments",
        ),
        "commitment-no-hash": (
            "a commitment that is no hash",
            put(f"integrity source commitments {altered}", "x"),
            "commitments",
        ),
        "proof": ("another hash in the proof", put("integrity source proof 0", other), "root"),
        "proof-short": ("a hash less in the proof", remove("integrity source proof -1"), "proof"),
        "proof-long": (
            "a hash more in the proof",
            put("integrity source proof", [*source["proof"], other]),
            "proof",
        ),
        "size": ("fewer events than shown", put("integrity source size", 5), "size"),
        "size-larger": ("more events than there were", put("integrity source size", 11), "proof"),
    }
    for name, (about, tamper, wrong) in tampers.items():
        changed = change(part, tamper)
        expect = expect_verdict(changed, "mismatch", (f"source.{wrong}",), source=None)
        kit.add_file("verify", f"source-{name}.json", about, write_json(changed), expect)
    forged = change(part, put("events 5 content text", "other words"))
    forged = seal(forged, source=forged["integrity"]["source"])
    about = "other words in a verbatim event, with all hashes computed again"
    expect = expect_verdict(forged, "mismatch", ("source.root",), source=None)
    kit.add_file("verify", "source-forged.json", about, write_json(forged), expect)
    unknown = change(part, put("integrity source alg", "ot-leaf/9"))
    expect = expect_verdict(unknown, source=None)
    del expect["parts"]["source.root"]
    expect["parts"]["source"] = "unchecked"
    about = "an unknown kind of commitments is not checked"
    kit.add_file("verify", "source-unknown.json", about, write_json(unknown), expect)


def add_signed(kit: Kit) -> None:
    """Exports with signatures."""
    both = build_signed(sign_ssh, sign_dsse)
    ssh, plain = both["integrity"]["signatures"]

    def expect(document: Document, *states: str, status: str = "verified", **more: Any) -> Document:
        signatures = document["integrity"]["signatures"]
        results = [
            {"scheme": one["scheme"], "keyid": keyid(one), "state": state}
            for one, state in zip(signatures, states, strict=True)
        ]
        wrong = more.pop("wrong", ())
        return expect_verdict(document, status, wrong, signatures=results, **more)

    def keyid(entry: Document) -> str:
        return str(ssh["keyid"]) if entry["scheme"] in ("sshsig", "dsse-ed25519") else ""

    def add(name: str, about: str, document: Document, *states: str, **more: Any) -> None:
        verdict = expect(document, *states, **more)
        kit.add_file("verify", f"signed-{name}.json", about, write_json(document), verdict)

    add(
        "both", "a signature of each scheme", both, "valid", "valid", statement=state(both).decode()
    )
    raw = write_lines(list_records(both))
    about = "the same signatures in a stream"
    kit.add_file("verify", "signed-stream.ndjson", about, raw, expect(both, "valid", "valid"))
    changed = change(both, put("events 0 role", "user"))
    add("changed", "changed after it was signed", changed, "invalid", "invalid",
        status="mismatch", wrong=("events_hash", "tree.root"))  # fmt: skip
    resealed = change(both, remove("events -1"))
    tree = {"alg": "rfc9162-sha256", "size": 9, "root": compute_root(resealed["events"])}
    resealed = seal(resealed, tree=tree, signatures=both["integrity"]["signatures"])
    add("resealed", "the end cut off and all hashes computed again", resealed, "invalid", "invalid")
    coerced = change(both, put("integrity coercions", [{"ptr": "/x", "was": "integer"}]))
    add("coerced", "another field of integrity", coerced, "invalid", "invalid")
    other = build_signed(lambda document: sign_dsse(document) | {"sig": plain["sig"][::-1]})
    other["integrity"]["signatures"][0]["sig"] = sign_dsse(build_sealed(), "mia")["sig"]
    add("of-another", "the signature of another export", other, "invalid")
    extra = change(both, put("integrity signatures 0 note", "trust me"))
    add("extra-field", "a field that nothing covers", extra, "valid", "valid", covered=False)
    unknown = change(both, put("integrity signatures 1", {"scheme": "pgp", "keyid": "", "sig": ""}))
    add("unknown-scheme", "a scheme that is not known", unknown, "valid", "unchecked")
    wrong_key = change(both, put("integrity signatures 1 keyid", "SHA256:x"))
    add("wrong-keyid", "a keyid of another key", wrong_key, "valid", "invalid")
    spaced = change(both, put("integrity signatures 0 sig", ssh["sig"].replace("\n", "\n\n", 1)))
    verdict = expect(spaced, "invalid", "valid")
    verdict["signatures"][0]["keyid"] = ""
    about = "an armour in another spelling"
    kit.add_file("verify", "signed-spelling.json", about, write_json(spaced), verdict)
    foreign = build_signed(lambda document: sign_ssh(document, namespace=b"git"))
    verdict = expect(foreign, "invalid")
    verdict["signatures"][0]["keyid"] = ""
    about = "a signature that was made for something else"
    kit.add_file("verify", "signed-namespace.json", about, write_json(foreign), verdict)
    records = list_records(both)
    records[0]["conversation"] = records[0]["conversation"] | {"title": "Low tide"}
    records[-1]["conversation"] = both["conversation"]
    about = "a header that says something else than what was signed"
    verdict = expect(both, "valid", "valid", covered=False)
    kit.add_file("verify", "signed-header.ndjson", about, write_lines(records), verdict)


def add_validate(kit: Kit) -> None:
    """Exports that break one rule each."""
    kit.begin(
        "validate",
        "Whether an export follows the rules of the format; `checks` may be left out of an answer.",
    )
    document = build_sealed()
    sound = {"valid": True, "checks": []}
    kit.add_file("validate", "sound.json", "a sound export", write_json(document), sound)
    raw = write_lines(list_records(document))
    kit.add_file("validate", "sound.ndjson", "a sound stream", raw, sound)
    bare = build_conversation()
    bare["conversation"] = {"id": "x"}
    kit.add_file("validate", "bare.json", "no optional field", write_json(bare), sound)
    breaches: dict[str, tuple[str, Change, list[str]]] = {
        "version": ("another version", put("open_token_version", "9"), ["OT102"]),
        "top-level": ("a seventh key", put("more", 1), ["OT103"]),
        "gap": ("a gap in seq", put("events 9 seq", 12), ["OT104"]),
        "seq-order": ("a seq twice", put("events 1 seq", 1), ["OT104"]),
        "exported-at": ("a time without a zone", put("exported_at", "2026-11-18 09:30"), ["OT105"]),
        "no-conversation": ("no conversation", remove("conversation"), ["OT106"]),
        "no-participants": ("no participants", remove("participants"), ["OT107"]),
        "no-conversation-id": ("no id", remove("conversation id"), ["OT201"]),
        "started-at": ("a day", put("conversation started_at", "2026-11-18"), ["OT203"]),
        "redaction-mode": ("an unknown mode", put("conversation redaction mode", "x"), ["OT208"]),
        "actor-form": (
            "an actor_id of another form",
            put("participants 4 actor_id", "reader"),
            ["OT302", "OT407"],
        ),
        "actor-twice": (
            "an actor_id twice",
            put("participants 4 actor_id", "act_003"),
            ["OT303", "OT407"],
        ),
        "kind": ("an unknown kind", put("participants 1 kind", "person"), ["OT304"]),
        "event-id": ("an id of another form", put("events 9 id", "10"), ["OT402"]),
        "event-id-twice": ("an id twice", put("events 9 id", "evt_000001"), ["OT403"]),
        "ts": (
            "a time in another zone",
            put("events 1 ts", "2026-11-18T09:00:01+01:00"),
            ["OT404"],
        ),
        "type": ("an unknown type", put("events 5 type", "note"), ["OT405"]),
        "unknown-actor": (
            "an actor that nobody knows",
            put("events 7 actor_id", "act_099"),
            ["OT407"],
        ),
        "visibility": ("an unknown visibility", put("events 0 visibility", "secret"), ["OT408"]),
        "role": ("an unknown role", put("events 0 role", "root"), ["OT409"]),
        "no-role": ("no role", remove("events 0 role"), ["OT410"]),
        "tool-as-message": (
            "a message in the role of a tool",
            put("events 0 role", "tool"),
            ["OT411"],
        ),
        "content-key": ("a fourth key in content", put("events 0 content html", "x"), ["OT422"]),
        "mime": ("another mime", put("events 0 content mime", "text/html"), ["OT423"]),
        "usage": ("a negative count", put("events 2 usage input_tokens", -1), ["OT431"]),
        "no-arguments": (
            "a call without arguments",
            remove("events 3 content data arguments"),
            ["OT503"],
        ),
    }
    for name, (about, breach, checks) in breaches.items():
        changed = change(build_conversation(), breach)
        expect = {"valid": False, "checks": checks}
        kit.add_file("validate", f"{name}.json", about, write_json(changed), expect)


def add_markers(kit: Kit) -> None:
    """Redaction markers: found in texts, and made of values."""
    kit.begin(
        "find_markers", "The redaction markers of a text in order, and the texts between them."
    )
    api = {"type": "api_key", "hash8": "0a1b2c3d"}
    texts: dict[str, tuple[str, str, list[Document], list[str]]] = {
        "none": ("no marker", "nothing here", [], ["nothing here"]),
        "one": ("one marker", f"use {MARKER}!", [api], ["use ", "!"]),
        "adjacent": ("two, side by side", MARKER * 2, [api, api], ["", "", ""]),
        "type-characters": (
            "a type with all characters that it may have",
            "\U0001f30a[REDACTED:A.b_9-c:00000000]\U0001f30a",
            [{"type": "A.b_9-c", "hash8": "00000000"}],
            ["\U0001f30a", "\U0001f30a"],
        ),
        "upper-case": ("a hash in upper case", "[REDACTED:a:0A1B2C3D]", [], ["[REDACTED:a:0A1B2C3D]"]),
        "short": ("a short hash", "[REDACTED:a:0a1b]", [], ["[REDACTED:a:0a1b]"]),
        "no-type": ("no type", "[REDACTED::0a1b2c3d]", [], ["[REDACTED::0a1b2c3d]"]),
        "space": ("a space", "[REDACTED:a b:0a1b2c3d]", [], ["[REDACTED:a b:0a1b2c3d]"]),
        "broken-then-whole": ("half a marker, then one", f"[REDACTED:{MARKER}", [api], ["[REDACTED:", ""]),
    }  # fmt: skip
    for name, (about, source, markers, rest) in texts.items():
        kit.add("find_markers", name, about, {"text": source}, {"markers": markers, "rest": rest})
    kit.begin(
        "marker",
        "The marker of a value: HMAC-SHA-256 with a key derived by HKDF-SHA-256 from the local key.",
    )
    scope = build_conversation()["conversation"]["id"]
    values = {
        "plain": ("a value", scope, "api_key", "hunter2"),
        "unicode": ("a value beyond ASCII", scope, "password", "Flut\U0001f30ae\u0301"),
        "other-conversation": ("the same value elsewhere", "conv_2", "api_key", "hunter2"),
        "all-conversations": ("strategy=hash: no conversation", "", "api_key", "hunter2"),
        "email": ("an address, as it is written", scope, "email", "Mia@Example.ORG"),
        "email-lower": ("the same address in lower case", scope, "email", "mia@example.org"),
        "iban": ("an account with spaces", scope, "iban", "DE02 1203 0000 0000 2020 51"),
        "iban-plain": ("the same account without", scope, "iban", "de02120300000000202051"),
        "phone": ("a number in its international form", scope, "phone", "+493012345678"),
    }
    for name, (about, one_scope, kind, value) in values.items():
        question = {"key": KEY.hex(), "scope": one_scope, "type": kind, "value": value}
        expect = {"marker": build_keyed_factory(KEY, one_scope).build_marker(kind, value)}
        kit.add("marker", name, about, question, expect)


def add_truncate(kit: Kit) -> None:
    """Texts before and after they are cut."""
    kit.begin(
        "truncate",
        "A text of more than 1,281 characters (code points): the first 1,024, an ellipsis, the last 256.",
    )
    tide = "\U0001f30a"
    head, tail = "a" * 1024, "z" * 256
    texts: dict[str, tuple[str, str, str]] = {
        "short": ("a short text", "tide", "tide"),
        "longest-uncut": ("1,281 characters", "a" * 1281, "a" * 1281),
        "shortest-cut": ("1,282 characters", f"{head}bb{tail}", f"{head}…{tail}"),
        "code-points": ("characters beyond U+FFFF count once", tide * 1282, f"{tide * 1024}…{tide * 256}"),
        "uncut-code-points": ("1,281 characters, 2,562 UTF-16 units", tide * 1281, tide * 1281),
        "combining": ("a mark after its letter is a character", "e\u0301" * 700, "e\u0301" * 512 + "…" + "e\u0301" * 128),
        "marker-at-head": (
            "a marker where the head ends stays whole",
            f"{'a' * 1020}{MARKER}{'b' * 900}{tail}",
            f"{'a' * 1020}{MARKER}…{tail}",
        ),
        "marker-at-tail": (
            "a marker where the tail begins stays whole",
            f"{head}{'b' * 900}{MARKER}{'z' * 250}",
            f"{head}…{MARKER}{'z' * 250}",
        ),
        "marker-ends-at-head": (
            "a marker that ends where the head ends",
            f"{'a' * (1024 - len(MARKER))}{MARKER}{'b' * 900}{tail}",
            f"{'a' * (1024 - len(MARKER))}{MARKER}…{tail}",
        ),
        "marker-after-code-points": (
            "positions are code points",
            f"{tide * 1020}{MARKER}{'b' * 900}{tail}",
            f"{tide * 1020}{MARKER}…{tail}",
        ),
        "cut-before": ("a text that was cut is not cut again", f"{head}…{tail}", f"{head}…{tail}"),
    }  # fmt: skip
    for name, (about, source, expected) in texts.items():
        kit.add("truncate", name, about, {"text": source}, {"text": expected})


def add_commit(kit: Kit) -> None:
    """Events and the commitments to them."""
    kit.begin(
        "commit", "The commitments that a program makes with a local key to the events of a source."
    )
    hello = {"id": "evt_000001", "seq": 1, "type": "message", "content": text("Hello")}
    events = build_conversation()["events"]
    sources: dict[str, tuple[str, str, list[Document]]] = {
        "one-event": ("the vector of docs/reference/integrity.md", "conv_1", [hello]),
        "no-events": ("no events", "conv_1", []),
        "conversation": ("all events", build_conversation()["conversation"]["id"], events),
        "seven": ("a tree that is not complete", "Flut \U0001f30a", events[:7]),
        "no-content": ("an event without content", "conv_1", [events[8]]),
    }
    for name, (about, conversation, committed) in sources.items():
        source = SourceCommitments(KEY, conversation)
        salts = []
        for index, one in enumerate(committed):
            source.add(one)
            salts.append(source.salt(index, encode_canonical(one.get("content"))).hex())
        question = {"key": KEY.hex(), "conversation": conversation, "events": committed}
        expect = {
            "size": len(committed),
            "root": source.root,
            "salts": salts,
            "commitments": [source.commitment(index).hex() for index in range(source.size)],
        }
        kit.add("commit", name, about, question, expect)


def build_kit() -> dict[str, bytes]:
    """Return all files of the kit, by their paths in its folder."""
    kit = Kit()
    for add in (
        add_canonicalize,
        add_read,
        add_verify,
        add_validate,
        add_markers,
        add_truncate,
        add_commit,
    ):
        add(kit)
    return kit.build()
