"""Building a dataset: what is read, what is written, and how it goes on after an interruption."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import msgspec
import pyarrow.parquet as parquet
import pytest

from dataset.conftest import CASES, Build, find_input
from open_token.cli import main
from open_token.dataset import PROFILES
from open_token.dataset.read import iter_documents, read_arrow


def read_manifest(folder: Path) -> dict[str, object]:
    manifest: dict[str, object] = json.loads((folder / "manifest.json").read_bytes())
    return manifest


def hash_files(folder: Path) -> dict[str, str]:
    """Return a hash of every file that a user of the dataset reads."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "_open_token" not in path.parts
    }


def run_in_small_shards(folder: Path, output: str) -> "subprocess.Popen[bytes]":
    """Start a process that builds a dataset of `sessions` with a shard for each kilobyte."""
    code = (
        "import open_token.cli.dataset as command, sys\n"
        "command._MEGABYTE = 1000\n"
        "from open_token.cli import main\n"
        f"sys.exit(main('dataset sessions -o {output} --shard-mb 1 --jobs 1 -q'.split()))"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder)


def count_finished_shards(folder: Path) -> int:
    return len(list(folder.glob("_open_token/shards/*.json")))


def export_compact(path: Path, target: Path, *words: str) -> bytes:
    assert main(["export", str(path), "pretty=false", "-o", str(target), "-q", *words]) == 0
    return target.read_bytes()


class TestContent:
    """What is in the tables."""

    def test_documents_come_back_byte_for_byte(
        self, sessions: Path, build: Build, tmp_path: Path
    ) -> None:
        folder = build("sessions")
        expected = sorted(
            export_compact(path, tmp_path / "export.json", "exported_at=omit")
            for path in sessions.rglob("*.json*")
        )
        assert sorted(iter_documents(str(folder))) == expected

    def test_the_command_writes_documents_back(
        self, sessions: Path, build: Build, tmp_path: Path
    ) -> None:
        folder = build("sessions")
        assert main(["dataset", "--documents", str(folder), "-o", str(tmp_path / "back")]) == 0
        written = sorted(path.read_bytes() for path in (tmp_path / "back").glob("*.json"))
        assert written == sorted(iter_documents(str(folder)))

    def test_secrets_are_masked(self, build: Build, tmp_path: Path) -> None:
        secret = "ghp_" + "a1B2c3D4e5F6" * 3
        messages = [
            {"role": "user", "content": f"use {secret}"},
            {"role": "assistant", "content": "ok"},
        ]
        (tmp_path / "chat.json").write_text(json.dumps({"messages": messages}))
        folder = build("chat.json")
        texts = read_arrow(str(folder), "events").to_table()["text"].to_pylist()
        assert not any(secret in text for text in texts if text)
        assert any("[REDACTED:" in text for text in texts if text)

    @pytest.mark.parametrize(
        ("policy", "option", "level"),
        [
            ('min_redact = "pii"', "none", "pii"),
            ('min_redact = "pii"', "strict", "strict"),
            ("never_export_private_keys = true", "none", "private-keys"),
            ("", "none", "none"),
        ],
    )
    def test_the_card_names_the_level_that_applied(
        self,
        build: Build,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        policy: str,
        option: str,
        level: str,
    ) -> None:
        (tmp_path / "settings").mkdir()
        (tmp_path / "settings" / "config.toml").write_text(f"[policy]\n{policy}\n")
        monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path))
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        (tmp_path / "chat.json").write_text(json.dumps({"messages": messages}))
        folder = build("chat.json", f"redact={option}")
        assert read_manifest(folder)["redaction"] == level
        assert f"**Redaction:** level `{level}`." in (folder / "README.md").read_text()

    @pytest.mark.parametrize("profile", ["hf", "scout"])
    def test_a_row_holds_one_branch(self, build: Build, tmp_path: Path, profile: str) -> None:
        case = find_input("claude_code/branch_rewind_all")
        shutil.copyfile(case, tmp_path / "session.jsonl")
        folder = build("session.jsonl", "branches=all", "--to", profile)
        (row,) = read_arrow(str(folder)).to_table().to_pylist()
        assert row["abandoned_branch_count"] == 1
        assert "The background is dark grey now." in str(row["messages"])
        assert "Black." not in str(row["messages"])

    def test_facts_of_a_conversation(self, build: Build, tmp_path: Path) -> None:
        lines = [
            {"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}],
             "reward": 0.5, "instance_id": "sum-1"},
            {"messages": [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "5"}],
             "reward": 0.0, "instance_id": "sum-2"},
        ]  # fmt: skip
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        rows = read_arrow(str(build("rows.jsonl"))).to_table().to_pylist()
        assert [row["reward"] for row in rows] == [0.5, 0.0]
        assert [row["success"] for row in rows] == [True, False]
        assert [row["prompt_count"] for row in rows] == [1, 1]
        assert [row["fidelity"] for row in rows] == [1.0, 1.0]
        assert [row["source"] for row in rows] == ["rows.jsonl", "rows.jsonl"]

    @pytest.mark.parametrize("profile", PROFILES)
    def test_every_profile_is_written(self, sessions: Path, build: Build, profile: str) -> None:
        manifest = read_manifest(build("sessions", "--to", profile))
        assert manifest["profile"] == profile
        assert manifest["conversations"] == len(list(sessions.rglob("*.json*")))
        assert all(file["rows"] for file in manifest["files"])  # type: ignore[attr-defined]

    def test_openai_messages_pair_calls_with_results(self, sessions: Path, build: Build) -> None:
        table = parquet.read_table(build("sessions", "--to", "hf") / "data")
        answered = 0
        for row in table.to_pylist():
            messages = [json.loads(message) for message in row["messages"]]
            calls = {call["id"] for message in messages for call in message.get("tool_calls", [])}
            results = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
            assert results <= calls
            answered += len(results)
        assert answered

    def test_row_groups_hold_whole_rows_in_order(
        self, sessions: Path, build: Build, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = list(iter_documents(str(build("sessions", name="whole"))))
        monkeypatch.setattr("open_token.dataset.shard._ROW_GROUP_BYTES", 1000)
        folder = build("sessions", name="cut")
        groups = [parquet.ParquetFile(path).num_row_groups for path in folder.rglob("*.parquet")]
        assert max(groups) > 1
        assert list(iter_documents(str(folder))) == whole


class TestSources:
    """Files, folders, patterns, archives and URLs."""

    def test_archives_have_the_same_conversations(
        self, sessions: Path, build: Build, tmp_path: Path
    ) -> None:
        with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
            archive.add(sessions, "sessions")
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as zipped:
            for path in sessions.rglob("*.json*"):
                zipped.write(path, str(path.relative_to(sessions)))
        expected = sorted(iter_documents(str(build("sessions"))))
        for name in ("all.tar.gz", "all.zip"):
            assert sorted(iter_documents(str(build(name, name=f"{name}.set")))) == expected

    def test_a_pattern_selects_files(self, sessions: Path, build: Build) -> None:
        runtimes = read_arrow(str(build("sessions/**/one.jsonl"))).to_table()["runtime"]
        assert runtimes.to_pylist() == ["claude_code"]

    def test_a_url_is_read_and_written(self, sessions: Path, build: Build, tmp_path: Path) -> None:
        expected = sorted(iter_documents(str(build("sessions"))))
        target = (tmp_path / "remote").as_uri()
        assert main(["dataset", sessions.as_uri(), "-o", target, "--jobs", "1", "-q"]) == 0
        assert sorted(iter_documents(target)) == expected
        assert read_arrow(target).count_rows() == len(expected)

    def test_what_is_no_conversation_is_listed(self, sessions: Path, build: Build) -> None:
        (sessions / "notes.txt").write_text("nothing that anybody said")
        (sessions / "broken.jsonl").write_text('{"type":"user"')
        folder = build("sessions", code=1)
        lines = (folder / "errors.ndjson").read_bytes().splitlines()
        errors = {entry["source"]: entry for entry in map(json.loads, lines)}
        assert errors["notes.txt"]["status"] == "skipped"
        assert "broken.jsonl" in errors
        assert "anybody" not in (folder / "errors.ndjson").read_text()

    def test_a_broken_archive_does_not_stop_the_rest(self, sessions: Path, build: Build) -> None:
        (sessions / "broken.tar.gz").write_bytes(b"\x1f\x8b not a tar")
        folder = build("sessions", code=1)
        assert read_manifest(folder)["failed"] == 1

    def test_a_conversation_too_long_for_memory_is_listed(
        self, sessions: Path, build: Build, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("open_token.dataset.conversation.MAX_BUFFERED", 3000)
        folder = build("sessions", code=1)
        lines = (folder / "errors.ndjson").read_text().splitlines()
        errors = [json.loads(line) for line in lines]
        assert {entry["code"] for entry in errors} == {"output.long"}
        assert read_manifest(folder)["conversations"] == len(CASES) - len(errors) > 0

    @pytest.mark.full
    def test_a_member_of_gigabytes_needs_little_memory(
        self, sessions: Path, build: Build, tmp_path: Path
    ) -> None:
        """The member is a hole in the archive; the session after it must be found."""
        size = 9 << 28
        path = tmp_path / "logs.tar"
        with path.open("wb") as out:
            hole = tarfile.TarInfo("logs/core.dump")
            hole.size = size
            out.write(hole.tobuf())
            out.seek(size, 1)
            (case,) = sessions.glob("codex/*")
            data = case.read_bytes()
            last = tarfile.TarInfo("logs/session.jsonl")
            last.size = len(data)
            padding = -len(data) % tarfile.BLOCKSIZE
            out.write(last.tobuf() + data + bytes(padding + 2 * tarfile.BLOCKSIZE))
        code = (
            "from pathlib import Path\n"
            "from open_token.cli import main\n"
            "assert main('dataset logs.tar -o large --jobs 1 -q'.split()) == 0\n"
            # Not ru_maxrss, in which the memory of the process of the tests counts too.
            "status = Path('/proc/self/status').read_text()\n"
            "print(status.partition('VmHWM:')[2].split()[0])"
        )
        command = [sys.executable, "-c", code]
        output = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
        assert int(output) < 400_000
        manifest = read_manifest(tmp_path / "large")
        assert (manifest["conversations"], manifest["skipped"]) == (1, 1)

    def test_missing_sources_are_an_error(
        self, build: Build, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["dataset", "nowhere", "-o", "out"]) == 3
        assert "no such file or folder" in capsys.readouterr().err


class TestDuplicates:
    """A conversation is in a dataset once."""

    @pytest.mark.parametrize("profile", ["events", "hf", "docent"])
    def test_copies_in_other_shards_are_removed(
        self, sessions: Path, build: Build, profile: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = read_manifest(build("sessions", "--to", profile, name="plain"))
        shutil.copytree(sessions, sessions.parent / "copies")
        monkeypatch.setattr("open_token.cli.dataset._MEGABYTE", 1)
        folder = build("sessions", "copies", "--to", profile, "--shard-mb", "1", name="both")
        both = read_manifest(folder)
        assert both["conversations"] == plain["conversations"]
        assert both["duplicates"] == plain["conversations"]
        assert both["events"] == plain["events"]
        rows = sum(file["rows"] for file in both["files"])  # type: ignore[attr-defined]
        assert rows == sum(file["rows"] for file in plain["files"])  # type: ignore[attr-defined]


class TestContinuation:
    """Interrupted, extended and repeated datasets."""

    def test_the_same_sources_give_the_same_bytes(self, sessions: Path, build: Build) -> None:
        first = hash_files(build("sessions", name="first"))
        assert hash_files(build("sessions", name="second")) == first

    def test_finished_shards_are_not_written_again(self, sessions: Path, build: Build) -> None:
        folder = build("sessions")
        times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
        assert times
        build("sessions")
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == times

    def test_new_sessions_become_further_shards(self, sessions: Path, build: Build) -> None:
        before = read_manifest(build("sessions"))
        messages = [{"role": "user", "content": "new"}, {"role": "assistant", "content": "yes"}]
        (sessions / "new.json").write_text(json.dumps({"messages": messages}))
        after = read_manifest(build("sessions"))
        assert after["conversations"] == before["conversations"] + 1  # type: ignore[operator]

    def test_other_options_are_refused(
        self, sessions: Path, build: Build, capsys: pytest.CaptureFixture[str]
    ) -> None:
        build("sessions")
        assert main(["dataset", "sessions", "-o", "dataset", "redact=pii"]) == 3
        assert "other options" in capsys.readouterr().err

    def test_a_changed_source_is_named(
        self, sessions: Path, build: Build, capsys: pytest.CaptureFixture[str]
    ) -> None:
        build("sessions")
        path = next(sessions.rglob("one.jsonl"))
        path.write_bytes(path.read_bytes() * 2)
        assert main(["dataset", "sessions", "-o", "dataset"]) == 0
        assert "changed since its shard was finished" in capsys.readouterr().err

    @pytest.mark.full
    def test_a_process_killed_twenty_times_loses_and_doubles_nothing(
        self, sessions: Path, tmp_path: Path
    ) -> None:
        """Kill -9 at random moments of the work; then the files are those of one whole run."""
        for number in range(1200):
            messages = [
                {"role": "user", "content": f"question {number}"},
                {"role": "assistant", "content": "answer"},
            ]
            (sessions / f"{number}.json").write_text(json.dumps({"messages": messages}))
        run_in_small_shards(tmp_path, "whole").wait()
        rng = random.Random(19)
        for _ in range(20):
            finished = count_finished_shards(tmp_path / "killed")
            process = run_in_small_shards(tmp_path, "killed")
            while count_finished_shards(tmp_path / "killed") == finished:
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            assert process.wait() == -signal.SIGKILL
        assert run_in_small_shards(tmp_path, "killed").wait() == 0
        assert hash_files(tmp_path / "killed") == hash_files(tmp_path / "whole")
        assert not list((tmp_path / "killed").rglob(".part-*"))

    def test_two_processes_do_not_write_one_dataset(
        self, sessions: Path, build: Build, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        from open_token.storage.files import try_lock

        (tmp_path / "dataset" / "_open_token").mkdir(parents=True)
        with try_lock(tmp_path / "dataset" / "_open_token" / "lock") as is_ours:
            assert is_ours
            assert main(["dataset", "sessions", "-o", "dataset"]) == 3
        assert "another process" in capsys.readouterr().err


class TestUsage:
    """Errors and messages."""

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["sessions"], "where should the dataset go"),
            (["-o", "out"], "no sources"),
            (["sessions", "-o", "out", "--to", "nothing"], "unknown profile"),
            (["sessions", "-o", "out", "--engine", "spark"], "unknown engine"),
            (["sessions", "-o", "out", "--address", "auto"], "needs --engine ray"),
            (["sessions", "-o", "out", "--shard-mb", "0"], "--shard-mb must be"),
            (["sessions", "-o", "out", "native=full"], "cannot hold native data"),
        ],
    )
    def test_wrong_usage_says_what_to_do(
        self,
        sessions: Path,
        build: Build,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        expected: str,
    ) -> None:
        assert main(["dataset", *words]) == 2
        assert expected in capsys.readouterr().err

    def test_json_prints_the_manifest(
        self, sessions: Path, build: Build, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["dataset", "sessions", "-o", "dataset", "--json"]) == 0
        printed = msgspec.json.decode(capsys.readouterr().out)
        assert printed["conversations"] == len(list(sessions.rglob("*.json*")))
