"""Keys and signed exports for tests: made by ssh-keygen, which a test without it skips."""

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from open_token.integrity.signing import load_signer, sign_document
from open_token.integrity.verify import verify

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}'

Document = dict[str, Any]


def create_key(folder: Path, name: str = "mia", kind: str = "ed25519") -> Path:
    """A private key without a passphrase; NAME.pub lies beside it, with a comment that names its
    owner."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    path = folder / name
    size = ["-b", "2048"] if kind == "rsa" else []
    words = [
        "ssh-keygen",
        "-q",
        "-t",
        kind,
        *size,
        "-N",
        "",
        "-C",
        f"{name}@example.org",
        "-f",
        str(path),
    ]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=120)
    return path


def public(key: Path) -> Path:
    """The file of the public half."""
    return key.with_name(key.name + ".pub")


def allowed(path: Path, *keys: Path, options: str = "") -> Path:
    """An allowed_signers file with the keys, each under the name in its comment."""
    lines = []
    for key in keys:
        kind, text, name = public(key).read_text().split()
        lines.append(f"{name} {options} {kind} {text}\n")
    path.write_text("".join(lines))
    return path


def with_signature(document: Document, key: Path, scheme: str = "sshsig") -> Document:
    """The document, signed."""
    return sign_document(document, load_signer(key, scheme))


def recompute_hashes(document: Document) -> Document:
    """The same document with the hashes that fit it, as somebody makes them who wants a change to
    pass."""
    made: Document = copy.deepcopy(document)
    integrity = made["integrity"]
    signatures = integrity.pop("signatures")
    for _ in range(2):  # the hash of the document rests on that of the events
        for part in verify(made).parts:
            if part.state == "mismatch" and part.found:
                owner, _, name = part.name.rpartition(".")
                target = integrity[owner] if owner else integrity
                target[name] = int(part.found) if name in ("event_count", "size") else part.found
    integrity["signatures"] = signatures
    return made


def as_lines(document: Document) -> bytes:
    """The document as NDJSON."""
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    records = [
        {"type": "header", **head},
        *({**event, "type": "event", "event_type": event["type"]} for event in document["events"]),
    ]
    records.append({"type": "footer", "integrity": document["integrity"]})
    return b"".join(orjson.dumps(record) + b"\n" for record in records)
