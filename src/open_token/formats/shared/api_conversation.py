"""From requests, responses, messages and streams of one provider to one conversation in which
nothing is told twice."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.api_detection import kind_in
from open_token.formats.shared.fields import note_definitions
from open_token.formats.shared.model_message import Body
from open_token.formats.shared.request_pairs import split
from open_token.sources.source import Source

_START = bytes(16)
_MOST_ANSWERS = 100
"""Answers without a request that are held until one comes: a log may have no requests at all."""


class Stream(Protocol):
    """Merges the chunks of a saved stream into whole responses."""

    def add(self, chunk: Body) -> Body | None:
        """Take a chunk; gives the response before it when the chunk begins another."""
        ...

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        ...


class Teller(Protocol):
    """What a dialect knows: where its bodies hold what, and how an item becomes events."""

    name: str
    draft: Draft

    def stream(self) -> Stream:
        """A fresh merger of chunks."""
        ...

    def meet(self, request: Body, response: Body) -> None:
        """Learn the model and the like before anything of an exchange is told; either body may be
        empty."""
        ...

    def preamble(self, request: Body) -> list[Any]:
        """The items that set the stage, apart from the history: system prompts."""
        ...

    def history(self, request: Body) -> list[Any]:
        """All other items of the request, in order."""
        ...

    def is_delta(self, request: Body) -> bool:
        """Whether the request holds only what is new."""
        ...

    def tools(self, request: Body) -> list[str]:
        """The names of the tools that the model may call."""
        ...

    def answer(self, response: Body) -> list[Any]:
        """The items of a response, as the next request would repeat them."""
        ...

    def gists(self, item: Any) -> list[Any]:
        """What an item says, without ids and thoughts: the same for an answer and its copy in the
        next request."""
        ...

    def tell(self, item: Any, place: str) -> None:
        """Tell one item of a request or a list."""
        ...

    def tell_answer(self, response: Body, place: str) -> None:
        """Tell a response."""
        ...


def tell_source(source: Source, teller: Teller) -> None:
    """Tell everything the source holds, in order."""
    conversation = Conversation(teller, "record" if source.shape == "document" else "line")
    number = 0
    for number, record in source.records():
        conversation.take(number, record)
    conversation.flush(number)


@dataclass
class _Thread:
    """One history that requests go on from: an agent's, or a branch of it."""

    preamble: list[Any]
    tools: list[str]


class _Step(NamedTuple):
    """Something that was told, with its item; or that an answer came, or that a request or an
    answer is over."""

    what: str
    item: Any = None
    digest: bytes | None = None
    event: int = 0
    thread: _Thread | None = None


class Conversation:
    """Takes records one by one; remembers, as digests, which histories were told."""

    def __init__(self, teller: Teller, unit: str) -> None:
        self._teller = teller
        self._draft = teller.draft
        self._unit = unit
        self._stream = teller.stream()
        self._thread = _Thread([], [])
        self._digest = _START
        self._loose = 0
        self._ends: dict[bytes, int] = {}
        """The histories that a request may extend, each with its number of trailing items that say
        nothing."""
        self._seen: dict[bytes, tuple[str, _Thread]] = {}
        """Every history that was ever told, with the id of its last event."""
        self._later: list[_Step] = []
        """What was told since the last request: only another request has to know of it."""
        self._answers = 0
        self._known: list[tuple[Any, bytes]] | None = []
        """The items of the last request and its answer, each with the digest of the history up to
        it."""

    def take(
        self, number: int, record: Any, told: int | None = None, prompted: bool = False
    ) -> None:
        """Tell a record; `told` items of its request, and if `prompted` its prompts, were told in
        another dialect."""
        kind = kind_in(record, self._teller.name)
        place = f"{self._unit} {number}"
        if kind == "chunk":
            self._answer(self._stream.add(record), number)
            return
        self.flush(number)
        if kind is None:
            self._draft.note_omission(
                "unknown-record", place, "a record that is no message and no body"
            )
            return
        if kind == "message":
            self._teller.tell(record, place)
        else:
            self._exchange(kind, record, place, told, prompted)

    def flush(self, number: int) -> None:
        """Tell the streamed response under way."""
        self._answer(self._stream.end(), number)

    def _answer(self, response: Body | None, number: int) -> None:
        if response is not None:
            self._teller.meet({}, response)
            self._respond(response, f"{self._unit} {number}")

    def _exchange(
        self, kind: str, record: Body, place: str, told: int | None, prompted: bool
    ) -> None:
        request, response = (split(record) or (None, None)) if kind == "pair" else (None, None)
        if kind == "request":
            request = record
        elif kind == "response":
            response = record
        answers = self._merged(response) if isinstance(response, list) else [response]
        answers = [answer for answer in answers if isinstance(answer, dict)]
        self._teller.meet(
            request if isinstance(request, dict) else {}, answers[0] if answers else {}
        )
        if isinstance(request, dict):
            self._request(request, place, told, prompted)
        for answer in answers:
            self._respond(answer, place)

    def _merged(self, chunks: list[Any]) -> list[Body]:
        stream = self._teller.stream()
        made = [stream.add(chunk) for chunk in chunks if isinstance(chunk, dict)]
        return [body for body in (*made, stream.end()) if body is not None]

    def _request(self, request: Body, place: str, told: int | None, prompted: bool) -> None:
        self._settle()
        preamble = self._teller.preamble(request)
        items = self._teller.history(request)
        digests: list[bytes] = []
        first = 0
        if told is not None:
            first = self._pass_over(items[:told], preamble if prompted else [])
        elif self._teller.is_delta(request):
            self._known = None
        else:
            first, digests = self._first_new(items, preamble)
        if preamble != self._thread.preamble:
            for item in preamble:
                self._teller.tell(item, place)
            self._thread.preamble = preamble
        tools = self._teller.tools(request)
        if tools and tools != self._thread.tools:
            self._draft.add_annotation({"kind": "tools", "names": tools})
            self._thread.tools = tools
            for given in (request, request.get("config")):
                if isinstance(given, dict):
                    note_definitions(
                        self._draft.note_omission,
                        given.get("tools") or given.get("functions"),
                        place,
                    )
        for position, item in enumerate(items[first:], first):
            self._teller.tell(item, f"{place}, item {position + 1}")
            self._advance(item, digests[position] if digests else None)
        self._later.append(_Step("mark"))

    def _pass_over(self, items: list[Any], preamble: list[Any]) -> int:
        """Go on from items that stand in the draft in other words."""
        self._thread, self._digest, self._loose, self._known = (
            _Thread(preamble, []),
            _START,
            0,
            None,
        )
        for item in items:
            self._advance(item)
        return len(items)

    def _first_new(self, items: list[Any], preamble: list[Any]) -> tuple[int, list[bytes]]:
        """How many items of a request were told before, and the digest up to each; what is new goes
        on from there."""
        # Before anything was told, nothing can be told again.
        digests = self._digests(items) if self._seen else []
        first = self._told_before(items, digests, preamble)
        self._known = list(zip(items[:first], digests[:first], strict=True))
        return first, digests

    def _digests(self, items: list[Any]) -> list[bytes]:
        """The digest of the history up to each item; those of the items that the last request had
        are known."""
        made: list[bytes] = []
        for (known, digest), item in zip(self._known or (), items, strict=False):
            if known != item:
                break
            made.append(digest)
        digest = made[-1] if made else _START
        for item in items[len(made) :]:
            digest = self._fold(digest, item)
            made.append(digest)
        return made

    def _told_before(self, items: list[Any], digests: list[bytes], preamble: list[Any]) -> int:
        extended = shared = (0, _START)
        before = _START
        for count, digest in enumerate(digests, 1):
            if digest != before and digest in self._ends:
                extended = (count, digest)
            if digest != before and digest in self._seen:
                shared = (count, digest)
            before = digest
        if extended[0]:
            return self._extend(items, *extended)
        if shared[0] and preamble != self._seen[shared[1]][1].preamble:
            shared = (0, _START)
        if self._seen:
            self._announce(*shared)
        known = self._seen[shared[1]][1] if shared[0] else self._thread
        self._thread = _Thread(known.preamble, known.tools)
        self._digest, self._loose = shared[1], 0
        return shared[0]

    def _extend(self, items: list[Any], first: int, digest: bytes) -> int:
        if digest != self._digest:
            self._announce(first, digest)
        self._digest, self._thread = digest, self._seen[digest][1]
        self._loose = loose = self._ends.pop(digest)
        while loose and first < len(items) and not self._teller.gists(items[first]):
            first, loose = first + 1, loose - 1
        return first

    def _announce(self, count: int, digest: bytes) -> None:
        """A request that does not go on from the last answer: another agent, a retry, or an edited
        history."""
        data: dict[str, Any] = {"kind": "new_request"}
        if count:
            data |= {"repeats": count, "after": self._seen[digest][0]}
        self._draft.add_annotation(data)

    def _respond(self, response: Body, place: str) -> None:
        self._answers += 1
        if self._answers > _MOST_ANSWERS:
            self._settle()
            self._known = None
        self._later.append(_Step("answered"))
        self._teller.tell_answer(response, place)
        for item in self._teller.answer(response):
            self._advance(item)
        self._later.append(_Step("mark"))

    def _advance(self, item: Any, digest: bytes | None = None) -> None:
        self._later.append(_Step("told", item, digest, self._draft.count, self._thread))

    def _settle(self) -> None:
        """Take note of what was told since the last request."""
        steps, self._later, self._answers = self._later, [], 0
        for step in steps:
            if step.what == "answered":
                self._ends.pop(self._digest, None)
            elif step.what == "told" and step.thread is not None:
                digest = step.digest or self._fold(self._digest, step.item)
                self._loose = self._loose + 1 if digest == self._digest else 0
                self._digest = digest
                self._seen[digest] = (f"evt_{step.event:06d}", step.thread)
                if self._known is not None:
                    self._known.append((step.item, digest))
            elif self._digest != _START:
                self._ends[self._digest] = self._loose

    def _fold(self, digest: bytes, item: Any) -> bytes:
        for gist in self._teller.gists(item):
            digest = hashlib.blake2b(digest + _bytes(gist), digest_size=16).digest()
        return digest


def _bytes(gist: Any) -> bytes:
    try:
        return msgspec.json.encode(gist, order="sorted")
    except (RecursionError, UnicodeEncodeError):
        return b"?"
