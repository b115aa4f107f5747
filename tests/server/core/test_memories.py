"""Memories as agents use them: remembered with a reason, recalled by words, counted."""

from pathlib import Path

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.core import memories
from open_token.server.errors import ApiError


def test_what_was_remembered_is_recalled_and_counted(rest: RestServer) -> None:
    services, owner = rest.services, rest.owner
    made = rest.run(
        memories.remember(
            services,
            owner,
            "likes green tea",
            type="feedback",
            reason="said so",
            session_id="sess_1",
        )
    )
    rest.run(memories.remember(services, owner, "works at night"))
    assert (made.write_reason, made.source_session) == ("said so", "sess_1")
    found = rest.run(memories.recall(services, owner, "which tea?"))
    assert [row.content for row in found] == ["likes green tea"]
    assert rest.run(memories.get_memory(services, owner, made.id)).hit_count == 1
    assert rest.run(memories.recall(services, owner, "nothing of it")) == []


def test_disabled_and_superseded_ones_are_not_recalled(rest: RestServer) -> None:
    services, owner = rest.services, rest.owner
    old = rest.run(memories.remember(services, owner, "likes green tea"))
    new = rest.run(memories.remember(services, owner, "likes black tea", supersedes=[old.id]))
    assert [row.id for row in rest.run(memories.recall(services, owner, "tea"))] == [new.id]
    rest.run(memories.update_memory(services, owner, new.id, {"disabled": True}))
    assert rest.run(memories.recall(services, owner, "tea")) == []
    assert rest.run(memories.recall(services, "user_other", "tea")) == []


@pytest.mark.parametrize("content", ["", " \n", "x" * 501])
def test_too_little_and_too_much_is_refused(rest: RestServer, content: str) -> None:
    with pytest.raises(ApiError) as refused:
        rest.run(memories.remember(rest.services, rest.owner, content))
    assert refused.value.status == 422


def test_a_server_may_have_no_memory(tmp_path: Path) -> None:
    rest = RestServer(tmp_path / "without", memory=False)
    rest.run(memories.remember(rest.services, rest.owner, "likes tea"))
    assert rest.run(memories.recall(rest.services, rest.owner, "tea")) == []
    assert rest.get(f"/api/sessions/{rest.session()}")["memory_enabled"] is False
    rest.close()
