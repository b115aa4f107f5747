"""Which model calls of a recording are one conversation: a request that goes on from an earlier
one, in any dialect."""

import hashlib
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from open_token.builder.draft import Draft
from open_token.formats.http_recording.interactions import Body, Exchange
from open_token.formats.shared.api_conversation import Teller
from open_token.formats.shared.api_detection import ANTHROPIC, CHAT, GEMINI, RESPONSES, look_at
from open_token.formats.shared.model_message import said
from open_token.formats.shared.request_pairs import split
from open_token.formats.shared.responses_content import word
from open_token.jsontools.walk import iter_strings

_THINKING = re.compile(r"</?think(?:ing)?>")
_RESULTS = ("result", "functionResponse", "toolResponse")
_SHORTEST_TASK = 8


def teller_of(dialect: str, draft: Draft) -> Teller:
    """Return the reader of one provider's API; each module is imported when it is first needed."""
    teller: Teller = import_module(f"open_token.formats.{dialect}.reader").teller(draft)
    return teller


@dataclass
class Call:
    """One model call and how it goes on from what was recorded before it."""

    exchange: Exchange
    dialect: str
    record: Body
    told: int | None = None
    """How many items of its request another dialect has told; None when that is for its own dialect
    to find out."""
    prompted: bool = False
    """Whether its prompts were told in another dialect."""
    goes_on: bool = True
    """Whether nothing was told behind those items."""


@dataclass
class Talk:
    """The calls of one conversation."""

    calls: list[Call] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    title: str | None = None
    words: list[str] = field(default_factory=list)
    """What models have said and thought in it."""

    def has(self, text: str) -> bool:
        """Whether a model has said this: clients wrap the thoughts of another provider in tags."""
        self.words = ["\n".join(self.words)]
        return all(said(piece) in self.words[0] for piece in _THINKING.split(text))


@dataclass(frozen=True)
class _Place:
    """Where a history ended: whose it is, and which dialect told it last."""

    talk: Talk
    dialect: str


class Threads:
    """Sorts calls into conversations, in the order of the recording."""

    def __init__(self) -> None:
        self.talks: list[Talk] = []
        self.others: list[Exchange] = []
        """What was recorded and is no model call."""
        self._tellers: dict[str, Teller] = {}
        self._seen: dict[bytes, _Place] = {}
        self._ends: set[bytes] = set()
        self._by_id: dict[str, Talk] = {}
        self._answered: set[str] = set()
        """The ids of responses that are told: they may be fetched again."""
        self._tasks: dict[str, Talk] = {}
        """What a call of a tool was given, by which an agent that it started is known."""

    def take(self, exchange: Exchange) -> None:
        """Sort in what was recorded next."""
        found = call_of(exchange)
        if found is None or self._is_known(found[1]):
            self.others.append(exchange)
            return
        dialect, record = found
        if dialect not in self._tellers:
            self._tellers[dialect] = teller_of(dialect, Draft())
        call = Call(exchange, dialect, record)
        teller, request = self._tellers[dialect], record["request"] or {}
        teller.meet(request, {})
        self._place(call, teller, request).calls.append(call)

    def _is_known(self, record: Body) -> bool:
        response = record["response"]
        name = word(response.get("id")) if isinstance(response, dict) else None
        return record["request"] is None and name in self._answered

    def _place(self, call: Call, teller: Teller, request: Body) -> Talk:
        items = teller.history(request)
        prompt = _prompt(teller.preamble(request))
        marks = [_marks(teller, item) for item in items]
        chain = _chain(marks, prompt)
        talk = self._by_name(request, call.record["response"]) or self._earlier(
            call, items, marks, chain, prompt
        )
        if talk is None:
            talk = next(
                (self._tasks[text] for text in _asked(marks)[:1] if text in self._tasks), None
            )
        if talk is None:
            talk = Talk(title=next(iter(_asked(marks)), None))
            self.talks.append(talk)
        talk.prompts.add(prompt)
        talk.words += [
            said(" ".join(iter_strings(item)))
            for item in items[call.told or 0 :]
            if _is_model(item)
        ]
        self._remember(call, teller, talk, chain or [_seed(prompt)])
        return talk

    def _by_name(self, request: Body, response: Any) -> Talk | None:
        """The Responses API names what a request goes on from."""
        held = request.get("conversation")
        names = [
            request.get("previous_response_id"),
            held.get("id") if isinstance(held, dict) else held,
        ]
        names += [response.get("id")] if isinstance(response, dict) and not request else []
        return next(
            (self._by_id[name] for name in names if isinstance(name, str) and name in self._by_id),
            None,
        )

    def _earlier(
        self,
        call: Call,
        items: list[Any],
        marks: list[list[bytes]],
        chain: list[bytes],
        prompt: str,
    ) -> Talk | None:
        """The conversation that holds the beginning of this history."""
        length = next((n for n in range(len(chain), 0, -1) if chain[n - 1] in self._seen), 0)
        if not length:
            return None
        place = self._seen[chain[length - 1]]
        goes_on = chain[length - 1] in self._ends
        if not goes_on and prompt not in place.talk.prompts and place.dialect == call.dialect:
            return None
        if place.dialect != call.dialect:
            count = _covered(marks, length)
            told = (
                n
                for n, item in enumerate(items[:count])
                if _is_model(item) and not _is_told(item, place.talk)
            )
            call.told = next(told, count)
            call.goes_on = goes_on and call.told == count
            call.prompted = prompt in place.talk.prompts
        return place.talk

    def _remember(self, call: Call, teller: Teller, talk: Talk, chain: list[bytes]) -> None:
        place = _Place(talk, call.dialect)
        answers = _merged(teller, call.record["response"])
        self._ends.discard(chain[-1])
        if any(map(teller.answer, answers)) and not chain[-1].endswith(b"a"):
            chain = [*chain, _link(chain[-1], b"a")]
        for link in chain:
            self._seen[link] = place
        self._ends.add(chain[-1])
        for answer in answers:
            self._learn(answer, teller, talk)

    def _learn(self, answer: Body, teller: Teller, talk: Talk) -> None:
        held = answer.get("conversation")
        if (given := word(answer.get("id"))) and teller.answer(answer):
            self._answered.add(given)
        for name in (
            word(answer.get("id")),
            word(held.get("id") if isinstance(held, dict) else held),
        ):
            if name:
                self._by_id[name] = talk
        for item in teller.answer(answer):
            talk.words.append(said(" ".join(iter_strings(item))))
            for gist in teller.gists(item):
                if gist[0] in ("call", "functionCall"):
                    self._tasks |= {
                        text: talk
                        for text in map(said, iter_strings(gist[1:]))
                        if len(text) >= _SHORTEST_TASK
                    }


def _merged(teller: Teller, response: Any) -> list[Body]:
    if not isinstance(response, list):
        return [response] if isinstance(response, dict) else []
    stream = teller.stream()
    made = [stream.add(chunk) for chunk in response if isinstance(chunk, dict)]
    return [body for body in (*made, stream.end()) if body is not None]


def _prompt(preamble: list[Any]) -> str:
    """What prompts say, whatever the dialect."""
    return said(" ".join(text for item in preamble for text in _texts(item)))


def _texts(item: Any) -> list[str]:
    """The texts of a message in any dialect."""
    content = item.get("content", item.get("parts")) if isinstance(item, dict) else item
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return [text for text in texts if isinstance(text, str)]


def _marks(teller: Teller, item: Any) -> list[bytes]:
    """What an item is to a history in any dialect: words of the user, a result, or the model's
    turn."""
    gists = teller.gists(item)
    if _is_model(item):
        return [b"a"] if gists else []
    made = []
    for gist in gists:
        if gist[0] == "text" and gist[2]:
            made.append(b"u" + str(gist[2]).encode("utf-8", "replace"))
        elif gist[0] in _RESULTS:
            made.append(b"r")
    return made


def _is_model(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type", "message")
    if kind != "message" and "role" not in item:
        return not str(kind).endswith("_output")
    return item.get("role") in ("assistant", "model")


def _is_told(item: Body, talk: Talk) -> bool:
    return all(talk.has(text) for text in _texts(item))


def _asked(marks: list[list[bytes]]) -> list[str]:
    return [
        mark[1:].decode("utf-8", "replace") for item in marks for mark in item if mark[:1] == b"u"
    ]


def _chain(marks: list[list[bytes]], prompt: str) -> list[bytes]:
    """A digest for each turn, over all before it; turns of the model that follow each other count
    as one."""
    made: list[bytes] = []
    last, before = b"", b""
    for mark in (mark for item in marks for mark in item):
        if mark == b"a" and before == b"a":
            continue
        if not made and mark[:1] != b"u":
            last = _seed(prompt)
        last, before = _link(last, mark), mark
        made.append(last)
    return made


def _seed(prompt: str) -> bytes:
    """Where a history begins that no word of the user begins."""
    return _link(prompt.encode("utf-8", "replace"), b"p")


def _link(last: bytes, mark: bytes) -> bytes:
    """The digest ends in what the turn is."""
    return hashlib.blake2b(last + b"\0" + mark, digest_size=16).digest() + mark[:1]


def _covered(marks: list[list[bytes]], length: int) -> int:
    """How many items the first turns of a history are."""
    count, before = 0, b""
    for number, item in enumerate(marks):
        for mark in item:
            count += not (mark == b"a" and before == b"a")
            before = mark
        if count > length:
            return number
    return len(marks)


_ADDRESSES = (
    (re.compile(r"/chat/completions$"), CHAT, "messages"),
    (re.compile(r"/messages$"), ANTHROPIC, "messages"),
    (re.compile(r"/responses(?:/[\w-]+)?$"), RESPONSES, "input"),
    (re.compile(r":(?:generate|streamGenerate)Content$", re.IGNORECASE), GEMINI, "contents"),
)
_MODEL = re.compile(r"/models/([^/:]+):")
_TIMES = {ANTHROPIC: "created_at", GEMINI: "createTime"}


def call_of(exchange: Exchange) -> tuple[str, Body] | None:
    """The dialect of a model call and its record of request and response; None when it is none."""
    asked, told = split({"request": exchange.request, "response": exchange.response}) or (
        None,
        None,
    )
    asked = asked if isinstance(asked, dict) else None
    told = told if isinstance(told, dict | list) else None
    dialect = _dialect(exchange, asked, told)
    if dialect is None:
        return None
    if told is None and isinstance(exchange.response, str) and exchange.response.strip():
        exchange.problems.append("a response that is neither JSON nor a stream of events")
    if (
        asked is not None
        and dialect == GEMINI
        and "model" not in asked
        and (named := _MODEL.search(exchange.url))
    ):
        asked = {**asked, "model": unquote(named[1])}
    return dialect, {"request": asked, "response": _dated(told, dialect, exchange.at)}


def _dialect(exchange: Exchange, asked: Body | None, told: Any) -> str | None:
    path = exchange.url.partition("?")[0].partition("#")[0].rstrip("/")
    for address, dialect, history in _ADDRESSES:
        if (
            address.search(path)
            and asked is not None
            and history in asked
            and exchange.method in ("POST", "")
        ):
            return dialect
    if polled := _polled(path, exchange, told):
        return polled
    if asked is None or told is None:
        return None
    both = look_at({"request": asked, "response": told}), look_at(asked), look_at(_first(told))
    pair, request, response = both
    if (
        pair is None
        or request is None
        or response is None
        or not pair.dialects
        or response.kind == "message"
    ):
        return None
    return pair.likely if pair.likely in pair.dialects else min(pair.dialects)


def _polled(path: str, exchange: Exchange, told: Any) -> str | None:
    """A response of the Responses API that was fetched when it was done: the request before it had
    none yet."""
    is_done = (
        isinstance(told, dict)
        and told.get("object") == "response"
        and told.get("status") == "completed"
    )
    return RESPONSES if is_done and exchange.method == "GET" and "/responses/" in path else None


def _first(told: Any) -> Any:
    return (
        next((part for part in told if isinstance(part, dict)), None)
        if isinstance(told, list)
        else told
    )


def _dated(told: Any, dialect: str, at: str | None) -> Any:
    """A response with the time of the recording, where its dialect has a place for a time and it
    gives none."""
    name = _TIMES.get(dialect)
    if at is None or name is None:
        return told
    if isinstance(told, dict) and not told.get(name):
        return {**told, name: at}
    if isinstance(told, list) and told and isinstance(told[0], dict):
        first = told[0]
        message = first.get("message")
        if dialect == GEMINI and not first.get(name):
            return [{**first, name: at}, *told[1:]]
        if dialect == ANTHROPIC and isinstance(message, dict):
            return [{**first, "message": {**message, name: at}}, *told[1:]]
    return told
