"""One iFlow session: snapshots of a stream told once, and results taken out of the wrapper they
come in."""

from typing import Any

import msgspec

from open_token.agents.claude_code.user_text import pieces
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    get_block_type,
    get_plain_text,
    parse_content,
    parse_usage,
)
from open_token.formats.shared.anthropic_blocks import parse_output as blocks_of
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_response,
    list_content_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_CONTEXT = {
    "cwd": "cwd",
    "gitBranch": "git_branch",
    "version": "version",
    "sessionId": "session_id",
}
Body = dict[str, Any]


class Session:
    """Reads a session file."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._strand = Thread(draft, draft.get_actor("system", "iFlow CLI"), _provider)
        self._context: Body = {}
        self._seen: tuple[Any, ...] = ()
        self._calls: dict[str, int] = {}
        """By id: the hash of the arguments of each call that was told."""
        self._burst: tuple[Any, set[str]] = (None, set())
        """The record that the last answers follow, and what they said."""
        self._spent: Usage | None = None

    def read(self) -> None:
        """Tell everything."""
        for number, record in self._source.records():
            if isinstance(record, dict):
                self._record(record, f"line {number}")
            else:
                self._draft.note_omission(
                    "skipped-record", f"line {number}", "a line that is no object"
                )
        conversation = self._draft.conversation
        if name := self._context.get("session_id"):
            conversation["id"] = name
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"

    def _record(self, record: Body, place: str) -> None:
        kind, message, ts = (
            record.get("type"),
            record.get("message"),
            to_utc(record.get("timestamp")),
        )
        if kind not in ("user", "assistant") or not isinstance(message, dict):
            self._draft.note_omission("skipped-record", place, f"type {format_kind(kind)}")
            return
        self._meet(record, ts)
        content = message.get("content")
        if content is None:
            self._draft.note_omission(
                "no-content", place, f"type {format_kind(kind)} without content"
            )
        blocks = content if isinstance(content, list) else [] if content is None else [content]
        if kind == "user":
            self._burst = (None, set())
            self._user(record, blocks, ts)
        else:
            self._assistant(record, message, blocks, ts, place)

    def _meet(self, record: Body, ts: str | None) -> None:
        """Where the session runs: an annotation when that is first seen and when it changes."""
        seen = (
            record.get("cwd"),
            record.get("gitBranch"),
            record.get("version"),
            record.get("sessionId"),
        )
        if seen == self._seen:
            return
        self._seen = seen
        facts = {
            name: value for key, name in _CONTEXT.items() if (value := as_text(record.get(key)))
        }
        if not facts.items() <= self._context.items():
            self._context |= facts
            self._strand.add_annotation({"kind": "context", **facts}, ts=ts)

    def _assistant(
        self, record: Body, message: Body, blocks: list[Any], ts: str | None, place: str
    ) -> None:
        """A snapshot of what the model is saying; its siblings in the same burst repeat parts of
        it."""
        strand = self._strand
        strand.set_model(message.get("model"))
        parent = record.get("parentUuid")
        if self._burst[0] != parent:
            self._burst, self._spent = (parent, set()), None
        usage = _counted(message.get("usage"))
        usage, self._spent = (None if usage == self._spent else usage), usage
        thought = None
        for block in blocks:
            if get_block_type(block) in THINKING_TYPES:
                event = strand.add_reasoning(as_text(block.get("thinking")), ts=ts)
                thought = thought or event
                continue
            before = self._draft.count
            self._block(block, ts, usage, str(message.get("id")), place)
            usage = usage if self._draft.count == before else None
        if usage and thought is not None:
            self._draft.set_usage(thought, usage)
        elif usage:
            strand.add_annotation({"kind": "usage"}, ts=ts, usage=usage)

    def _block(
        self, block: Any, ts: str | None, usage: Usage | None, group: str, place: str
    ) -> None:
        strand = self._strand
        if get_block_type(block) == "tool_use":
            self._call(block, ts, usage, group, place)
            return
        words = block if isinstance(block, str) else get_plain_text(block)
        if words is not None and words in self._burst[1]:
            self._draft.note_omission(
                "repeated-text", place, "words that an earlier snapshot of the same answer has"
            )
        elif words != "":
            self._burst[1].add(words or "")
            strand.add_message(
                "assistant", parse_content([block]), strand.model_actor, ts=ts, usage=usage
            )

    def _call(
        self, block: Body, ts: str | None, usage: Usage | None, group: str, place: str
    ) -> None:
        """A call, told when its id is first seen."""
        native, given = as_text(block.get("id")), block.get("input")
        mark = _mark(given)
        if native and native in self._calls:
            if self._calls[native] != mark:
                self._draft.note_omission(
                    "changed-call", place, "a later snapshot of a call has other arguments"
                )
            return
        if native:
            self._calls[native] = mark
        tool = as_text(block.get("name")) or "tool"
        self._strand.add_tool_call(
            native, tool, {} if given is None else given, ts=ts, usage=usage, group=group
        )

    def _user(self, record: Body, blocks: list[Any], ts: str | None) -> None:
        said: list[Any] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._say(said, record, ts)
                said = []
                self._result(block, record.get("toolUseResult"), ts)
            else:
                said.append(block)
        self._say(said, record, ts)

    def _say(self, blocks: list[Any], record: Body, ts: str | None) -> None:
        """Texts in the user's place, with what was typed kept apart from what was put in."""
        strand = self._strand
        if not blocks:
            return
        if record.get("isMeta") is True or record.get("isCompactSummary") is True:
            event = strand.add_injected_message(parse_content(blocks), ts=ts)
            if record.get("isCompactSummary") is True:
                strand.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)
            return
        content = parse_content(blocks)
        for origin, part in pieces(content) if isinstance(content, str) else [("typed", content)]:
            if origin == "typed":
                strand.add_message("user", part, strand.get_user_actor(), ts=ts)
            else:
                event = strand.add_injected_message(part, ts=ts)
                if origin in ("summary", "interrupted"):
                    kind = (
                        {"kind": "compaction_summary"}
                        if origin == "summary"
                        else {"kind": "interrupted"}
                    )
                    strand.add_annotation(kind, parent=event, ts=ts)

    def _result(self, block: Body, about: Any, ts: str | None) -> None:
        """A result: in a wrapper around Gemini's response, as that response alone, or as Anthropic
        has it."""
        held = block.get("content")
        wrapper = held if isinstance(held, dict) else {}
        parts = list_content_parts(wrapper.get("responseParts")) or (
            [wrapper] if get_function_response(wrapper) else []
        )
        failed, tool = block.get("is_error") is True, None
        native = as_text(block.get("tool_use_id")) or as_text(wrapper.get("callId"))
        answer = next((found for part in parts if (found := get_function_response(part))), None)
        if answer is not None or parts:
            output, wrong = unwrap_output(
                answer or {}, [part for part in parts if get_function_response(part) is None]
            )
            failed, tool = failed or wrong, as_text((answer or {}).get("name"))
        else:
            output = blocks_of(held)
        status = about.get("status") if isinstance(about, dict) else None
        self._strand.add_tool_result(
            native, output, ts=ts, facts=build_result_facts(status, failed), tool=tool
        )


def _mark(value: Any) -> int:
    try:
        return hash(msgspec.json.encode(value))
    except RecursionError:
        return 0


def _counted(usage: Any) -> Usage | None:
    """Token counts; iFlow writes zeros where it has none."""
    made = parse_usage(usage)
    return made if made and (made.get("input_tokens") or made.get("output_tokens")) else None


def _provider(model: str) -> str | None:
    """iFlow serves models of many makers, none of which the spec names."""
    return "other" if model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
