"""VS Code Copilot Chat: documents, logs of patches, listings, files of other formats."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from open_token.agents.vscode_copilot.detect import parse_folder
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format, load_reader
from open_token.sources.source import Source
from readers.provider_readers import build_read_function
from readers.session_files import assert_paired, assert_takes_odd_shapes, lines, summarize_messages

READER = READERS["vscode_copilot"]
read = build_read_function(READER)
GOLDEN = Path(__file__).parent.parent / "golden" / "vscode_copilot"


def request(name: str, text: str, *parts: Any, **more: Any) -> dict[str, Any]:
    return {"requestId": name, "message": {"text": text}, "response": list(parts), **more}


def session(*requests: Any, **more: Any) -> dict[str, Any]:
    return {
        "sessionId": "s",
        "responderUsername": "GitHub Copilot",
        "requests": list(requests),
        **more,
    }


def initial(*requests: Any) -> dict[str, Any]:
    return {"kind": 0, "v": session(*requests)}


class TestSniff:
    def test_a_document_on_one_line(self) -> None:
        data = json.dumps(session(request("r", "hi", {"value": "Hello."}))).encode()
        assert detect_format(Source("x", data=data)) == "vscode_copilot"
        _, events = read(data)
        assert summarize_messages(events) == [
            ("user", "public", "hi"),
            ("assistant", "public", "Hello."),
        ]

    @pytest.mark.parametrize(
        "value",
        [
            {"requests": []},
            {"requests": [{"message": "hi"}]},
            {"requests": [{"requestId": "r", "method": "GET"}]},
            {"kind": 0, "v": {}},
            {"kind": 1, "k": ["a"], "v": 1},
        ],
    )
    def test_other_requests_are_not_claimed(self, value: Any) -> None:
        assert not READER.sniff(Source("x", data=lines(value)))

    def test_a_log_that_began_without_requests(self) -> None:
        first = {"kind": 0, "v": {"sessionId": "s", "creationDate": 1770000000000, "requests": []}}
        push = {"kind": 2, "k": ["requests"], "v": [request("r", "hi")]}
        _, events = read(lines(first, push))
        assert summarize_messages(events) == [("user", "public", "hi")]

    def test_nobody_else_claims_it(self) -> None:
        for path in sorted(GOLDEN.glob("**/*.json*")):
            if path.name not in ("expected.json", "workspace.json"):
                source = Source.of(path)
                claims = [name for name in READERS if load_reader(name).sniff(source)]
                assert claims == ["vscode_copilot"]


class TestPatches:
    def test_a_patch_of_a_field_replaces_it(self) -> None:
        patch = {"kind": 1, "k": ["requests", 0, "response"], "v": [{"value": "Two."}]}
        _, events = read(lines(initial(request("r", "1+1", {"value": "Tw"})), patch))
        assert summarize_messages(events)[1] == ("assistant", "public", "Two.")

    @pytest.mark.parametrize(
        "patch",
        [
            {"kind": 1, "k": [], "v": 1},
            {"kind": 1, "k": ["requests", 4, "x"], "v": 1},
            {"kind": 1, "k": ["requests", "0", "x"], "v": 1},
            {"kind": 1, "k": "requests", "v": 1},
            {"kind": 1, "k": ["sessionId", "x"], "v": 1},
            {"kind": 2, "k": ["sessionId"], "v": [1]},
            {"kind": 2, "k": ["requests"], "v": {}},
            {"kind": 1, "k": ["a"] * 100, "v": 1},
            {"kind": 0, "v": None},
        ],
    )
    def test_a_patch_that_does_not_fit_is_noted(self, patch: Any) -> None:
        record, events = read(lines(initial(request("r", "hi")), patch))
        assert [note.code for note in record.notes] == ["broken-patch"]
        assert summarize_messages(events) == [("user", "public", "hi")]

    def test_a_line_that_is_no_patch_is_noted(self) -> None:
        record, _ = read(lines(initial(request("r", "hi")), {"type": "hologram"}, 7))
        assert [(note.code, note.count) for note in record.notes] == [("skipped-record", 2)]

    def test_time_grows_with_the_number_of_patches_alone(self) -> None:
        def measure(count: int) -> float:
            push = {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "word "}]}
            data = lines(initial(request("r", "hi")), *[push] * count)
            start = time.process_time()
            read(data)
            return time.process_time() - start

        measure(100)
        assert measure(20_000) < 40 * max(measure(2_000), 0.02)


def test_calls_pair_whatever_is_shown() -> None:
    rounds = [{"toolCalls": [{"id": str(n), "name": f"t{n % 3}"} for n in range(9)]}]
    shown = [
        {"kind": "toolInvocationSerialized", "toolId": f"t{n}", "toolCallId": f"x{n}"}
        for n in (2, 0, 5, 1)
    ]
    result = {"metadata": {"toolCallRounds": rounds}}
    _, events = read(session(request("r", "go", *shown, result=result)))
    calls = [e["content"]["data"] for e in events if e["type"] == "tool_use"]
    assert [call["native_call_id"] for call in calls] == [str(n) for n in range(9)]
    assert_paired(events)


def test_folders() -> None:
    assert parse_folder("file:///home/ada/a%20b") == "/home/ada/a b"
    assert parse_folder("file:///c%3A/Users/Ada") == "c:\\Users\\Ada"
    assert parse_folder("vscode-remote://ssh/home") == "vscode-remote://ssh/home"
    assert parse_folder("file://[") is None
    assert parse_folder(3) is None


@pytest.mark.parametrize(
    "place",
    [
        ".config/Code/User/workspaceStorage/f00/chatSessions",
        ".config/Code - Insiders/User/workspaceStorage/f00/chatSessions",
        "Library/Application Support/VSCodium/User/workspaceStorage/f00/chatSessions",
        "AppData/Roaming/Code/User/workspaceStorage/f00/chatSessions",
        ".vscode-server/data/User/workspaceStorage/f00/chatSessions",
        ".config/Code/User/globalStorage/emptyWindowChatSessions",
    ],
)
def test_sessions_are_listed_with_title_and_folder(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    log = [initial(request("r", "What is it?")), {"kind": 1, "k": ["customTitle"], "v": "A thing"}]
    (folder / "s.jsonl").write_bytes(lines(*log))
    (folder / "t.json").write_text(json.dumps(session(request("r", "Why?")), indent=1))
    if "workspaceStorage" in place:
        (folder.parent / "workspace.json").write_text('{"folder": "file:///home/ada"}')
    discovery = Discovery({}, tmp_path)
    found = {s.path.name: discovery.inspect(s) for s in discovery.sessions()}
    assert {s.reader for s in found.values()} == {"vscode_copilot"}
    assert found["s.jsonl"].title == "A thing"
    assert found["t.json"].title == "Why?"
    cwd = "/home/ada" if "workspaceStorage" in place else None
    assert {s.cwd for s in found.values()} == {cwd}


def test_takes_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "vscode_copilot")
