"""Routes that count tokens: estimates that say so."""

import pytest

from helpers.server.rest_server import RestServer


@pytest.mark.spec("token-counts")
def test_a_prompt_is_counted(rest: RestServer) -> None:
    made = rest.post(
        "/api/sessions/tokenize/prompt", {"prompt": "Why does it fail?", "model": "demo"}
    )
    assert made["tokens"] == made["total_tokens"] > 0
    assert (made["estimated"], made["tokenizer"], made["model"]) == (True, "estimate", "demo")
    assert rest.post("/api/sessions/tokenize/prompt", {"prompt": ""})["tokens"] >= 0


@pytest.mark.spec("token-counts")
def test_messages_and_tools_are_counted(rest: RestServer) -> None:
    messages = [
        {"role": "user", "content": "one two three"},
        {"role": "user", "content": [{"type": "text"}]},
        {},
    ]
    made = rest.post(
        "/api/sessions/tokenize/messages", {"messages": messages, "tools": [{"name": "Bash"}]}
    )
    assert made["parts"]["messages"] > 0
    assert made["parts"]["tools"] > 0
    assert made["tokens"] == sum(made["parts"].values())


@pytest.mark.parametrize(
    "body", [{}, {"messages": "x"}, {"messages": ["x"]}, {"messages": [], "tools": 1}]
)
def test_wrong_messages_are_refused(rest: RestServer, body: object) -> None:
    assert rest.refused("POST", "/api/sessions/tokenize/messages", body) == 422
    assert rest.refused("POST", "/api/sessions/tokenize/prompt", body) == 422


def test_a_key_that_may_only_read_may_count(rest: RestServer) -> None:
    key = rest.post("/api/user/api-keys/", {"name": "viewer", "scope": "read"})["plaintext"]
    assert rest.post("/api/sessions/tokenize/prompt", {"prompt": "x"}, key=key)["tokens"] >= 1
