"""Tells one conversation of a recording, each call in its dialect, and what of a history other
dialects have told."""

import re
from bisect import bisect_right
from typing import Any
from weakref import WeakKeyDictionary

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.http_recording import FORMAT
from open_token.formats.http_recording.interactions import exchanges
from open_token.formats.http_recording.threads import Call, Talk, Threads, teller_of
from open_token.formats.shared.api_conversation import Conversation
from open_token.formats.shared.yaml_values import documents
from open_token.model.document import Found
from open_token.sources.source import Source

_THREADS: "WeakKeyDictionary[Source, Threads]" = WeakKeyDictionary()
_OWNERS: "WeakKeyDictionary[Source, _Owners]" = WeakKeyDictionary()
_TITLE = 80


def _threads(source: Source) -> Threads:
    """The conversations of a recording, found once."""
    known = _THREADS.get(source)
    if known is None:
        known = _THREADS[source] = Threads()
        for exchange in exchanges(source):
            known.take(exchange)
    return known


def list_conversations(source: Source) -> list[Found]:
    """What a list shows of the recording."""
    return [_found(str(number), talk) for number, talk in enumerate(_threads(source).talks, 1)]


def _found(name: str, talk: Talk) -> Found:
    times = [call.exchange.at for call in talk.calls if call.exchange.at]
    title = (
        talk.title
        if talk.title is None or len(talk.title) <= _TITLE
        else f"{talk.title[: _TITLE - 1]}…"
    )
    return Found(
        name,
        title=title,
        started_at=times[0] if times else None,
        updated_at=times[-1] if times else None,
        messages=len(talk.calls),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation of a recorded item: its place in a list, or a block of a text that it is or
    is a part of."""
    number = at.rpartition("/")[2]
    if not number.isdecimal() or source.shape not in ("text", "document"):
        return None
    known = _OWNERS.get(source)
    if known is None:
        known = _OWNERS[source] = _Owners(_threads(source), source, FORMAT.block_separator or "$")
    return (
        known.of_block(int(number), value)
        if source.shape == "text"
        else known.by_number.get(int(number) + 1)
    )


class _Owners:
    """Whose each recorded item is."""

    def __init__(self, threads: Threads, source: Source, cuts: str) -> None:
        self.by_number = {
            call.exchange.number: str(name)
            for name, talk in enumerate(threads.talks, 1)
            for call in talk.calls
        }
        self._text = source.text if source.shape == "text" else ""
        self._starts = [found.start() for found in re.finditer(cuts, self._text, re.MULTILINE)]
        self._blocks = {1: 0}
        """Where the blocks of the text start, as far as they were asked for: a long one comes in
        pieces."""

    def of_block(self, number: int, value: Any) -> str | None:
        if not isinstance(value, str):
            return None
        start = self._blocks.get(number)
        if start is None:
            start = max(0, self._text.find(value))
        self._blocks[number + 1] = start + len(value)
        return self.by_number.get(bisect_right(self._starts, start))


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen conversation to the draft."""
    threads = _threads(source)
    wanted = source.conversation or "1"
    chosen = int(wanted) if wanted.isdecimal() else 0
    if not 1 <= chosen <= len(threads.talks):
        raise InputError(
            "there is no model call in this recording",
            where=source.name,
            help="0 conversations were found; is it the right file?",
            code="input.no-events",
        )
    if chosen == 1:
        _note_others(threads, draft)
    _Telling(draft).tell(threads.talks[chosen - 1])


def _note_others(threads: Threads, draft: Draft) -> None:
    """What is in the recording and in no conversation; it is told with the first."""
    for exchange in threads.others:
        place = f"interaction {exchange.number}"
        for problem in exchange.problems:
            draft.note_omission("unreadable-body", place, problem)
        if not exchange.problems:
            draft.note_omission(
                "other-traffic",
                place,
                "a request that is no call of a model in a dialect this program reads",
            )


class _Telling:
    """One conversation, in as many dialects as it was held in."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._conversations: dict[str, Conversation] = {}

    def tell(self, talk: Talk) -> None:
        first = next((call.exchange.at for call in talk.calls[:1]), None)
        if first:
            self._draft.conversation["started_at"] = first
        for number, call in enumerate(talk.calls):
            self._tell(call)
            started = self._draft.conversation.get("started_at")
            if number == 0 and started is None:
                # A later answer that has a time is no beginning.
                self._draft.conversation["started_at"] = ""

    def _tell(self, call: Call) -> None:
        for problem in call.exchange.problems:
            self._draft.note_omission(
                "unreadable-body", f"interaction {call.exchange.number}", problem
            )
        conversation = self._conversation(call.dialect)
        if call.told is not None and not call.goes_on:
            self._draft.add_annotation({"kind": "new_request", "repeats": call.told})
        conversation.take(call.exchange.number, call.record, call.told, call.prompted)
        conversation.flush(call.exchange.number)

    def _conversation(self, dialect: str) -> Conversation:
        if dialect not in self._conversations:
            known = self._draft.without_thoughts if self._conversations else None
            self._conversations[dialect] = Conversation(
                teller_of(dialect, self._draft), "interaction"
            )
            self._draft.without_thoughts = known or self._draft.without_thoughts
        return self._conversations[dialect]


def parse_documents(source: Source) -> list[Any]:
    """Parse a recording in YAML."""
    return documents(source.text, source.name)
