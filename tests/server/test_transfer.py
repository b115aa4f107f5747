"""What leaves and what comes in: blobs in full, documents unchanged, nothing half written."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from whole_servers import Asking, served


async def exported(ask: Asking, session_id: str, **words: str) -> Any:
    usual = {"format": "json", "redact": "none", "include": "include-internal", "internal": "full"}
    answer = await ask("GET", f"/api/sessions/{session_id}/export", params=usual | words)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content)


@pytest.mark.parametrize(
    ("value", "media_type"), [({"lines": ["x" * 50] * 9}, "application/json"), ("many words " * 50, "text/plain")]
)
def test_blobs_are_exported_in_full(tmp_path: Path, value: Any, media_type: str) -> None:
    async def test(ask: Asking) -> Any:
        data = msgspec.json.encode(value) if media_type == "application/json" else value.encode()
        blob = await ask.services.store.put_blob(data, media_type)
        held = {"blob": blob.sha256, "size": blob.size, "media_type": media_type, "preview": blob.preview[:20]}
        await ask.talk()
        made = [
            ("turn.opened", {"turn": {"turn_id": "turn_9"}}),
            ("tool.called", {"turn_id": "turn_9", "call": {"id": "tc_9", "tool_name": "Read"}}),
            ("tool.result", {"turn_id": "turn_9", "tool_call_id": "tc_9", "result": held}),
        ]
        await ask.services.journal.write(ask.owner, "sess_1", lambda state: made, blobs=[blob.sha256])
        return await exported(ask, "sess_1")

    results = [event["content"] for event in served(tmp_path, test)["events"] if event["type"] == "tool_result"]
    assert value in (results[-1].get("data"), results[-1].get("text"))


def test_a_result_that_only_looks_like_a_blob(tmp_path: Path) -> None:
    odd = {"blob": "../../etc", "size": 1, "media_type": "x", "preview": "p"}

    async def test(ask: Asking) -> Any:
        call = {"id": "tc_9", "tool_name": "Read"}
        await ask.talk(
            ("turn.opened", {"turn": {"turn_id": "turn_9"}}),
            ("tool.called", {"turn_id": "turn_9", "call": call}),
            ("tool.result", {"turn_id": "turn_9", "tool_call_id": "tc_9", "result": odd}),
        )
        return await exported(ask, "sess_1")

    results = [event["content"] for event in served(tmp_path, test)["events"] if event["type"] == "tool_result"]
    assert results[-1]["data"] == odd
