"""`open-token sign`, and what `verify` and `export` have to do with signatures."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.signers import CHAT, allowed, create_key, public
from open_token.api import export_file
from open_token.cli import main

Out = pytest.CaptureFixture[str]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return create_key(tmp_path)


@pytest.fixture
def signed_file(tmp_path: Path, key: Path) -> Path:
    """An export that is signed."""
    export_file(CHAT, tmp_path / "session.json", sign_key=key, redact="none")
    return tmp_path / "session.json"


def test_in_place(tmp_path: Path, key: Path, capsys: Out) -> None:
    path = tmp_path / "session.ndjson"
    export_file(CHAT, path, mode="ndjson", redact="none")
    assert main(["sign", str(path), "-o", str(path), "--key", str(key)]) == 0
    err = capsys.readouterr().err
    assert "2 events, signed by SHA256:" in err
    assert f"next    open-token verify {path} --trust {public(key)}\n" in err
    assert main(["verify", str(path), "--trust", str(public(key))]) == 0
    assert "ok    signature      by mia@example.org (SHA256:" in capsys.readouterr().out
    assert main(["sign", str(path), "-o", str(path), "--key", str(key), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["was_there"], result["scheme"]) == (
        "open-token/signed/1",
        True,
        "sshsig",
    )


def test_through_pipes(
    tmp_path: Path,
    key: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    export_file(CHAT, tmp_path / "plain.json", redact="none")
    stdin = io.TextIOWrapper(io.BytesIO((tmp_path / "plain.json").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["sign", "-", "--key", str(key), "-q"]) == 0
    made = capsysbinary.readouterr()
    assert made.err == b""
    assert json.loads(made.out)["integrity"]["signatures"]


def test_who_signed(signed_file: Path, key: Path, tmp_path: Path, capsys: Out) -> None:
    assert main(["verify", str(signed_file)]) == 0
    captured = capsys.readouterr()
    assert "--    signature      by an unknown key (SHA256:" in captured.out
    assert "the key came with the file" in captured.err
    assert main(["verify", str(signed_file), "--signed"]) == 4
    assert "not signed by a trusted key" in capsys.readouterr().out
    other = create_key(tmp_path, "ben")
    assert main(["verify", str(signed_file), "--trust", str(public(other))]) == 4
    assert (
        main(["verify", str(signed_file), "--trust", str(allowed(tmp_path / "list", other, key))])
        == 0
    )


def test_the_list_of_the_settings(signed_file: Path, key: Path, capsys: Out) -> None:
    folder = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    allowed(folder / "allowed_signers", key)
    assert main(["verify", str(signed_file), "--signed"]) == 0
    allowed(folder / "allowed_signers", key, options='valid-before="20200101"')
    capsys.readouterr()
    assert main(["verify", str(signed_file), "--signed"]) == 4
    captured = capsys.readouterr()
    assert "--    signature      not trusted (SHA256:" in captured.out
    assert "the key of mia@example.org, but it is no longer valid" in captured.out
    assert "the key came with the file" not in captured.err


def test_no_signature(tmp_path: Path, capsys: Out) -> None:
    export_file(CHAT, tmp_path / "plain.json", redact="none")
    assert main(["verify", str(tmp_path / "plain.json"), "--signed"]) == 4
    assert "FAIL  signature      none" in capsys.readouterr().out


def test_a_signature_that_does_not_hold(signed_file: Path, key: Path, capsys: Out) -> None:
    document = json.loads(signed_file.read_bytes())
    document["integrity"]["profile"] = "another"
    signed_file.write_text(json.dumps(document))
    for words in ([], ["--trust", str(public(key))]):
        assert main(["verify", str(signed_file), *words]) == 4
        out = capsys.readouterr().out
        assert "FAIL  signature" in out
        assert out.endswith("hashes match, but a signature is invalid\n")
    document["events"][0]["content"]["text"] = "hullo"
    signed_file.write_text(json.dumps(document))
    assert main(["verify", str(signed_file)]) == 1
    assert main(["sign", str(signed_file), "--key", str(key)]) == 3
    assert "sign.unverified" not in capsys.readouterr().out


def test_what_a_file_says_is_not_obeyed_by_the_terminal(signed_file: Path, capsys: Out) -> None:
    document = json.loads(signed_file.read_bytes())
    document["integrity"]["signatures"] = [
        {"scheme": "\x1b[31m\u202eevil", "keyid": "\x1b[2J", "sig": "\x07"}
    ]
    signed_file.write_text(json.dumps(document))
    assert main(["verify", str(signed_file)]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "\u202e" not in captured.out
    assert "unknown scheme" in captured.out


def test_for_scripts(signed_file: Path, key: Path, capsys: Out) -> None:
    assert main(["verify", str(signed_file), "--trust", str(public(key)), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["signatures"][0]["by"] == "mia@example.org"
    assert (
        json.loads(result["statement"])["subject"][0]["name"]
        == json.loads(signed_file.read_bytes())["conversation"]["id"]
    )


@pytest.mark.parametrize("mode", ["json", "ndjson"])
def test_others_verify_with_ssh_keygen_alone(tmp_path: Path, key: Path, mode: str) -> None:
    """The recipe of docs/reference/integrity.md, with processes of their own."""
    signed_file = tmp_path / "session"
    export_file(CHAT, signed_file, mode=mode, sign_key=key, redact="none")
    tool = [sys.executable, "-m", "open_token"]
    statement = subprocess.run(
        [*tool, "verify", str(signed_file), "--statement"], capture_output=True, check=True
    ).stdout
    last = (
        signed_file.read_bytes().splitlines()[-1] if mode == "ndjson" else signed_file.read_bytes()
    )
    (tmp_path / "session.sig").write_text(json.loads(last)["integrity"]["signatures"][0]["sig"])
    allowed(tmp_path / "allowed_signers", key)
    words = [
        "-Y",
        "verify",
        "-n",
        "open-token",
        "-I",
        "mia@example.org",
        "-s",
        "session.sig",
        "-f",
        "allowed_signers",
    ]
    done = subprocess.run(
        ["ssh-keygen", *words], input=statement, cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0
    assert subprocess.run(
        ["ssh-keygen", *words], input=statement + b" ", cwd=tmp_path, capture_output=True
    ).returncode


def test_a_statement_only_of_what_holds(tmp_path: Path, signed_file: Path, capsys: Out) -> None:
    signed_file.write_bytes(signed_file.read_bytes().replace(b"hello", b"hullo"))
    assert main(["verify", str(signed_file), "--statement"]) == 1
    (tmp_path / "other.json").write_text("[]")
    assert main(["verify", str(tmp_path / "other.json"), "--statement"]) == 3
    assert "no statement" in capsys.readouterr().err


def test_errors(tmp_path: Path, key: Path, capsys: Out) -> None:
    export_file(CHAT, tmp_path / "plain.json", redact="none")
    plain = str(tmp_path / "plain.json")
    for words, code, said in (
        (["sign", plain], 2, "sign_key"),
        (["sign", plain, "--key", str(tmp_path / "missing")], 3, "no such key"),
        (["sign", plain, "--key", str(key), "--json"], 2, "-o FILE"),
        (["sign", plain, "--key", str(key), "-o", str(tmp_path)], 3, "folder"),
        (["sign", plain, "--key", str(key), "--scheme", "rot13"], 2, "rot13"),
        (["sign", str(tmp_path / "nothing"), "--key", str(key)], 3, "nothing"),
        (["verify", plain, "--trust", str(tmp_path / "nothing")], 3, "does not exist"),
        (["verify", plain, "--trust", plain], 3, "plain.json:1"),
        (["verify", plain, "--trust", ""], 2, "is empty"),
        (["sign", plain, "--key", ""], 2, "is empty"),
        (["export", plain, "--sign", str(key), "integrity=none"], 2, "integrity"),
        (["export", plain, "--sign", str(key), "--follow"], 2, "--follow"),
        (["export", plain, "--sign", "default"], 2, "sign_key"),
    ):
        assert main(words) == code, words
        captured = capsys.readouterr()
        assert said in captured.err + captured.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mia", "mia.pub", "plain.json"]


def test_export_and_sign_at_once(tmp_path: Path, key: Path, capsys: Out) -> None:
    (tmp_path / "chat.json").write_bytes(CHAT)
    for words in ([], ["mode=ndjson", "integrity=source"], ["max_bytes=4000", "integrity=tree"]):
        target = tmp_path / "session.json"
        chat = str(tmp_path / "chat.json")
        assert (
            main(["export", chat, "redact=none", "--sign", str(key), "-o", str(target), *words])
            == 0
        )
        assert "sign    SHA256:" in capsys.readouterr().err
        assert main(["verify", str(target), "--trust", str(public(key))]) == 0
        assert target.stat().st_size <= 4000 or words[:1] != ["max_bytes=4000"]


def test_what_changes_a_signed_export_drops_its_signature(
    signed_file: Path, tmp_path: Path, key: Path, capsys: Out
) -> None:
    target = tmp_path / "again.json"
    for words, kept in (
        ([], True),
        (["mode=ndjson"], True),
        (["exported_at=omit"], False),
        (["integrity=tree"], False),
        (["integrity=none"], False),
    ):
        assert main(["export", str(signed_file), "redact=none", "-o", str(target), *words]) == 0
        assert ("signatures-dropped" in capsys.readouterr().err) is not kept, words
        assert (main(["verify", str(target), "--trust", str(public(key))]) == 0) is kept
        capsys.readouterr()
    assert main(["redact", str(signed_file), "--level", "strict", "-o", str(target)]) == 0
    assert b"signatures" not in target.read_bytes()


def test_what_is_no_signature_is_not_carried_along(
    signed_file: Path, tmp_path: Path, capsys: Out
) -> None:
    document = json.loads(signed_file.read_bytes())
    document["integrity"]["signatures"].append({"scheme": "other", "note": "hidden words"})
    signed_file.write_text(json.dumps(document))
    assert (
        main(["export", str(signed_file), "redact=none", "-o", str(tmp_path / "again.json")]) == 0
    )
    assert "signatures-dropped" in capsys.readouterr().err
    again = json.loads((tmp_path / "again.json").read_bytes())
    assert [entry["scheme"] for entry in again["integrity"]["signatures"]] == ["sshsig"]


def test_what_no_signature_covers_is_a_failure_where_one_is_asked_for(
    tmp_path: Path, key: Path, capsys: Out
) -> None:
    path = tmp_path / "session.ndjson"
    export_file(CHAT, path, mode="ndjson", redact="none")
    header, *lines, footer = path.read_bytes().splitlines(keepends=True)
    head = json.loads(header)
    end = json.loads(footer) | {"conversation": head["conversation"]}
    path.write_bytes(b"".join((header, *lines, json.dumps(end).encode() + b"\n")))
    assert main(["sign", str(path), "-o", str(path), "--key", str(key)]) == 0
    trust = ["--trust", str(public(key))]
    assert main(["verify", str(path), *trust]) == 0
    head["conversation"]["source_runtime"] = "another"
    _, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(json.dumps(head).encode() + b"\n" + rest)
    capsys.readouterr()
    assert main(["verify", str(path), *trust]) == 4
    assert "signed by a trusted key, but not all of it" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0
