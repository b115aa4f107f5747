"""Reader of recorded HTTP: the model calls of a recording as conversations."""

import re
from bisect import bisect_right
from typing import Any
from weakref import WeakKeyDictionary

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.http_recording import FORMAT
from open_token.formats.http_recording.interactions import read_exchanges
from open_token.formats.http_recording.threads import (
    Conversation,
    ModelCall,
    Threads,
    create_dialect,
)
from open_token.formats.shared.api_conversation import ConversationBuilder
from open_token.formats.shared.yaml_values import parse_yaml
from open_token.model.document import Found
from open_token.sources.source import Source

_THREADS: "WeakKeyDictionary[Source, Threads]" = WeakKeyDictionary()
_OWNERS: "WeakKeyDictionary[Source, _Owners]" = WeakKeyDictionary()
_MAX_TITLE = 80


def _find_threads(source: Source) -> Threads:
    """Return the conversations of a recording, which are found once per source."""
    threads = _THREADS.get(source)
    if threads is None:
        threads = _THREADS[source] = Threads()
        for exchange in read_exchanges(source):
            threads.add(exchange)
    return threads


def list_conversations(source: Source) -> list[Found]:
    """List the conversations of the recording."""
    conversations = _find_threads(source).conversations
    return [_describe(str(number), item) for number, item in enumerate(conversations, 1)]


def _describe(name: str, conversation: Conversation) -> Found:
    times = [call.exchange.at for call in conversation.calls if call.exchange.at]
    title = conversation.title
    if title is not None and len(title) > _MAX_TITLE:
        title = f"{title[: _MAX_TITLE - 1]}…"
    return Found(
        name,
        title=title,
        started_at=times[0] if times else None,
        updated_at=times[-1] if times else None,
        messages=len(conversation.calls),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the conversation of a recorded item.

    In a document the item is found by its position, in a text by the block that it is or is a
    part of.
    """
    number = at.rpartition("/")[2]
    if not number.isdecimal() or source.shape not in ("text", "document"):
        return None
    owners = _OWNERS.get(source)
    if owners is None:
        separator = FORMAT.block_separator or "$"
        owners = _OWNERS[source] = _Owners(_find_threads(source), source, separator)
    if source.shape == "text":
        return owners.find_by_block(int(number), value)
    return owners.by_number.get(int(number) + 1)


class _Owners:
    """The conversation of each recorded item."""

    def __init__(self, threads: Threads, source: Source, separator: str) -> None:
        self.by_number: dict[int, str] = {}
        for name, conversation in enumerate(threads.conversations, 1):
            for call in conversation.calls:
                self.by_number[call.exchange.number] = str(name)
        self._text = source.text if source.shape == "text" else ""
        self._item_starts = [
            match.start() for match in re.finditer(separator, self._text, re.MULTILINE)
        ]
        self._block_starts = {1: 0}
        """Where the blocks of the text start, as far as known: a long item is cut into several."""

    def find_by_block(self, number: int, value: Any) -> str | None:
        if not isinstance(value, str):
            return None
        start = self._block_starts.get(number)
        if start is None:
            start = max(0, self._text.find(value))
        self._block_starts[number + 1] = start + len(value)
        return self.by_number.get(bisect_right(self._item_starts, start))


def read(source: Source, draft: Draft) -> None:
    """Add the chosen conversation to the draft."""
    threads = _find_threads(source)
    wanted = source.conversation or "1"
    chosen = int(wanted) if wanted.isdecimal() else 0
    if not 1 <= chosen <= len(threads.conversations):
        raise InputError(
            "there is no model call in this recording",
            where=source.name,
            help="0 conversations were found; is it the right file?",
            code="input.no-events",
        )
    if chosen == 1:
        _note_others(threads, draft)
    _ConversationReader(draft).read(threads.conversations[chosen - 1])


def _note_others(threads: Threads, draft: Draft) -> None:
    """Note what belongs to no conversation; the first conversation carries these notes."""
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


class _ConversationReader:
    """Adds one conversation to a draft, in as many dialects as it was held in."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._builders: dict[str, ConversationBuilder] = {}

    def read(self, conversation: Conversation) -> None:
        started_at = conversation.calls[0].exchange.at if conversation.calls else None
        if started_at:
            self._draft.conversation["started_at"] = started_at
        for number, call in enumerate(conversation.calls):
            self._add_call(call)
            if number == 0 and self._draft.conversation.get("started_at") is None:
                # The time of a later answer is not the start.
                self._draft.conversation["started_at"] = ""

    def _add_call(self, call: ModelCall) -> None:
        number = call.exchange.number
        for problem in call.exchange.problems:
            self._draft.note_omission("unreadable-body", f"interaction {number}", problem)
        builder = self._get_builder(call.dialect)
        if call.known_items is not None and not call.continues:
            self._draft.add_annotation({"kind": "new_request", "repeats": call.known_items})
        builder.add_record(number, call.record, call.known_items, call.has_known_prompts)
        builder.flush(number)

    def _get_builder(self, name: str) -> ConversationBuilder:
        builder = self._builders.get(name)
        if builder is None:
            # The second dialect must not overwrite what is known about reasoning.
            known = self._draft.without_thoughts if self._builders else None
            dialect = create_dialect(name, self._draft)
            builder = self._builders[name] = ConversationBuilder(dialect, "interaction")
            self._draft.without_thoughts = known or self._draft.without_thoughts
        return builder


def parse_documents(source: Source) -> list[Any]:
    """Parse a recording in YAML."""
    return parse_yaml(source.text, source.name)
