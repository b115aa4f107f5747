"""The ES module of the client, in Node against a real server: what it folds is what the server has,
also after its connection or the server was lost."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.server.live_server import run_server

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]
ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "src" / "open_token" / "server" / "static" / "client.js"
START = """
import { Client, ServerError, SessionFold } from %(module)s;
import assert from "node:assert/strict";
const [address, key] = process.argv.slice(-2);
const client = new Client(address, key);
const until = async (isSo) => {
  for (let tries = 0; !isSo(); tries++) {
    if (tries > 3000) throw new Error("it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
const bare = (turns) => turns.map(({ parent_id, ...turn }) => turn);
const check = async (session) => {
  const turns = await client.request("GET", `${session.path}/messages`);
  assert.deepEqual(JSON.parse(JSON.stringify(bare(session.fold.branch()))), turns);
};
"""


@contextmanager
def run_script(script: str, address: str, key: str) -> Iterator[subprocess.Popen[str]]:
    """A script in Node with the client in scope."""
    source = START % {"module": json.dumps(MODULE.as_uri())} + script
    command = ["node", "--input-type=module", "--eval", source, address, key]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def expect_success(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def test_it_folds_what_the_server_has(tmp_path: Path) -> None:
    script = """
const session = await client.createSession({ intent: "A test" });
const following = session.follow();
let outcome = await session.send("think list files subagent");
assert.equal(outcome.status, "completed");
await until(() => session.fold.seen >= outcome.stream_sequence);
await check(session);
await session.post("ask");
await until(() => session.fold.questions().length);
const [{ call, questions }] = session.fold.questions();
assert.equal(questions[0].options.length, 2);
await session.answer(call.id, { selections: { 0: [1] } });
await until(() => session.fold.session.status === "completed" && !session.fold.run);
assert.deepEqual(session.fold.questions(), []);
await check(session);
outcome = await session.send("card bridge");
await until(() => session.fold.seen >= outcome.stream_sequence);
await check(session);
const careful = await client.createSession({ settings: { approvals: [{ tool: "Glob", action: "ask" }] } });
const watching = careful.follow();
await careful.post("list files");
await until(() => careful.fold.questions().length);
const [approval] = careful.fold.questions();
assert.equal(approval.questions[0].options[0].label, "Allow");
await careful.answer(approval.call.id, { selections: { 0: [0] } });
await until(() => careful.fold.session.status === "completed" && !careful.fold.run);
assert.deepEqual(careful.fold.questions(), []);
await check(careful);
watching.stop();
const { nodes } = await client.request("GET", `${session.path}/checkpoints`);
const { checkpoint_id } = nodes[1];
await client.request("POST", `${session.path}/rewind`, { checkpoint_id });
outcome = await session.send("hello");
await until(() => session.fold.seen >= outcome.stream_sequence);
await check(session);
following.stop();
await following.done;
const again = client.session(session.id);
for await (const item of again.events({ after: 0 })) {
  again.fold.apply(item);
  if (again.fold.seen >= outcome.stream_sequence) break;
}
assert.deepEqual(again.fold.branch(), session.fold.branch());
await assert.rejects(client.session("sess_none").send("x"), (error) => error.status === 404);
const lost = client.session("sess_none").follow();
await assert.rejects(lost.done, (error) => error instanceof ServerError && error.status === 404);
"""
    with (
        run_server(tmp_path / "data") as (_, result),
        run_script(script, result["address"], result["key"]) as process,
    ):
        expect_success(process)


def test_it_goes_on_when_the_server_was_killed(tmp_path: Path) -> None:
    script = """
const session = await client.createSession({ intent: "A test" });
const numbers = [];
session.follow((item) => numbers.push(item.stream_sequence));
const sent = session.send("long", {}, { retries: 30 });
await until(() => session.fold.branch().length > 1);
console.log("streaming");
const outcome = await sent;
assert.equal(outcome.status, "completed");
await until(() => session.fold.seen >= outcome.stream_sequence);
assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b));
await check(session);
process.exit(0);
"""
    folder = tmp_path / "data"
    with (
        run_server(folder, delay="0.002") as (server, result),
        run_script(script, result["address"], result["key"]) as process,
    ):
        assert process.stdout
        assert process.stdout.readline() == "streaming\n"
        server.send_signal(signal.SIGKILL)
        server.wait(30)
        port = int(result["address"].rpartition(":")[2])
        with run_server(folder, port):
            expect_success(process)
