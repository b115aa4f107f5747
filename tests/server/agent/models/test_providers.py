"""The real adapters of providers, with streams that were recorded or written served over the
loopback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.server.agent_session import ENV, AgentSession, FakeTool, Time, open_agent_session, run
from helpers.server.fake_provider import (
    Provider,
    chat_answer,
    events,
    provider,
    response_answer,
)
from open_token.model.agent_settings import AgentSettings
from open_token.server.agent.model_interface import (
    Call,
    CallArgumentsPiece,
    CallStart,
    FinishPiece,
    Media,
    Message,
    ModelError,
    Piece,
    Request,
    Result,
    Text,
    TextPiece,
    Thinking,
    ThinkingPiece,
    ToolSpec,
    UsagePiece,
)
from open_token.server.agent.models import build_registry, providers
from open_token.server.config import ServerConfig

assert (
    providers.open_model
)  # loaded here, where no clock runs: on a busy machine that takes its time
TOOL = ToolSpec(
    name="get_capital",
    description="d",
    parameters={"type": "object", "properties": {"country": {}}},
)
HI = [Message("system", [Text("Be short.")]), Message("user", [Text("hi")])]


def opened(name: str, output: Provider, tmp_path: Path, local: bool = False) -> Any:
    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k"}
    env |= {
        "ANTHROPIC_BASE_URL": output.url,
        "GOOGLE_GEMINI_BASE_URL": output.url,
        "OPENAI_BASE_URL": f"{output.url}/v1",
    }
    config = ServerConfig(
        data=tmp_path, base_url=f"{output.url}/v1" if local else None, model_timeout=20
    )
    return build_registry(config, env).open(name)


async def answered(model: Any, messages: Any = HI) -> list[Piece]:
    return [
        piece
        async for piece in model.stream(Request(model=model.name, messages=messages, tools=[TOOL]))
    ]


def joined(pieces: list[Piece], kind: type) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, kind))  # type: ignore[attr-defined]


def spoken(stream: str) -> tuple[str, str]:
    """The words and the thoughts of a recorded stream, whichever of the providers sent it."""
    words, thoughts = [], []
    for line in stream.splitlines():
        item = json.loads(line[6:]) if line.startswith("data: {") else {}
        if item.get("type") == "response.output_text.delta":
            words.append(item["delta"])
        elif isinstance(delta := item.get("delta"), dict):
            words.append(delta.get("text", ""))
            thoughts.append(delta.get("thinking", ""))
        words += [choice["delta"].get("content") or "" for choice in item.get("choices", ())]
    return "".join(words), "".join(thoughts)


@pytest.mark.parametrize(
    ("name", "recording", "local"),
    [
        (
            "anthropic:claude-x",
            "anthropic_messages/test_anthropic_model_thinking_part_stream.yaml",
            False,
        ),
        ("openai:gpt-4o", "openai_responses/test_openai_responses_stream.yaml", False),
        ("openai:gpt-4o-mini", "openai_chat/test_run_stream_sync_streams_real_model.yaml", True),
    ],
)
def test_recorded_streams(
    tmp_path: Path, corpus: Path, name: str, recording: str, local: bool
) -> None:
    taped = yaml.safe_load((corpus / recording).read_text(encoding="utf-8"))["interactions"]
    bodies = [item["response"]["body"]["string"] for item in taped]

    async def scenario() -> None:
        async with provider(*bodies) as output:
            model = opened(name, output, tmp_path, local)
            for body in bodies:
                pieces = await answered(model)
                assert (joined(pieces, TextPiece), joined(pieces, ThinkingPiece)) == spoken(body)
                usage = pieces[-1]
                assert isinstance(usage, UsagePiece)
                assert usage.usage["output_tokens"] > 0
                begun = [piece for piece in pieces if isinstance(piece, CallStart)]
                assert joined(pieces, TextPiece) or [piece.name for piece in begun] == [
                    "get_capital"
                ]
                if begun:
                    said = "".join(
                        piece.arguments for piece in pieces if isinstance(piece, CallArgumentsPiece)
                    )
                    assert json.loads(said).keys() == {"country"}
                if name.startswith("anthropic"):
                    assert joined(pieces, ThinkingPiece)
                    assert any(
                        isinstance(piece, ThinkingPiece) and piece.signature for piece in pieces
                    )
            await model.close()

    run(scenario())


ANTHROPIC_CALL = events(
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
     "model": "c", "usage": {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "aGlk"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2,
     "content_block": {"type": "tool_use", "id": "toolu_1", "name": "get_capital", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"country":'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"UK"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)  # fmt: skip
ANTHROPIC_TEXT = events(
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
     "model": "c", "usage": {"input_tokens": 20, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "London."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)  # fmt: skip


def gemini(*parts: Any) -> str:
    """A stream of Gemini's, one chunk a part."""
    usage = {
        "promptTokenCount": 8,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 13,
    }
    chunks = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        for part in parts
    ]
    chunks[-1] = {**chunks[-1], "usageMetadata": usage, "modelVersion": "g"}
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"  # type: ignore[index]
    return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)


def _build_chat_end(reason: str) -> str:
    """A stream of OpenAI's older protocol that ends for a reason."""
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    text = {"index": 0, "delta": {"role": "assistant", "content": "Lon"}}
    end = {"index": 0, "delta": {}, "finish_reason": reason}
    return events({**chunk, "choices": [text]}, {**chunk, "choices": [end]})


def test_a_whole_exchange_with_thoughts_and_a_call(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    """Through the loop: what comes back to the provider is what it had sent, signatures too."""
    fakes(None, FakeTool("get_capital", lambda given: f"London of {given['country']}"))

    async def scenario() -> None:
        async with provider(ANTHROPIC_CALL, ANTHROPIC_TEXT) as output:
            env = {**ENV, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": output.url}
            async with open_agent_session(tmp_path, Time()) as open_room:
                room: AgentSession = await open_room(model="anthropic:claude-x")
                room.services.env = env
                await room.send("capital of the UK?")
                assert room.texts()[-1] == "London."
                first = room.turns()[1]
                assert first["usage"] == {
                    "input_tokens": 12,
                    "output_tokens": 9,
                    "cache_read_tokens": 5,
                }
                assert [block["type"] for block in first["blocks"]] == [
                    "thinking",
                    "thinking",
                    "tool_use",
                ]
                await room.check()
            _, headers, second = output.asked[1]
            assert "k" in (
                headers.get("x-api-key"),
                headers.get("authorization", "").removeprefix("Bearer "),
            )
            thought, hidden, call = second["messages"][1]["content"]
            assert (thought["thinking"], thought["signature"]) == ("Hm.", "c2ln")
            assert (hidden["type"], hidden["data"]) == ("redacted_thinking", "aGlk")
            assert (call["id"], call["input"]) == ("toolu_1", {"country": "UK"})
            result = second["messages"][2]["content"][0]
            assert (result["tool_use_id"], "London of UK" in json.dumps(result)) == (
                "toolu_1",
                True,
            )

    run(scenario())


def recorded(corpus: Path, name: str) -> list[Any]:
    """The answers of a recording that was not streamed."""
    taped = yaml.safe_load((corpus / name).read_text(encoding="utf-8"))["interactions"]
    return [item["response"]["parsed_body"] for item in taped]


def signatures(content: Any) -> list[str]:
    """The signatures of calls, in one of the two alphabets that JSON has for bytes."""
    marks = [
        part.get("thoughtSignature", "") for part in content["parts"] if "functionCall" in part
    ]
    return [mark.replace("-", "+").replace("_", "/") for mark in marks]


def test_google_gets_its_signatures_back(
    tmp_path: Path, corpus: Path, fakes: Callable[..., None]
) -> None:
    """Recorded answers with calls, three at once among them: each later request has every signature
    in its place."""
    answers = recorded(corpus, "gemini_api/test_google_instructions_only_with_tool_calls.yaml")
    fakes(
        None,
        FakeTool("generate_topic", lambda _: "sheep"),
        FakeTool("final_result", lambda _: "taken"),
    )
    given = [signatures(answer["candidates"][0]["content"]) for answer in answers]
    assert [len(marks) for marks in given] == [3, 1, 1, 1, 1]

    async def scenario() -> None:
        streams = [f"data: {json.dumps(answer)}\r\n\r\n" for answer in answers]
        async with provider(*streams, gemini({"text": "Done."})) as output:
            async with open_agent_session(tmp_path, Time()) as open_room:
                room: AgentSession = await open_room(model="google:gemini-3-flash-preview")
                room.services.env = {
                    **ENV,
                    "GOOGLE_API_KEY": "k",
                    "GOOGLE_GEMINI_BASE_URL": output.url,
                }
                await room.send("three jokes")
                assert room.texts()[-1] == "Done."
                assert room.turns()[1]["tool_calls"][0]["signature"] == given[0][0]
                await room.check()
            sent = [item for item in output.asked[-1][2]["contents"] if item["role"] == "model"]
            assert [signatures(content) for content in sent] == given

    run(scenario())


def test_who_signs_no_calls_is_not_given_signatures(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(ANTHROPIC_TEXT) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            call = Call("c1", "get_capital", "{}", signature="c2ln")
            await answered(
                model,
                [
                    *HI,
                    Message("assistant", [call]),
                    Message("tool", [Result("c1", "get_capital", 1)]),
                ],
            )
            assert "c2ln" not in json.dumps(output.asked[0][2])
            await model.close()

    run(scenario())


def test_what_repeats_is_cached_by_anthropic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(ANTHROPIC_TEXT) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            history = [Message("system", [Text("Be brief.")]), *HI]
            assert await answered(model, history)
            sent = output.asked[0][2]
            assert sent["system"][-1]["cache_control"]["type"] == "ephemeral"
            assert sent["tools"][-1]["cache_control"]["type"] == "ephemeral"
            assert sent["messages"][-1]["content"][-1]["cache_control"]["type"] == "ephemeral"
            await model.close()

    run(scenario())


SAMPLING = AgentSettings(temperature=0.3, max_output_tokens=900)
LITTLE_THINKING = AgentSettings(thinking=True, effort="low")
NO_THINKING = AgentSettings(thinking=False)
HAIKU, GEMINI = "anthropic:claude-haiku-4-5", "google:gemini-2.5-pro"


@pytest.mark.spec("agent-settings")
@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        (HAIKU, SAMPLING, {"temperature": 0.3, "max_tokens": 900}),
        (HAIKU, AgentSettings(), {"thinking": {"type": "enabled", "budget_tokens": 10_000}}),
        (HAIKU, LITTLE_THINKING, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (HAIKU, NO_THINKING, {"thinking": None}),
        ("openai:gpt-4o", SAMPLING, {"temperature": 0.3, "max_output_tokens": 900}),
        ("openai:gpt-5", AgentSettings(), {"reasoning": {"summary": "auto"}}),
        ("openai:gpt-5", LITTLE_THINKING, {"reasoning": {"effort": "low", "summary": "auto"}}),
        ("openai:gpt-5", NO_THINKING, {"reasoning": {"effort": "minimal"}}),
        ("openai:m", SAMPLING, {"temperature": 0.3, "max_completion_tokens": 900}),
        (GEMINI, SAMPLING, {"temperature": 0.3, "maxOutputTokens": 900}),
        (GEMINI, AgentSettings(), {"thinkingConfig": {"include_thoughts": True}}),
        (
            GEMINI,
            LITTLE_THINKING,
            {"thinkingConfig": {"include_thoughts": True, "thinking_budget": 2048}},
        ),
        (GEMINI, NO_THINKING, {"thinkingConfig": {"thinking_budget": 128}}),
    ],
)
def test_settings_are_in_the_request(
    tmp_path: Path, name: str, settings: AgentSettings, expected: dict[str, Any]
) -> None:
    is_local = name == "openai:m"
    streams = {"anthropic": ANTHROPIC_TEXT, "openai": response_answer()}
    stream = streams.get(name.partition(":")[0], gemini({"text": "Lon"}))

    async def scenario() -> None:
        async with provider(chat_answer("Lon") if is_local else stream) as output:
            model = opened(name, output, tmp_path, is_local)
            request = Request(model=name, messages=HI, tools=[TOOL], settings=settings)
            async for _ in model.stream(request):
                pass
            body = output.asked[0][2]
            assert "Be short." in json.dumps(body)
            sent = {**body, **body.get("generationConfig", {})}
            assert {key: sent.get(key) for key in expected} == expected
            await model.close()

    run(scenario())


def test_a_signature_that_is_made_up_is_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(ANTHROPIC_TEXT) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            call = Call("c1", "get_capital", "{}", signature="json:{c2ln")
            history = [
                *HI,
                Message("assistant", [call]),
                Message("tool", [Result("c1", "get_capital", 1)]),
            ]
            assert await answered(model, history)
            assert "c2ln" not in json.dumps(output.asked[0][2])
            await model.close()

    run(scenario())


def openai_stream(answer: Any) -> str:
    """A recorded answer of the Responses API as its stream."""
    made: list[Any] = []
    bare = {**answer, "output": [], "status": "in_progress", "usage": None}

    def write_event(kind: str, **data: Any) -> None:
        made.append({"type": f"response.{kind}", "sequence_number": len(made), **data})

    write_event("created", response=bare)
    for index, item in enumerate(answer["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {
            "reasoning": {"summary": [], "encrypted_content": ""},
            "function_call": {"arguments": ""},
        }
        write_event(
            "output_item.added",
            output_index=index,
            item={**item, **empty.get(item["type"], {"content": []})},
        )
        for number, part in enumerate(item.get("summary", ())):
            words = [part["text"][:20], part["text"][20:]]
            about = {**place, "summary_index": number}
            write_event("reasoning_summary_part.added", **about, part={**part, "text": ""})
            for word in words:
                write_event("reasoning_summary_text.delta", **about, delta=word)
            write_event("reasoning_summary_part.done", **about, part=part)
        if item["type"] == "function_call":
            write_event("function_call_arguments.delta", **place, delta=item["arguments"])
            write_event(
                "function_call_arguments.done",
                **place,
                arguments=item["arguments"],
                name=item["name"],
            )
        for number, part in enumerate(item.get("content") or ()):
            write_event(
                "content_part.added", **place, content_index=number, part={**part, "text": ""}
            )
            write_event(
                "output_text.delta", **place, content_index=number, delta=part["text"], logprobs=[]
            )
        write_event("output_item.done", output_index=index, item=item)
    write_event("completed", response=answer)
    return events(*made)


def test_openai_gets_its_encrypted_reasoning_back(
    tmp_path: Path, corpus: Path, fakes: Callable[..., None]
) -> None:
    """The reasoning has five summaries, and is signed after the last of them."""
    answers = recorded(
        corpus, "openai_responses/test_openai_responses_thinking_with_tool_calls.yaml"
    )
    fakes(None, FakeTool("update_plan", lambda _: "plan updated"))
    thought, call = answers[0]["output"]

    async def scenario() -> None:
        async with provider(*map(openai_stream, answers)) as output:
            async with open_agent_session(tmp_path, Time()) as open_room:
                room: AgentSession = await open_room(model="openai:gpt-5")
                room.services.env = {
                    **ENV,
                    "OPENAI_API_KEY": "k",
                    "OPENAI_BASE_URL": f"{output.url}/v1",
                }
                await room.send("a poem")
                assert room.texts()[-1] == answers[1]["output"][0]["content"][0]["text"]
                shown = [
                    block["content"]
                    for block in room.turns()[1]["blocks"]
                    if block["type"] == "thinking"
                ]
                assert shown == ["\n\n".join(part["text"] for part in thought["summary"])]
                await room.check()
            assert output.asked[0][2]["include"] == ["reasoning.encrypted_content"]
            sent = output.asked[1][2]["input"]
            (back,) = [item for item in sent if item.get("type") == "reasoning"]
            assert (back["id"], back["encrypted_content"]) == (
                thought["id"],
                thought["encrypted_content"],
            )
            assert [item["call_id"] for item in sent if item.get("type") == "function_call"] == [
                call["call_id"]
            ]

    run(scenario())


def test_services_that_speak_as_openai_get_their_signatures_back(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    fakes(None, FakeTool("get_capital", lambda _: "London"))
    signed = {"google": {"thought_signature": "c2ln"}}

    def chunk(**choice: Any) -> dict[str, Any]:
        return {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, **choice}],
        }

    function = {"name": "get_capital", "arguments": "{}"}
    called = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": function,
        "extra_content": signed,
    }
    calls = events(
        chunk(delta={"role": "assistant", "tool_calls": [called]}),
        chunk(delta={}, finish_reason="tool_calls"),
    )
    text = events(chunk(delta={"content": "London."}), chunk(delta={}, finish_reason="stop"))

    async def scenario() -> None:
        async with provider(calls, text) as output:
            async with open_agent_session(
                tmp_path, Time(), base_url=f"{output.url}/v1"
            ) as open_room:
                room: AgentSession = await open_room(model="openai:m")
                await room.send("capital?")
                assert room.texts()[-1] == "London."
            (back,) = output.asked[1][2]["messages"][2]["tool_calls"]
            assert back["extra_content"] == signed

    run(scenario())


@pytest.mark.parametrize(
    ("name", "stream", "reason"),
    [
        ("anthropic:c", ANTHROPIC_TEXT.replace("end_turn", "max_tokens"), "length"),
        ("anthropic:c", ANTHROPIC_TEXT.replace("end_turn", "refusal"), "content_filter"),
        ("anthropic:c", ANTHROPIC_TEXT, "stop"),
        ("google:g", gemini({"text": "Lon"}).replace("STOP", "MAX_TOKENS"), "length"),
        ("google:g", gemini({"text": "Lon"}).replace("STOP", "SAFETY"), "content_filter"),
        ("openai:m", _build_chat_end("length"), "length"),
        ("openai:m", _build_chat_end("content_filter"), "content_filter"),
    ],
)
def test_why_an_answer_ends(tmp_path: Path, name: str, stream: str, reason: str) -> None:
    async def scenario() -> None:
        async with provider(stream) as output:
            model = opened(name, output, tmp_path, local=name.startswith("openai"))
            pieces = await answered(model)
            assert [piece for piece in pieces if isinstance(piece, FinishPiece)] == [
                FinishPiece(reason)
            ]
            await model.close()

    run(scenario())


def test_google(tmp_path: Path) -> None:
    async def scenario() -> None:
        call = {"functionCall": {"name": "get_capital", "args": {"country": "UK"}}}
        stream = gemini({"text": "I see", "thought": True}, {"text": "So: "}, call)
        async with provider(stream) as output:
            model = opened("google:gemini-2.5-pro", output, tmp_path)
            pieces = await answered(model)
            assert joined(pieces, ThinkingPiece) == "I see"
            assert joined(pieces, TextPiece) == "So: "
            said = "".join(
                piece.arguments for piece in pieces if isinstance(piece, CallArgumentsPiece)
            )
            assert json.loads(said) == {"country": "UK"}
            assert pieces[-1] == UsagePiece(
                {"input_tokens": 8, "output_tokens": 5, "reasoning_tokens": 2}
            )
            assert "streamGenerateContent" in output.asked[0][0]
            await model.close()

    run(scenario())


def test_a_history_as_the_provider_is_reported_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(ANTHROPIC_TEXT) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            pixel = "data:image/png;base64,aGVsbG8="
            history = [
                *HI,
                Message(
                    "assistant",
                    [Thinking("unsigned"), Text("I look."), Call("c1", "get_capital", "{broken")],
                ),
                Message("tool", [Result("c1", "get_capital", {"error": "no"}, True)]),
                Message("user", [Text("and this?"), Media("image/png", url=pixel)]),
            ]
            await answered(model, history)
            body = output.asked[0][2]
            assert "unsigned" not in json.dumps(body)
            assert body["messages"][1]["content"][1]["input"] == {"raw": "{broken"}
            said = [part for message in body["messages"][2:] for part in message["content"]]
            assert [part["type"] for part in said] == ["tool_result", "text", "image"]
            assert said[0]["is_error"] is True
            await model.close()

    run(scenario())


@pytest.mark.parametrize(
    "name", ["anthropic:claude-x", "openai:gpt-5", "google:gemini-3-flash-preview"]
)
def test_a_picture_of_a_result_reaches_the_model(tmp_path: Path, corpus: Path, name: str) -> None:
    answers = recorded(
        corpus, "openai_responses/test_openai_responses_thinking_with_tool_calls.yaml"
    )
    streams = {
        "anthropic": ANTHROPIC_TEXT,
        "openai": openai_stream(answers[1]),
        "google": gemini({"text": "A dot."}),
    }

    async def scenario() -> None:
        async with provider(streams[name.partition(":")[0]]) as output:
            model = opened(name, output, tmp_path)
            looked = Result(
                "c1",
                "get_capital",
                {"file_path": "a.png"},
                media=[Media("image/png", data=b"hello")],
            )
            await answered(
                model,
                [*HI, Message("assistant", [Call("c1", "get_capital")]), Message("tool", [looked])],
            )
            asked = json.dumps(output.asked[0][2])
            assert asked.count("aGVsbG8=") == 1
            assert asked.count("a.png") == 1
            await model.close()

    run(scenario())


def error(kind: str, words: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": words}})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error("authentication_error", "secret words"), "auth"),
        (429, error("rate_limit_error", "secret words"), "rate"),
        (529, error("overloaded_error", "secret words"), "server"),
        (500, error("api_error", "secret words"), "server"),
        (404, error("not_found_error", "model: secret words"), "request"),
        (
            400,
            error("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
            "context",
        ),
        (400, error("invalid_request_error", "secret words"), "request"),
    ],
)
def test_faults_have_a_kind_and_no_content(
    tmp_path: Path, status: int, body: str, kind: str
) -> None:
    async def scenario() -> None:
        async with provider((status, body)) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            with pytest.raises(ModelError) as raised:
                await answered(model)
            assert raised.value.kind == kind
            assert "secret" not in str(raised.value)
            assert "tokens" not in str(raised.value)
            assert len(output.asked) == 1
            await model.close()

    run(scenario())


def test_a_service_that_is_not_there_or_breaks_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(ANTHROPIC_TEXT[:300]) as output:
            model = opened("anthropic:claude-x", output, tmp_path)
            await answered(model)
            await model.close()
        model = opened("anthropic:claude-x", output, tmp_path)
        with pytest.raises(ModelError) as raised:
            await answered(model)
        assert raised.value.is_transient
        await model.close()

    run(scenario())
