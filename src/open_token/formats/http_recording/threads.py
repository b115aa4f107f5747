"""Conversations in a recording: model calls grouped by the history that they continue.

One conversation may be held with several APIs, so histories are compared by what their turns
are, in whatever dialect they stand.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from open_token.builder.draft import Draft
from open_token.formats.http_recording.interactions import Exchange
from open_token.formats.shared.api_conversation import Dialect, merge_responses
from open_token.formats.shared.api_detection import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    COHERE,
    GEMINI,
    RESPONSES,
    classify_record,
    split_exchange,
)
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.message_writer import normalize_text
from open_token.jsontools.walk import iter_strings

_THINKING_TAG = re.compile(r"</?think(?:ing)?>")
_RESULT_KEYS = ("result", "functionResponse", "toolResponse")
_CALL_KEYS = ("call", "functionCall")
_MIN_TASK_LENGTH = 8

_ENDPOINTS = (
    (re.compile(r"/chat/completions$"), CHAT, "messages"),
    (re.compile(r"/messages$"), ANTHROPIC, "messages"),
    (re.compile(r"/responses(?:/[\w-]+)?$"), RESPONSES, "input"),
    (re.compile(r":(?:generate|streamGenerate)Content$", re.IGNORECASE), GEMINI, "contents"),
    (re.compile(r"/model/[^/]+/converse(?:-stream)?$"), BEDROCK, "messages"),
    (re.compile(r"/v2/chat$"), COHERE, "messages"),
)
# The APIs that name the model in the address, and the field of a request that holds it elsewhere.
_MODELS_IN_URL = {
    GEMINI: ("model", re.compile(r"/models/([^/:]+):")),
    BEDROCK: ("modelId", re.compile(r"/model/([^/]+)/converse")),
}
_TIME_FIELDS = {
    ANTHROPIC: "created_at",
    GEMINI: "createTime",
    BEDROCK: "timestamp",
    COHERE: "created_at",
}


def create_dialect(name: str, draft: Draft) -> Dialect:
    """Return what adds bodies of one API to the draft; its reader is imported on first use."""
    if name == CHAT:
        from open_token.formats.openai_chat import reader as chat

        return chat.create_dialect(draft)
    if name == ANTHROPIC:
        from open_token.formats.anthropic_messages import reader as anthropic

        return anthropic.create_dialect(draft)
    if name == RESPONSES:
        from open_token.formats.openai_responses import reader as responses

        return responses.create_dialect(draft)
    if name == BEDROCK:
        from open_token.formats.bedrock_converse import reader as bedrock

        return bedrock.create_dialect(draft)
    if name == COHERE:
        from open_token.formats.cohere import reader as cohere

        return cohere.create_dialect(draft)
    from open_token.formats.gemini_api import reader as gemini

    return gemini.create_dialect(draft)


@dataclass
class ModelCall:
    """One model call, and how it continues what was recorded before it."""

    exchange: Exchange
    dialect: str
    record: JsonObject
    known_items: int | None = None
    """How many items of its request were added in another dialect; None if its own dialect is
    to find out what is new."""
    has_known_prompts: bool = False
    """Whether its prompts were added in another dialect."""
    continues: bool = True
    """Whether nothing was added after those items."""


@dataclass
class Conversation:
    """The model calls of one conversation."""

    calls: list[ModelCall] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    title: str | None = None
    model_texts: list[str] = field(default_factory=list)
    """What models have written in it, reasoning included."""

    def contains(self, text: str) -> bool:
        """Return whether a model has written this text.

        Clients wrap the reasoning of another provider in tags, so the pieces count.
        """
        self.model_texts = ["\n".join(self.model_texts)]
        pieces = _THINKING_TAG.split(text)
        return all(normalize_text(piece) in self.model_texts[0] for piece in pieces)


@dataclass(frozen=True)
class _HistoryOwner:
    """The conversation that a history belongs to, and the dialect that added it last."""

    conversation: Conversation
    dialect: str


class Threads:
    """Groups model calls into conversations, in the order of the recording."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.others: list[Exchange] = []
        """What was recorded and is not a model call."""
        self._dialects: dict[str, Dialect] = {}
        self._histories: dict[bytes, _HistoryOwner] = {}
        self._ends: set[bytes] = set()
        self._by_id: dict[str, Conversation] = {}
        self._response_ids: set[str] = set()
        """The ids of responses that were added: they may be fetched again."""
        self._tasks: dict[str, Conversation] = {}
        """The texts in arguments of tool calls: the first message of a subagent is one of them."""

    def add(self, exchange: Exchange) -> None:
        """Add the next exchange of the recording."""
        parsed = parse_model_call(exchange)
        if parsed is None or self._is_repeated(parsed[1]):
            self.others.append(exchange)
            return
        name, record = parsed
        if name not in self._dialects:
            self._dialects[name] = create_dialect(name, Draft())
        dialect = self._dialects[name]
        request = record["request"] or {}
        dialect.start_exchange(request, {})
        call = ModelCall(exchange, name, record)
        self._assign(call, dialect, request).calls.append(call)

    def _is_repeated(self, record: JsonObject) -> bool:
        """Return whether this is a response that was fetched again."""
        if record["request"] is not None:
            return False
        response = record["response"]
        return isinstance(response, dict) and as_text(response.get("id")) in self._response_ids

    def _assign(self, call: ModelCall, dialect: Dialect, request: JsonObject) -> Conversation:
        items = dialect.get_history(request)
        prompt = _join_prompts(dialect.get_prompts(request))
        turns = [_list_turns(dialect, item) for item in items]
        digests = _build_digests(turns, prompt)
        questions = _list_questions(turns)
        conversation = self._find_by_id(request, call.record["response"])
        if conversation is None:
            conversation = self._find_by_history(call, items, turns, digests, prompt)
        if conversation is None and questions:
            conversation = self._tasks.get(questions[0])
        if conversation is None:
            conversation = Conversation(title=questions[0] if questions else None)
            self.conversations.append(conversation)
        conversation.prompts.add(prompt)
        for item in items[call.known_items or 0 :]:
            if _is_model_output(item):
                conversation.model_texts.append(_join_strings(item))
        self._remember(call, dialect, conversation, digests or [_seed_digest(prompt)])
        return conversation

    def _find_by_id(self, request: JsonObject, response: Any) -> Conversation | None:
        """Return the conversation that a request of the Responses API names."""
        names = [request.get("previous_response_id"), _get_conversation_id(request)]
        if isinstance(response, dict) and not request:
            names.append(response.get("id"))
        for name in names:
            if isinstance(name, str) and name in self._by_id:
                return self._by_id[name]
        return None

    def _find_by_history(
        self,
        call: ModelCall,
        items: list[Any],
        turns: list[list[bytes]],
        digests: list[bytes],
        prompt: str,
    ) -> Conversation | None:
        """Return the conversation that holds the beginning of this history."""
        length = len(digests)
        while length and digests[length - 1] not in self._histories:
            length -= 1
        if not length:
            return None
        owner = self._histories[digests[length - 1]]
        conversation = owner.conversation
        continues = digests[length - 1] in self._ends
        if owner.dialect != call.dialect:
            count = _count_covered_items(turns, length)
            call.known_items = _count_known_items(items[:count], conversation)
            call.continues = continues and call.known_items == count
            call.has_known_prompts = prompt in conversation.prompts
        elif not continues and prompt not in conversation.prompts:
            return None
        return conversation

    def _remember(
        self,
        call: ModelCall,
        dialect: Dialect,
        conversation: Conversation,
        digests: list[bytes],
    ) -> None:
        responses = merge_responses(dialect, call.record["response"])
        self._ends.discard(digests[-1])
        has_output = any(dialect.get_output(response) for response in responses)
        if has_output and not digests[-1].endswith(b"a"):
            digests = [*digests, _extend_digest(digests[-1], b"a")]
        owner = _HistoryOwner(conversation, call.dialect)
        for digest in digests:
            self._histories[digest] = owner
        self._ends.add(digests[-1])
        for response in responses:
            self._remember_response(response, dialect, conversation)

    def _remember_response(
        self, response: JsonObject, dialect: Dialect, conversation: Conversation
    ) -> None:
        response_id = as_text(response.get("id"))
        output = dialect.get_output(response)
        if response_id and output:
            self._response_ids.add(response_id)
        for name in (response_id, as_text(_get_conversation_id(response))):
            if name:
                self._by_id[name] = conversation
        for item in output:
            conversation.model_texts.append(_join_strings(item))
            for key in dialect.build_comparison_keys(item):
                if key[0] not in _CALL_KEYS:
                    continue
                for text in map(normalize_text, iter_strings(key[1:])):
                    if len(text) >= _MIN_TASK_LENGTH:
                        self._tasks[text] = conversation


def _get_conversation_id(body: JsonObject) -> Any:
    conversation = body.get("conversation")
    return conversation.get("id") if isinstance(conversation, dict) else conversation


def _join_prompts(prompts: list[Any]) -> str:
    """Return the text of prompts, whatever the dialect."""
    texts: list[str] = []
    for item in prompts:
        texts += _list_texts(item)
    return normalize_text(" ".join(texts))


def _join_strings(item: Any) -> str:
    return normalize_text(" ".join(iter_strings(item)))


def _list_texts(item: Any) -> list[str]:
    """Return the texts of a message in any dialect."""
    content = item
    if isinstance(item, dict):
        # Gemini calls the blocks of a message parts.
        content = item.get("content", item.get("parts"))
    texts: list[str] = []
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            texts.append(text)
    return texts


def _list_turns(dialect: Dialect, item: Any) -> list[bytes]:
    """Return what an item is to a history in any dialect.

    `u` with the text is a message of the user, `r` a result, `a` a turn of the model.
    """
    keys = dialect.build_comparison_keys(item)
    if _is_model_output(item):
        return [b"a"] if keys else []
    turns = []
    for key in keys:
        if key[0] == "text" and key[2]:
            turns.append(b"u" + str(key[2]).encode("utf-8", "replace"))
        elif key[0] in _RESULT_KEYS:
            turns.append(b"r")
    return turns


def _is_model_output(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type", "message")
    if kind != "message" and "role" not in item:
        return not str(kind).endswith("_output")
    return item.get("role") in ("assistant", "model")


def _count_known_items(items: list[Any], conversation: Conversation) -> int:
    """Return how many items come before the first model output that the conversation lacks."""
    for number, item in enumerate(items):
        if _is_model_output(item) and not all(map(conversation.contains, _list_texts(item))):
            return number
    return len(items)


def _list_questions(turns: list[list[bytes]]) -> list[str]:
    """Return the messages of the user."""
    questions = []
    for item in turns:
        for turn in item:
            if turn[:1] == b"u":
                questions.append(turn[1:].decode("utf-8", "replace"))
    return questions


def _build_digests(turns: list[list[bytes]], prompt: str) -> list[bytes]:
    """Return a digest for each turn, over all turns up to it.

    Consecutive turns of the model count as one, because dialects split them differently.
    """
    digests: list[bytes] = []
    digest = b""
    previous = b""
    for turn in (turn for item in turns for turn in item):
        if turn == b"a" and previous == b"a":
            continue
        if not digests and turn[:1] != b"u":
            digest = _seed_digest(prompt)
        digest = _extend_digest(digest, turn)
        previous = turn
        digests.append(digest)
    return digests


def _seed_digest(prompt: str) -> bytes:
    """Return the start of a history that does not begin with a message of the user."""
    return _extend_digest(prompt.encode("utf-8", "replace"), b"p")


def _extend_digest(digest: bytes, turn: bytes) -> bytes:
    """Return the digest of a history with one more turn; its last byte is the kind of the turn."""
    return hashlib.blake2b(digest + b"\0" + turn, digest_size=16).digest() + turn[:1]


def _count_covered_items(turns: list[list[bytes]], length: int) -> int:
    """Return how many items the first `length` turns of a history are."""
    count = 0
    previous = b""
    for number, item in enumerate(turns):
        for turn in item:
            if turn != b"a" or previous != b"a":
                count += 1
            previous = turn
        if count > length:
            return number
    return len(turns)


def parse_model_call(exchange: Exchange) -> tuple[str, JsonObject] | None:
    """Return the dialect of a model call and its record; None if it is not a model call."""
    sides = split_exchange({"request": exchange.request, "response": exchange.response})
    request, response = sides or (None, None)
    if not isinstance(request, dict):
        request = None
    if not isinstance(response, dict | list):
        response = None
    dialect = _detect_dialect(exchange, request, response)
    if dialect is None:
        return None
    if response is None and isinstance(exchange.response, str) and exchange.response.strip():
        exchange.problems.append("a response that is neither JSON nor a stream of events")
    if request is not None and dialect in _MODELS_IN_URL:
        field_name, pattern = _MODELS_IN_URL[dialect]
        model = pattern.search(exchange.url)
        if model and field_name not in request:
            request = {**request, field_name: unquote(model[1])}
    return dialect, {"request": request, "response": _add_time(response, dialect, exchange.at)}


def _detect_dialect(exchange: Exchange, request: JsonObject | None, response: Any) -> str | None:
    path = exchange.url.partition("?")[0].partition("#")[0].rstrip("/")
    if request is not None and exchange.method in ("POST", ""):
        for endpoint, dialect, history in _ENDPOINTS:
            if history in request and endpoint.search(path):
                return dialect
    if _is_polled_response(path, exchange, response):
        return RESPONSES
    if request is None or response is None:
        return None
    if isinstance(response, list):
        first = next((part for part in response if isinstance(part, dict)), None)
    else:
        first = response
    pair = classify_record({"request": request, "response": response})
    asked = classify_record(request)
    answered = classify_record(first)
    if pair is None or asked is None or answered is None:
        return None
    if not pair.dialects or answered.kind == "message":
        return None
    return pair.likely if pair.likely in pair.dialects else min(pair.dialects)


def _is_polled_response(path: str, exchange: Exchange, response: Any) -> bool:
    """Return whether a Responses API response was fetched when it was complete.

    The request that started it had no response yet.
    """
    if exchange.method != "GET" or "/responses/" not in path or not isinstance(response, dict):
        return False
    return response.get("object") == "response" and response.get("status") == "completed"


def _add_time(response: Any, dialect: str, at: str | None) -> Any:
    """Return a response with the time of the recording.

    It is added where the dialect has a field for it and the response does not set it.
    """
    name = _TIME_FIELDS.get(dialect)
    if at is None or name is None:
        return response
    if isinstance(response, dict) and not response.get(name):
        return {**response, name: at}
    if isinstance(response, list) and response and isinstance(response[0], dict):
        first = response[0]
        message = first.get("message")
        if dialect in (GEMINI, BEDROCK, COHERE) and not first.get(name):
            return [{**first, name: at}, *response[1:]]
        if dialect == ANTHROPIC and isinstance(message, dict):
            return [{**first, "message": {**message, name: at}}, *response[1:]]
    return response
