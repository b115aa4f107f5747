"""A client that plays a recorded agent: it asks over one of the four wires, and answers calls as
recorded."""

import http.client
import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from open_token.replay import protocols
from open_token.replay.player import ReplaySession

Json = dict[str, Any]
Post = Callable[[str, Json], tuple[int, bytes]]


class Call(NamedTuple):
    id: str
    name: str
    arguments: Any


class Spoken(NamedTuple):
    """What an answer says and calls."""

    text: str
    calls: list[Call]


class Turn(NamedTuple):
    """What the agent sends, and what the model then said."""

    prompts: list[str]
    results: dict[str, str]
    """By the id that the call has in the document."""
    said: str
    called: list[tuple[str, Any]]
    ids: list[str]


def turns_of(document: Json) -> list[Turn]:
    """The turns of the session itself, from the events alone."""
    turns: list[Turn] = []
    prompts: list[str] = []
    results: dict[str, str] = {}
    is_open = False
    known: set[str] = set()
    for event in document["events"]:
        content, kind = event.get("content", {}), event["type"]
        native = content["data"].get("native_call_id", "") if kind == "tool_use" else ""
        if native.startswith(("srvtoolu_", "ws_")):
            continue  # the provider carries it out itself
        if kind == "tool_use":
            known.add(event["links"]["call_id"])
        if kind == "tool_result" and event["links"]["call_id"] not in known:
            continue
        if event.get("links", {}).get("span_id") or kind not in (
            "message",
            "tool_use",
            "tool_result",
        ):
            continue
        if kind == "tool_use" or event["role"] == "assistant":
            if not is_open:
                turns.append(Turn(prompts, results, "", [], []))
                prompts, results, is_open = [], {}, True
            last = turns[-1]
            if kind == "tool_use":
                last.called.append((content["data"]["tool_name"], content["data"]["arguments"]))
                last.ids.append(event["links"]["call_id"])
            else:
                said = [text for text in (last.said, *words(content)) if text]
                turns[-1] = last._replace(said="\n\n".join(said))
        elif kind == "tool_result":
            is_open = False
            results[event["links"]["call_id"]] = "\n".join(words(content, whole=True))
        elif event["role"] == "user":
            is_open = False
            prompts += words(content) or ["[media]"]
    return turns


def words(content: Json, *, whole: bool = False) -> list[str]:
    """What a content says, of blocks each by itself; with `whole` also those that are no text."""
    text, data = content.get("text"), content.get("data")
    if text is not None or not isinstance(data, list):
        return [text if text is not None else json.dumps(data)]
    output = [
        block.get("text") or (json.dumps(block) if whole else "")
        for block in data
        if "base64" not in block
    ]
    return [text for text in output if text]


class Client:
    """One conversation over one wire."""

    def __init__(self, post: Post, wire: str, *, stream: bool, tools: list[str]) -> None:
        self.post, self.wire, self.stream, self.tools = post, wire, stream, tools
        self.history: list[Json] = []
        self.calls: dict[str, Call] = {}
        self.status = 0

    def ask(self, turn: Turn) -> Spoken:
        """Send what is new, and take the answer into the history."""
        for name, result in turn.results.items():
            self.history += WIRES[self.wire].result(self.calls[name], result)
        for prompt in turn.prompts:
            self.history.append(WIRES[self.wire].prompt(prompt))
        spoken = self.send()
        self.calls.update(zip(turn.ids, spoken.calls, strict=self.status == 200))
        if self.status == 200:
            self.history += WIRES[self.wire].answer(spoken)
        return spoken

    def send(self) -> Spoken:
        wire = WIRES[self.wire]
        path, body = wire.request(self.history, self.tools, self.stream)
        self.status, data = self.post(path, body)
        if self.status != 200:
            self.error = json.loads(data)
            return Spoken("", [])
        if not self.stream:
            return wire.read(json.loads(data))
        lines = data.decode().split("\n")
        events = [
            json.loads(line[6:])
            for line in lines
            if line.startswith("data: ") and line != "data: [DONE]"
        ]
        return wire.read_stream(events)


def over_http(url: str) -> Post:
    """To a provider that listens."""
    return lambda path, body: post(url, path, body)


def in_process(run: ReplaySession) -> Post:
    """To a run, without a connection."""

    def ask(path: str, body: Json) -> tuple[int, bytes]:
        asked = protocols.parse_request(
            str(protocols.detect_protocol(path)), json.loads(json.dumps(body)), path
        )
        reply = protocols.render_response(asked, run.ask(asked).answer)
        return reply.status, reply.body

    return ask


def played(
    post: Post, session: Json, wire: str, *, stream: bool, changed: dict[int, Turn] | None = None
) -> int:
    """Play the recorded agent; gives the number of the first turn that was refused, 0 if none
    was."""
    turns = turns_of(session)
    client = Client(
        post, wire, stream=stream, tools=sorted({call[0] for turn in turns for call in turn.called})
    )
    for number, turn in enumerate(turns, 1):
        spoken = client.ask((changed or {}).get(number, turn))
        if client.status != 200:
            return number
        assert spoken.text == turn.said
        assert [(call.name, call.arguments) for call in spoken.calls] == turn.called
    return 0


def connect(url: str) -> tuple[http.client.HTTPConnection, str]:
    """A connection to a base URL, and what the path of each request begins with."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    return connection, address.path


def post(url: str, path: str, body: Any, headers: Json | None = None) -> tuple[int, bytes]:
    connection, base = connect(url)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", base + path, data, headers or {"content-type": "application/json"})
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


class Anthropic:
    def prompt(self, text: str) -> Json:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def result(self, call: Call, text: str) -> list[Json]:
        return [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": text}],
            }
        ]

    def answer(self, spoken: Spoken) -> list[Json]:
        blocks: list[Json] = [{"type": "text", "text": spoken.text}] if spoken.text else []
        blocks += [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments}
            for c in spoken.calls
        ]
        return [{"role": "assistant", "content": blocks}]

    def request(self, history: list[Json], tools: list[str], stream: bool) -> tuple[str, Json]:
        output = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
        body = {
            "model": "m",
            "max_tokens": 1000,
            "messages": history,
            "tools": output,
            "stream": stream,
        }
        return "/v1/messages?beta=true", body

    def read(self, body: Json) -> Spoken:
        assert body["stop_reason"] == (
            "tool_use" if any(b["type"] == "tool_use" for b in body["content"]) else "end_turn"
        )
        texts = [block["text"] for block in body["content"] if block["type"] == "text"]
        calls = [
            Call(b["id"], b["name"], b["input"]) for b in body["content"] if b["type"] == "tool_use"
        ]
        return Spoken("\n\n".join(texts), calls)

    def read_stream(self, events: list[Json]) -> Spoken:
        assert [event["type"] for event in (events[0], *events[-2:])] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]
        blocks: list[Json] = []
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                block["text"] = block.get("text", "") + delta.get("text", "")
                block["json"] += delta.get("partial_json", "")
        for block in blocks:
            block["input"] = json.loads(block["json"] or "{}")
        return self.read({"content": blocks, "stop_reason": events[-2]["delta"]["stop_reason"]})


class Responses:
    def prompt(self, text: str) -> Json:
        return {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }

    def result(self, call: Call, text: str) -> list[Json]:
        return [{"type": "function_call_output", "call_id": call.id, "output": text}]

    def answer(self, spoken: Spoken) -> list[Json]:
        content = [{"type": "output_text", "text": spoken.text}]
        items: list[Json] = (
            [{"type": "message", "role": "assistant", "content": content}] if spoken.text else []
        )
        for call in spoken.calls:
            given = json.dumps(call.arguments)
            items.append(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": given}
            )
        return items

    def request(self, history: list[Json], tools: list[str], stream: bool) -> tuple[str, Json]:
        output = [
            {"type": "function", "name": name, "parameters": {"type": "object"}} for name in tools
        ]
        return "/v1/responses", {"model": "m", "input": history, "tools": output, "stream": stream}

    def read(self, body: Json) -> Spoken:
        texts = [item["content"][0]["text"] for item in body["output"] if item["type"] == "message"]
        made = [item for item in body["output"] if item["type"] == "function_call"]
        calls = [
            Call(item["call_id"], item["name"], json.loads(item["arguments"])) for item in made
        ]
        return Spoken("\n\n".join(texts), calls)

    def read_stream(self, events: list[Json]) -> Spoken:
        assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == events[-1]["response"]["output"]
        deltas = [
            event["delta"] for event in events if event["type"] == "response.output_text.delta"
        ]
        spoken = self.read({"output": done})
        assert "\n\n".join(deltas) == spoken.text
        return spoken


class Chat:
    def prompt(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def result(self, call: Call, text: str) -> list[Json]:
        return [{"role": "tool", "tool_call_id": call.id, "content": text}]

    def answer(self, spoken: Spoken) -> list[Json]:
        message: Json = {"role": "assistant", "content": spoken.text or None}
        if spoken.calls:
            message["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
                }
                for c in spoken.calls
            ]
        return [message]

    def request(self, history: list[Json], tools: list[str], stream: bool) -> tuple[str, Json]:
        output = [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
            for name in tools
        ]
        body = {
            "model": "m",
            "messages": [{"role": "system", "content": "Be kind."}, *history],
            "stream": stream,
        }
        return "/v1/chat/completions", {
            **body,
            "tools": output,
            "stream_options": {"include_usage": True},
        }

    def read(self, body: Json) -> Spoken:
        message = body["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        made = [
            Call(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
            for c in calls
        ]
        return Spoken(message["content"] or "", made)

    def read_stream(self, events: list[Json]) -> Spoken:
        deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert [call.pop("index") for call in calls] == list(range(len(calls)))
        assert events[-2]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
        content = "".join(delta.get("content") or "" for delta in deltas)
        return self.read({"choices": [{"message": {"content": content, "tool_calls": calls}}]})


class Gemini:
    def prompt(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def result(self, call: Call, text: str) -> list[Json]:
        return [
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": call.name, "response": {"output": text}}}],
            }
        ]

    def answer(self, spoken: Spoken) -> list[Json]:
        parts: list[Json] = [{"text": spoken.text}] if spoken.text else []
        parts += [
            {"functionCall": {"name": call.name, "args": call.arguments}} for call in spoken.calls
        ]
        return [{"role": "model", "parts": parts}]

    def request(self, history: list[Json], tools: list[str], stream: bool) -> tuple[str, Json]:
        output = [{"name": name, "parametersJsonSchema": {"type": "object"}} for name in tools]
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/m:{method}", {
            "contents": history,
            "tools": [{"functionDeclarations": output}],
        }

    def read(self, body: Json) -> Spoken:
        parts = body["candidates"][0]["content"]["parts"]
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = [Call(call["id"], call["name"], call["args"]) for call in made]
        return Spoken("\n\n".join(part["text"] for part in parts if "text" in part), calls)

    def read_stream(self, events: list[Json]) -> Spoken:
        (event,) = events
        return self.read(event)


WIRES: dict[str, Any] = {
    "anthropic": Anthropic(),
    "responses": Responses(),
    "chat": Chat(),
    "gemini": Gemini(),
}
