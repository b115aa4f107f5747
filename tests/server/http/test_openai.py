"""The OpenAI Responses API, called by OpenAI's own client, which checks the shape of every event."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from helpers.server.rest_server import RestServer

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A server whose demo model does not wait."""
    server = RestServer(tmp_path / "data", env={"OPEN_TOKEN_DEMO_DELAY": "0"})
    yield server
    server.close()


class OpenAIClient:
    """OpenAI's client, which talks with a server of a test."""

    def __init__(self, rest: RestServer) -> None:
        transport = httpx2.ASGITransport(rest.app, client=("127.0.0.1", 1))
        self.rest = rest
        self.api = openai.AsyncOpenAI(
            api_key=rest.key,
            base_url="http://server.test/v1",
            http_client=httpx2.AsyncClient(transport=transport),
            max_retries=0,
        )

    def create(self, **given: Any) -> Response:
        return self.rest.run(self.api.responses.create(model="demo", **given))

    def stream(self, **given: Any) -> list[Any]:
        async def collect() -> list[Any]:
            stream = await self.api.responses.create(model="demo", stream=True, **given)
            return [event async for event in stream]

        return self.rest.run(collect())


@pytest.fixture
def client(rest: RestServer) -> OpenAIClient:
    """OpenAI's client."""
    return OpenAIClient(rest)


def check_shape(value: Any, kind: Any) -> None:
    """Its own types describe an object completely: nothing is missing, nothing has another type."""
    kind.validate_python(json.loads(value.model_dump_json()), strict=False)


@pytest.mark.spec("responses-route")
def test_an_answer(client: OpenAIClient) -> None:
    response = client.create(input="think")
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output_text == "That was a thought."
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    check_shape(response, TypeAdapter(Response))


def test_a_conversation_goes_on_and_branches(client: OpenAIClient) -> None:
    first = client.create(input="remember I like tea")
    second = client.create(input="hello", previous_response_id=first.id)
    assert second.conversation == first.conversation
    assert first.conversation is not None
    path = f"/api/sessions/{first.conversation.id}/messages"
    count = len(client.rest.get(path))
    client.create(input="hello", previous_response_id=first.id)
    assert len(client.rest.get(path)) == count
    client.create(input="hello", conversation=first.conversation.id)
    assert len(client.rest.get(path)) > count


def test_a_conversation_begins_with_messages_from_elsewhere(client: OpenAIClient) -> None:
    history: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name is Ann."},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello Ann."}]},
    ]
    response = client.create(input=[*history, {"role": "user", "content": "think"}])
    assert response.status == "completed"
    assert response.conversation is not None
    state = client.rest.state(response.conversation.id)
    texts = [
        (turn.role, "".join(str(b.content) for b in turn.blocks if b.type == "text"))
        for turn in state.branch()
    ]
    assert texts == [
        ("user", "My name is Ann."),
        ("assistant", "Hello Ann."),
        ("user", "think"),
        ("assistant", "That was a thought."),
    ]
    with pytest.raises(openai.BadRequestError, match="has its history on the server"):
        client.create(
            input=[*history, {"role": "user", "content": "x"}], previous_response_id=response.id
        )


def test_calls_of_the_server_are_shown(client: OpenAIClient) -> None:
    response = client.create(input=[{"role": "user", "content": "list files"}])
    (call,) = [item for item in response.output if item.type == "mcp_call"]
    assert (call.name, call.status) == ("Glob", "completed")


@pytest.mark.parametrize("text", ["think list files", "subagent", "fail", "card bridge"])
def test_a_stream_builds_the_same_response(client: OpenAIClient, text: str) -> None:
    events = client.stream(input=text)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    for event in events:
        check_shape(event, EVENT)
    last = events[-1]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.model_dump() for item in done] == [
        item.model_dump() for item in last.response.output
    ]
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == last.response.output_text
    stored = client.rest.run(client.api.responses.retrieve(last.response.id))
    assert stored.output == last.response.output
    assert stored.status == last.response.status == ("failed" if text == "fail" else "completed")


def test_an_answer_that_is_cut_off_is_incomplete(client: OpenAIClient) -> None:
    last = client.stream(input="cut")[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == "max_output_tokens"
    assert client.create(input="cut").status == "incomplete"


@pytest.mark.spec("responses-route")
def test_a_stream_is_resumed(client: OpenAIClient) -> None:
    events = client.stream(input="think list files")
    response_id = events[0].response.id

    async def resume() -> list[Any]:
        stream = await client.api.responses.retrieve(response_id, stream=True, starting_after=4)
        return [event async for event in stream]

    resumed = client.rest.run(resume())
    assert [event.sequence_number for event in resumed] == list(range(5, len(events)))


def test_structured_output(client: OpenAIClient) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = {"format": {"type": "json_schema", "name": "person", "schema": schema}}
    response = client.create(input="json", text=form)
    assert isinstance(json.loads(response.output_text)["name"], str)


def test_a_question_is_a_function_call(client: OpenAIClient) -> None:
    tools = [{"type": "function", "name": "AskUserQuestion", "parameters": {}, "strict": False}]
    response = client.create(input="ask", tools=tools)
    (call,) = [item for item in response.output if item.type == "function_call"]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Straight on"}
    response = client.create(input=[output], previous_response_id=response.id, tools=tools)
    assert "Straight on" in response.output_text


def test_functions_of_the_client_are_called(client: OpenAIClient) -> None:
    function = {
        "type": "function",
        "name": "Glob",
        "parameters": {"type": "object", "properties": {"pattern": {"type": "string"}}},
        "strict": False,
    }
    response = client.create(input="list files", tools=[function], instructions="Be brief.")
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"pattern": "**/*"}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "mine.txt"}
    given: dict[str, Any] = {"input": [output], "previous_response_id": response.id}
    events = client.stream(**given, tools=[function])
    assert "mine.txt" in events[-1].response.output_text
    stored = client.rest.run(client.api.responses.retrieve(response.id))
    assert stored.output == response.output
    assert (stored.instructions, stored.tools[0].name) == ("Be brief.", "Glob")  # type: ignore[union-attr]


@pytest.mark.spec("responses-route")
def test_in_the_background_and_cancelled(tmp_path: Path) -> None:
    # Without a delay, the demo model could end its answer before it is cancelled.
    slow = RestServer(tmp_path / "slow", env={"OPEN_TOKEN_DEMO_DELAY": "0.05"})
    try:
        check_cancelling(OpenAIClient(slow))
    finally:
        slow.close()


def check_cancelling(client: OpenAIClient) -> None:
    """An answer in the background is cancelled while the model writes it."""
    response = client.create(input="long", background=True)
    assert response.status == "queued"

    async def cancel() -> Response:
        await asyncio.sleep(0.05)
        return await client.api.responses.cancel(response.id)

    assert client.rest.run(cancel()).status == "cancelled"
    stored = client.rest.run(client.api.responses.retrieve(response.id))
    assert stored.status == "cancelled"


@pytest.mark.spec("responses-route")
def test_models_are_listed(client: OpenAIClient) -> None:
    async def names() -> list[str]:
        return [model.id async for model in client.api.models.list()]

    assert client.rest.run(names()) == ["demo"]


def test_files_and_images_are_attached(client: OpenAIClient) -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {
            "type": "input_image",
            "image_url": "data:image/png;base64,iVBORw0KGgo=",
            "detail": "low",
        },
        {"type": "input_file", "filename": "report.pdf", "file_data": "JVBERi0xLjc="},
        {"type": "input_file", "filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"},
    ]
    answer = client.create(input=[{"role": "user", "content": content}]).output_text
    for name in ("file.png (image/png", "report.pdf (application/pdf", "a.csv (text/csv"):
        assert f"attachments/{name}" in answer


@pytest.mark.parametrize(
    "given",
    [
        {"top_p": 0.5},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {"input": [{"type": "reasoning", "summary": [], "id": "x"}]},
        {"input": [{"role": "assistant", "content": "x"}]},
        {"input": [{"role": "critic", "content": "x"}]},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]},
                {"role": "assistant", "content": "x"},
                {"role": "user", "content": "x"},
            ]
        },
        {"tools": [{"type": "web_search"}]},
        {"text": {"format": {"type": "xml"}}},
        {"extra_body": {"no_such_field": 1}},
    ],
)
def test_what_has_no_effect_is_refused(client: OpenAIClient, given: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.create(**{"input": "hello", **given})
    assert refused.value.body["message"]  # type: ignore[index]


def test_responses_of_others_are_not_found(client: OpenAIClient, rest: RestServer) -> None:
    response = client.create(input="hello")
    other = rest.person()
    for name in (response.id, "resp_nonsense", "x"):
        for key in (other, ""):
            if (name, key) != (response.id, ""):
                answer = rest.call("GET", f"/v1/responses/{name}", key=key)
                assert answer.status_code == 404
                assert answer.json()["error"]["message"]
