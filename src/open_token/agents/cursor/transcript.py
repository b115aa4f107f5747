"""A Cursor agent transcript, with the transcripts of its subagents, which lie in a folder beside
it."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.cursor.conversation import SPAWNING, Talk, spawned
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    add_block,
    parse_content,
    parse_output,
)
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.notes import format_kind
from open_token.sources.source import Source

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_USUAL_ENDS = ("success", "completed")
_DEEPEST = 8


def read(source: Source, draft: Draft) -> None:
    """Tell the transcript, and inside it those of its subagents."""
    if name := _id_in_name(source):
        draft.conversation["id"] = name
    alone = source.path is not None and source.path.parent.name == "subagents"
    asker = draft.get_actor("model", "parent agent") if alone else draft.get_actor("human", "user")
    _Transcript(source, Talk(draft, asker=asker), source.find_siblings("subagents/*.jsonl")).tell()


def _id_in_name(source: Source) -> str | None:
    stem = PurePath(source.name).name.split(".")[0]
    return stem if source.path is not None and _ID.fullmatch(stem) else None


class _Transcript:
    """One file while it is told."""

    def __init__(self, source: Source, talk: Talk, children: list[Source], depth: int = 0) -> None:
        self._source = source
        self._talk = talk
        self._draft = talk.draft
        self._children = [(child, _prompt_of(child)) for child in children]
        self._waiting: list[tuple[str, JsonObject]] = []
        """Calls that start a subagent of which no file has the prompt."""
        self._label = "subagent line" if depth else "line"
        self._depth = depth

    def tell(self) -> None:
        """All lines, then the subagents that no call named."""
        for number, record in self._source.records():
            self._line(record, f"{self._label} {number}")
        self._rest()

    def _line(self, record: Any, place: str) -> None:
        role, message = get_text(record, "role"), get_dict(record, "message")
        content = message.get("content")
        if role is None or not message:
            self._aside(record, place)
            return
        blocks = content if isinstance(content, list) else [] if content is None else [content]
        if role == "assistant":
            actor = self._talk.speaker(get_text(message, "model"))
            for block in blocks:
                self._said(block, actor, place)
        elif role == "system":
            self._draft.add_message(
                "system", parse_content(blocks), self._talk.client, span=self._talk.span
            )
        else:
            self._prompted(blocks)

    def _aside(self, record: Any, place: str) -> None:
        kind = get_text(record, "type")
        if kind != "turn_ended":
            self._draft.note_omission("unknown-record", place, f"record {format_kind(kind)}")
        elif record.get("status") in _USUAL_ENDS or not isinstance(record.get("status"), str):
            self._draft.note_omission("bookkeeping", place, "record turn_ended")
        else:
            self._talk.note({"kind": "stop", "reason": record["status"]})

    def _prompted(self, blocks: list[Any]) -> None:
        held: list[Any] = []
        for block in blocks:
            if type(block) is dict and block.get("type") == "tool_result":
                self._talk.prompt(held)
                held = []
                facts = {"is_error": True} if block.get("is_error") is True else {}
                self._talk.result(
                    get_text(block, "tool_use_id"), parse_output(block.get("content")), facts
                )
            else:
                held.append(block)
        self._talk.prompt(held)

    def _said(self, block: Any, actor: str, place: str) -> None:
        kind = block.get("type") if type(block) is dict else None
        if kind == "tool_use":
            tool, given = get_text(block, "name"), block.get("input")
            key = self._talk.call(get_text(block, "id"), tool, given, actor, place)
            if tool in SPAWNING:
                self._spawn(key, given)
        elif (
            isinstance(kind, str)
            and kind in THINKING_TYPES
            and not block.get("thinking")
            and not block.get("data")
        ):
            self._draft.note_omission("empty-reasoning", place, "reasoning without words")
        else:
            add_block(
                self._draft, block, actor, span=self._talk.span, visibility=self._talk.visibility
            )

    def _spawn(self, key: str, given: Any) -> None:
        """The subagent that a call starts is the one whose transcript begins with the prompt of the
        call."""
        prompt = get_text(given, "prompt") or get_text(given, "task")
        for place, (child, words) in enumerate(self._children):
            if prompt and words and (prompt == words or prompt in words):
                del self._children[place]
                self._child(child, key, spawned(given))
                return
        self._waiting.append((key, spawned(given)))

    def _rest(self) -> None:
        """One call and one transcript that are left belong together; of more it cannot be told."""
        call, about = (
            self._waiting[0] if len(self._waiting) == len(self._children) == 1 else (None, {})
        )
        for child, _ in self._children:
            self._child(child, call, about)

    def _child(self, child: Source, call: str | None, about: JsonObject) -> None:
        draft = self._draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            return
        name = PurePath(child.name).stem
        data: JsonObject = {"kind": "subagent", **about, "agent_id": name}
        inline = draft.subagents == "inline" and self._depth < _DEEPEST
        if not inline:
            data["reference"] = name
        asker = self._talk.speaker()
        span = draft.start_span(data, asker, call=call)
        if inline:
            talk = Talk(
                draft, asker=asker, span=span, name=about.get("subagent_type") or "subagent"
            )
            _Transcript(child, talk, [], self._depth + 1).tell()
            _note_faults(child, draft)
        draft.end_span(span, call=call)


def _note_faults(child: Source, draft: Draft) -> None:
    if child.half_line is not None:
        place = f"subagent line {child.half_line}"
        draft.note_omission("half-line", place, "the last line was not complete and is left out")
    for number in child.repaired:
        detail = "text that is not valid Unicode was replaced by U+FFFD"
        draft.note_omission("lone-surrogate", f"subagent line {number}", detail)


def _prompt_of(child: Source) -> str | None:
    """The first words in a transcript."""
    for record in child.sample:
        content = get_dict(record, "message").get("content")
        words = parse_content(content) if content is not None else None
        if isinstance(words, str):
            return words
        if isinstance(words, list):
            return next((text for block in words if (text := get_text(block, "text"))), None)
    return None
