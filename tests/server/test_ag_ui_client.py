"""The official client of AG-UI in Node against a real server; `make test-full` installs it."""

import json
import subprocess
from pathlib import Path

import pytest

from helpers.server.live_server import run_server

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".node.full"
SCRIPT = """
import { createRequire } from "node:module";
import assert from "node:assert/strict";
const require = createRequire(%(packages)s);
const { HttpAgent } = require("@ag-ui/client");
const [address, key] = process.argv.slice(-2);
const agent = new HttpAgent({
  url: `${address}/api/ag-ui`,
  headers: { Authorization: `Bearer ${key}` },
  threadId: "thread-1",
});
const say = async (content, id) => {
  agent.addMessage({ id, role: "user", content });
  await agent.runAgent();
};
await say("think list files", "m1");
const roles = agent.messages.map((message) => message.role);
assert.deepEqual([...new Set(roles)].sort(), ["assistant", "reasoning", "tool", "user"]);
const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
assert.equal(calls[0].function.name, "Glob");
assert.deepEqual(JSON.parse(calls[0].function.arguments), { pattern: "**/*" });
await say("hello", "m2");
assert.match(agent.messages.at(-1).content, /demo/);
process.exit(0);
"""


@pytest.mark.skipif(
    not (PACKAGES / "node_modules" / "@ag-ui" / "client").exists(),
    reason="@ag-ui/client is not installed; see scripts/full.sh",
)
def test_the_official_client_holds_a_conversation(tmp_path: Path) -> None:
    source = SCRIPT % {"packages": json.dumps(f"{PACKAGES}/")}
    with run_server(tmp_path / "data") as (_, result):
        command = [
            "node",
            "--input-type=module",
            "--eval",
            source,
            result["address"],
            result["key"],
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
