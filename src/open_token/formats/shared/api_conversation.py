"""Conversations from API traffic: requests, responses, messages and streams of one provider.

Each request repeats the history before it. The builder here adds every item once.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.api_detection import get_record_kind, split_exchange
from open_token.formats.shared.fields import JsonObject
from open_token.formats.shared.notes import note_tool_definitions
from open_token.sources.source import Source

_EMPTY_HISTORY = bytes(16)
_COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
_MAX_PENDING_ANSWERS = 100
"""Answers that are queued until a request follows: a log may have no requests at all."""


class StreamMerger(Protocol):
    """Merges the chunks of a saved stream into whole responses."""

    def add(self, chunk: JsonObject) -> JsonObject | None:
        """Add a chunk; return the previous response if the chunk begins another."""
        ...

    def end(self) -> JsonObject | None:
        """Return the unfinished response, if there is one."""
        ...


class Dialect(Protocol):
    """What is particular to one API: the layout of its bodies, and how items become events."""

    name: str
    draft: Draft

    def create_merger(self) -> StreamMerger:
        """Return a new merger of chunks."""
        ...

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        """Learn the model before anything of an exchange is added; either body may be empty."""
        ...

    def get_prompts(self, request: JsonObject) -> list[Any]:
        """Return the system prompts, which are not part of the history."""
        ...

    def get_history(self, request: JsonObject) -> list[Any]:
        """Return all other items of the request, in order."""
        ...

    def is_delta(self, request: JsonObject) -> bool:
        """Return whether the request holds only what is new."""
        ...

    def list_tools(self, request: JsonObject) -> list[str]:
        """Return the names of the tools that the model may call."""
        ...

    def get_output(self, response: JsonObject) -> list[Any]:
        """Return the items of a response, as the next request would repeat them."""
        ...

    def build_comparison_keys(self, item: Any) -> list[Any]:
        """Return what identifies an item: the same for an answer and its copy in a request.

        Ids and reasoning are left out, because clients drop or change them.
        """
        ...

    def add_item(self, item: Any, place: str) -> None:
        """Add one item of a request or a list to the draft."""
        ...

    def add_response(self, response: JsonObject, place: str) -> None:
        """Add a response to the draft."""
        ...


def read_source(source: Source, dialect: Dialect) -> None:
    """Add everything that the source holds, in order."""
    unit = "record" if source.shape == "document" else "line"
    builder = ConversationBuilder(dialect, unit)
    number = 0
    for number, record in source.records():
        builder.add_record(number, record)
    builder.flush(number)


@dataclass
class _Thread:
    """One history that requests continue: of an agent, or of a branch."""

    prompts: list[Any]
    tools: list[str]


class _Step(NamedTuple):
    """An item that was added, the arrival of an answer, or the end of a request or an answer."""

    kind: str
    item: Any = None
    digest: bytes | None = None
    event: int = 0
    thread: _Thread | None = None


class ConversationBuilder:
    """Adds records one by one, and remembers as digests which histories were added."""

    def __init__(self, dialect: Dialect, unit: str) -> None:
        self._dialect = dialect
        self._draft = dialect.draft
        self._unit = unit
        self._merger = dialect.create_merger()
        self._thread = _Thread([], [])
        self._digest = _EMPTY_HISTORY
        self._compacted_digest: bytes | None = None
        """The digest of the history from its last compaction on: the next request may leave out
        what comes before that."""
        self._trailing = 0
        """How many items at the end of the history have no comparison key, such as reasoning."""
        self._ends: dict[bytes, int] = {}
        """The histories that a request may extend, each with its number of trailing items."""
        self._seen: dict[bytes, tuple[str, _Thread]] = {}
        """Every history that was ever added, with the id of its last event."""
        self._pending: list[_Step] = []
        """What was added since the last request: digests are only needed for another request."""
        self._answers = 0
        self._last_request: list[tuple[Any, bytes]] | None = []
        """The items of the last request and its answer, each with the digest up to it."""

    def add_record(
        self,
        number: int,
        record: Any,
        known_items: int | None = None,
        has_known_prompts: bool = False,
    ) -> None:
        """Add a record.

        `known_items` is the number of items of its request that were added in another dialect,
        `has_known_prompts` whether its prompts were.
        """
        kind = get_record_kind(record, self._dialect.name)
        place = f"{self._unit} {number}"
        if kind == "chunk":
            self._add_merged(self._merger.add(record), number)
            return
        self.flush(number)
        if kind is None:
            self._draft.note_omission(
                "unknown-record", place, "neither a message nor a request or response body"
            )
        elif kind == "message":
            self._dialect.add_item(record, place)
        else:
            self._add_exchange(kind, record, place, known_items, has_known_prompts)

    def flush(self, number: int) -> None:
        """Add the unfinished response of a stream."""
        self._add_merged(self._merger.end(), number)

    def _add_merged(self, response: JsonObject | None, number: int) -> None:
        if response is not None:
            self._dialect.start_exchange({}, response)
            self._add_response(response, f"{self._unit} {number}")

    def _add_exchange(
        self,
        kind: str,
        record: JsonObject,
        place: str,
        known_items: int | None,
        has_known_prompts: bool,
    ) -> None:
        request: Any = None
        response: Any = None
        if kind == "request":
            request = record
        elif kind == "response":
            response = record
        else:
            request, response = split_exchange(record) or (None, None)
        self._note_unknown_chunks(response, place)
        responses = merge_responses(self._dialect, response)
        self._dialect.start_exchange(
            request if isinstance(request, dict) else {}, responses[0] if responses else {}
        )
        if isinstance(request, dict):
            self._add_request(request, place, known_items, has_known_prompts)
        for merged in responses:
            self._add_response(merged, place)

    def _note_unknown_chunks(self, response: Any, place: str) -> None:
        """Note what is no event in a list of the events of a stream."""
        chunks = response if isinstance(response, list) else []
        is_event = [get_record_kind(chunk, self._dialect.name) == "chunk" for chunk in chunks]
        if not any(is_event):
            return
        for number, chunk in enumerate(chunks):
            # The first event of Bedrock is no record by itself; its events have no type.
            has_type = not isinstance(chunk, dict) or "type" in chunk
            if has_type and not is_event[number]:
                self._draft.note_omission(
                    "unknown-record", f"{place} response/{number}", "not an event of a stream"
                )

    def _add_request(
        self, request: JsonObject, place: str, known_items: int | None, has_known_prompts: bool
    ) -> None:
        self._process_pending()
        prompts = self._dialect.get_prompts(request)
        items = self._dialect.get_history(request)
        digests: list[bytes] = []
        first = 0
        if known_items is not None:
            first = self._skip_known(items[:known_items], prompts if has_known_prompts else [])
        elif self._dialect.is_delta(request):
            self._last_request = None
        else:
            first, digests = self._find_first_new(items, prompts)
        self._add_prompts(prompts, place)
        self._add_tools(request, place)
        for position, item in enumerate(items[first:], first):
            self._dialect.add_item(item, f"{place}, item {position + 1}")
            self._queue_item(item, digests[position] if digests else None)
        self._pending.append(_Step("end"))

    def _add_prompts(self, prompts: list[Any], place: str) -> None:
        if prompts == self._thread.prompts:
            return
        for item in prompts:
            self._dialect.add_item(item, place)
        self._thread.prompts = prompts

    def _add_tools(self, request: JsonObject, place: str) -> None:
        tools = self._dialect.list_tools(request)
        if not tools or tools == self._thread.tools:
            return
        self._draft.add_annotation({"kind": "tools", "names": tools})
        self._thread.tools = tools
        for body in (request, request.get("config"), request.get("toolConfig")):
            if isinstance(body, dict):
                definitions = body.get("tools") or body.get("functions")
                note_tool_definitions(self._draft.note_omission, definitions, place)

    def _skip_known(self, items: list[Any], prompts: list[Any]) -> int:
        """Continue from items that another dialect has added."""
        self._thread = _Thread(prompts, [])
        self._digest = _EMPTY_HISTORY
        self._compacted_digest = None
        self._trailing = 0
        self._last_request = None
        for item in items:
            self._queue_item(item)
        return len(items)

    def _find_first_new(self, items: list[Any], prompts: list[Any]) -> tuple[int, list[bytes]]:
        """Return how many items of a request were added before, and the digest up to each item."""
        # While nothing was added, nothing can be repeated.
        digests = self._build_digests(items) if self._seen else []
        first = self._match_history(items, digests, prompts)
        self._last_request = list(zip(items[:first], digests[:first], strict=True))
        return first, digests

    def _build_digests(self, items: list[Any]) -> list[bytes]:
        """Return the digest of the history up to each item.

        Those of the items that the last request had, too, are taken from there: hashing each
        request from its beginning would take quadratic time.
        """
        digests: list[bytes] = []
        for (known, digest), item in zip(self._last_request or (), items, strict=False):
            if known != item:
                break
            digests.append(digest)
        digest = digests[-1] if digests else _EMPTY_HISTORY
        for item in items[len(digests) :]:
            digest = self._extend_digest(digest, item)
            digests.append(digest)
        return digests

    def _match_history(self, items: list[Any], digests: list[bytes], prompts: list[Any]) -> int:
        """Choose the history that a request continues; return how many of its items are known."""
        extended = shared = (0, _EMPTY_HISTORY)
        previous = _EMPTY_HISTORY
        for count, digest in enumerate(digests, 1):
            if digest != previous and digest in self._ends:
                extended = (count, digest)
            if digest != previous and digest in self._seen:
                shared = (count, digest)
            previous = digest
        if extended[0]:
            return self._extend_history(items, *extended)
        if shared[0] and prompts != self._seen[shared[1]][1].prompts:
            shared = (0, _EMPTY_HISTORY)
        count, digest = shared
        if self._seen:
            self._add_request_marker(count, digest)
        known = self._seen[digest][1] if count else self._thread
        self._thread = _Thread(known.prompts, known.tools)
        self._digest = digest
        self._compacted_digest = None
        self._trailing = 0
        return count

    def _extend_history(self, items: list[Any], first: int, digest: bytes) -> int:
        if digest not in (self._digest, self._compacted_digest):
            self._add_request_marker(first, digest)
            self._compacted_digest = None
        self._digest = digest
        self._thread = self._seen[digest][1]
        trailing = self._ends.pop(digest)
        self._trailing = trailing
        while (
            trailing
            and first < len(items)
            and not self._dialect.build_comparison_keys(items[first])
        ):
            first += 1
            trailing -= 1
        return first

    def _add_request_marker(self, count: int, digest: bytes) -> None:
        """Mark a request that does not continue the last answer.

        It is of another agent, a retry, or has an edited history.
        """
        data: dict[str, Any] = {"kind": "new_request"}
        if count:
            data["repeats"] = count
            data["after"] = self._seen[digest][0]
        self._draft.add_annotation(data)

    def _add_response(self, response: JsonObject, place: str) -> None:
        self._answers += 1
        if self._answers > _MAX_PENDING_ANSWERS:
            self._process_pending()
            self._last_request = None
        self._pending.append(_Step("answer"))
        self._dialect.add_response(response, place)
        for item in self._dialect.get_output(response):
            self._queue_item(item)
        self._pending.append(_Step("end"))

    def _queue_item(self, item: Any, digest: bytes | None = None) -> None:
        self._pending.append(_Step("item", item, digest, self._draft.count, self._thread))

    def _process_pending(self) -> None:
        """Compute the digests of what was added since the last request."""
        steps = self._pending
        self._pending = []
        self._answers = 0
        for step in steps:
            if step.kind == "answer":
                self._ends.pop(self._digest, None)
                if self._compacted_digest is not None:
                    self._ends.pop(self._compacted_digest, None)
            elif step.kind == "item" and step.thread is not None:
                digest = step.digest or self._extend_digest(self._digest, step.item)
                self._trailing = self._trailing + 1 if digest == self._digest else 0
                self._digest = digest
                self._seen[digest] = (f"evt_{step.event:06d}", step.thread)
                self._extend_compacted(step)
                if self._last_request is not None:
                    self._last_request.append((step.item, digest))
            elif self._digest != _EMPTY_HISTORY:
                self._ends[self._digest] = self._trailing
                if self._compacted_digest is not None:
                    self._ends[self._compacted_digest] = self._trailing

    def _extend_compacted(self, step: _Step) -> None:
        """Add an item to the history from the last compaction on, which it may begin."""
        is_compaction = isinstance(step.item, dict) and step.item.get("type") in _COMPACTIONS
        digest = _EMPTY_HISTORY if is_compaction else self._compacted_digest
        if digest is None or step.thread is None:
            return
        self._compacted_digest = self._extend_digest(digest, step.item)
        self._seen[self._compacted_digest] = (f"evt_{step.event:06d}", step.thread)

    def _extend_digest(self, digest: bytes, item: Any) -> bytes:
        for key in self._dialect.build_comparison_keys(item):
            digest = hashlib.blake2b(digest + _encode_key(key), digest_size=16).digest()
        return digest


def merge_responses(dialect: Dialect, response: Any) -> list[JsonObject]:
    """Return the responses in a recorded body: one object, or those of a stream of chunks."""
    if not isinstance(response, list):
        return [response] if isinstance(response, dict) else []
    merger = dialect.create_merger()
    responses = [merger.add(chunk) for chunk in response if isinstance(chunk, dict)]
    responses.append(merger.end())
    return [body for body in responses if body is not None]


def _encode_key(key: Any) -> bytes:
    try:
        return msgspec.json.encode(key, order="sorted")
    except (RecursionError, UnicodeEncodeError):
        return b"?"
