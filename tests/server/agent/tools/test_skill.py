"""Skill: instructions on demand, and the export of the session in which it is asked for."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token import api
from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.skill import Skill
from open_token.server.core.skills import find_skills, store_skill

TEXT = b"---\nname: greet\ndescription: Greets people.\n---\n\n# Greet\nSay hello to $ARGUMENTS.\n"


async def load(shop: ToolServer, **arguments: Any) -> Any:
    return await Skill(find_skills(shop.services.config, shop.workspace)).run(
        arguments, shop.place()
    )


async def scenario(shop: ToolServer) -> None:
    """A few words in the session, and a result that lies beside the log."""
    secret = "ghp_" + "a1B2" * 9
    blob = await shop.services.store.put_blob(b'"a long result"', "application/json")

    def say(_: Any) -> Any:
        yield "turn.opened", {"turn": {"turn_id": "turn_1", "role": "user", "status": "streaming"}}
        yield "text.delta", {"turn_id": "turn_1", "text": f"Keep {secret} safe"}
        yield "turn.ended", {"turn_id": "turn_1"}
        yield (
            "turn.opened",
            {"turn": {"turn_id": "turn_2", "role": "assistant", "status": "streaming"}},
        )
        yield "thinking.delta", {"turn_id": "turn_2", "text": "Hm."}
        yield (
            "tool.called",
            {"turn_id": "turn_2", "call": {"id": "call_1", "tool_name": "Read", "arguments": "{}"}},
        )
        held = {
            "blob": blob.sha256,
            "size": blob.size,
            "media_type": "application/json",
            "preview": "a",
        }
        yield "tool.result", {"turn_id": "turn_2", "tool_call_id": "call_1", "result": held}
        yield "turn.ended", {"turn_id": "turn_2"}

    await shop.services.journal.write(shop.owner, shop.session_id, say, blobs=[blob.sha256])


def test_a_skill_is_listed_and_loaded(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        files = {"SKILL.md": (TEXT, False), "scripts/run.sh": (b"echo hi", True)}
        store_skill(shop.workspace, "team/greet", files)
        tool = Skill(find_skills(shop.services.config, shop.workspace))
        assert "- team/greet: Greets people." in tool.spec.description
        assert "- stream-of-consciousness: Exports the conversation" in tool.spec.description
        got = await tool.run({"name": "team/greet", "arguments": "Ada"}, shop.place())
        assert got == {
            "name": "team/greet",
            "instructions": "# Greet\nSay hello to Ada.\n",
            "skill_dir": ".skills/team/greet",
            "files": ["SKILL.md", "scripts/run.sh"],
        }
        assert (await load(shop, skill="/team/greet", file="scripts/run.sh"))[
            "content"
        ] == "echo hi"
        options = await load(shop, name="stream-of-consciousness", file="references/options.md")
        assert "drop" in options["content"]

    run_with_tools(tmp_path, do)


def test_the_session_is_exported_into_its_workspace(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        await scenario(shop)
        got = await load(shop, name="stream-of-consciousness")
        assert (got["file_path"], got["redact"]) == ("conversation.ot.json", "secrets")
        data = shop.workspace.read("conversation.ot.json")
        assert got["bytes"] == len(data)
        document = msgspec.json.decode(data)
        assert document["conversation"]["id"] == shop.session_id
        assert len(document["events"]) == got["events"]
        assert b"[REDACTED:" in data
        assert b"a1B2a1B2" not in data
        assert b"a long result" in data
        assert b"Hm." not in data
        again = await load(
            shop,
            name="stream-of-consciousness",
            arguments="mode=ndjson include=include-internal internal=full",
            confirmed=True,
        )
        assert again["file_path"] == "conversation.ot.ndjson"
        assert b"Hm." in shop.workspace.read("conversation.ot.ndjson")
        third = await load(shop, name="stream-of-consciousness")
        assert third["file_path"] == "conversation-1.ot.json"
        assert api.read(shop.workspace.read(third["file_path"]))["events"]
        assert len(await shop.signals("workspace:files_changed")) == 3

    run_with_tools(tmp_path, do)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"arguments": "redact=none"}, "secrets in clear text: ask the person"),
        ({"arguments": "include=include-internal internal=full"}, "word for word: ask the person"),
        ({"arguments": "to my mail"}, "key=value"),
        ({"arguments": "redact=everything"}, "invalid value for redact"),
        ({"arguments": "colour=red"}, "colour"),
        ({"arguments": "max_bytes=3"}, "max_bytes"),
        ({"arguments": "$(rm)=x"}, "key=value"),
        ({"file": "../../../etc/passwd"}, "invalid workspace path"),
        ({"file": "nothing.md"}, "no such file"),
        ({"name": "unknown"}, "unknown skill; available skills: stream-of-consciousness"),
        ({"name": 5}, "invalid arguments"),
    ],
)
def test_what_does_not_work_leaves_nothing(tmp_path: Path, arguments: Any, words: str) -> None:
    async def do(shop: ToolServer) -> None:
        await scenario(shop)
        with pytest.raises(ToolError, match=words):
            await load(shop, **{"name": "stream-of-consciousness", **arguments})
        assert shop.workspace.list() == []

    run_with_tools(tmp_path, do)
