"""One chat of Grok CLI: its records as draft verbs, with what was typed taken out of what was put
around it."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.grok_cli.session_files import Run, summary, updates
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_PERSON = ("interjection", "human")
# An older preamble has no mark that it was put in.
_PUT_IN = ("<user_info>", "<system-reminder>", "<git_status>", "<agent_skills>", "<mcp_servers>")
_TOLD = ("message", "reasoning")
_FILE = "chat_history.jsonl"
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
Body = dict[str, Any]


class Session:
    """Reads a chat with what lies beside it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._strand = Thread(draft, draft.get_actor("system", "Grok CLI"), _provider)
        self._beside = summary(source, draft)
        beside = updates(source, draft)
        self._runs, self._spent = beside.runs, beside.spent
        self._model = as_text(self._beside.get("current_model_id"))
        self._settings: Body = {}
        self._searched: set[str] = set()
        self._held: list[tuple[Body, str]] = []
        """Reasoning and searches before an answer."""

    def read(self) -> None:
        """Tell everything."""
        self._frame()
        for number, record in self._source.records():
            kind = record.get("type") if isinstance(record, dict) else None
            if kind in ("reasoning", "backend_tool_call"):
                self._held.append((record, f"line {number}"))
                continue
            if kind == "assistant":
                self._model = as_text(record.get("model_id")) or self._model
            self._flush()
            self._record(record, f"line {number}")
        self._flush()
        self._end_turns(None)

    def _end_turns(self, prompt: Any) -> None:
        """Tell what the turns before a prompt took, or at the end all others."""
        for number in sorted(self._spent):
            if type(prompt) is int and number >= prompt:
                break
            for usage, ts in self._spent.pop(number):
                self._strand.add_annotation({"kind": "turn_usage"}, ts=ts, usage=usage)

    def _flush(self) -> None:
        """Tell what waited for the answer behind it, which alone names the model."""
        for record, place in self._held:
            self._record(record, place)
        self._held = []

    def _frame(self) -> None:
        """The facts about the whole."""
        beside, info = self._beside, self._beside.get("info")
        info = info if isinstance(info, dict) else {}
        conversation = self._draft.conversation
        parts = PurePath(self._source.name).parts
        folder = (
            parts[-2]
            if len(parts) > 1 and parts[-1] == _FILE and _UUID.fullmatch(parts[-2])
            else None
        )
        if name := as_text(info.get("id")) or folder:
            conversation["id"] = name
        if title := as_text(beside.get("generated_title")) or as_text(
            beside.get("session_summary")
        ):
            conversation["title"] = title
        if started := to_utc(beside.get("created_at")):
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"
        facts = pick_fields(info, "cwd") | pick_fields(
            beside, "head_branch", "parent_session_id", "session_kind", "git_root_dir"
        )
        if facts:
            self._strand.add_annotation({"kind": "context", **facts})

    def _record(self, record: Any, place: str) -> None:
        kind = record.get("type") if isinstance(record, dict) else None
        if kind in ("system", "user", "tool_result") and "content" not in record:
            self._strand.note_omission("no-content", place, f"type {kind} without content")
        if kind == "system":
            if (said := _content(record.get("content"))) != "":
                self._strand.add_message("system", said, self._strand.client)
        elif kind == "user":
            self._user(record)
        elif kind == "assistant":
            self._assistant(record, place)
        elif kind == "reasoning":
            self._strand.set_model(self._model)
            self._reason(record, place)
        elif kind == "tool_result":
            self._result(record)
        elif kind == "backend_tool_call":
            self._strand.set_model(self._model)
            self._search(record.get("kind"), place)
        else:
            self._strand.note_omission("skipped-record", place, f"type {format_kind(kind)}")

    def _user(self, record: Body) -> None:
        """A message in the user's place: typed, when it has no other reason to be there."""
        strand, reason = self._strand, as_text(record.get("synthetic_reason"))
        if "prompt_index" in record and type(prompt := record["prompt_index"]) is int:
            self._end_turns(prompt)
        if interrupted := as_text(record.get("prior_turn_interrupt")):
            strand.add_annotation({"kind": "interrupted", "reason": interrupted})
        said = _content(record.get("content"))
        put_in = (
            isinstance(said, str)
            and "prompt_index" not in record
            and said.lstrip().startswith(_PUT_IN)
        )
        if (reason and reason not in _PERSON) or put_in:
            event = strand.add_injected_message(said)
            if reason == "compaction_meta":
                strand.add_annotation({"kind": "compaction_summary"}, parent=event)
        elif isinstance(said, str):
            self._typed(said)
        elif said:
            strand.add_message(
                "user", [_typed_block(block) for block in said], strand.get_user_actor()
            )

    def _typed(self, text: str) -> None:
        """What was typed, and what Grok put around it."""
        found = _QUERY.search(text)
        before, typed, behind = (
            (text[: found.start()], found[1], text[found.end() :]) if found else ("", text, "")
        )
        if before.strip():
            self._strand.add_injected_message(before)
        if typed:
            self._strand.add_message("user", typed, self._strand.get_user_actor())
        if behind.strip():
            self._strand.add_injected_message(behind)

    def _assistant(self, record: Body, place: str) -> None:
        strand = self._strand
        strand.set_model(self._model)
        settings = pick_fields(record, "reasoning_effort")
        if settings and settings != self._settings:
            self._settings = settings
            strand.add_annotation({"kind": "context", **settings})
        self._inside(record, place)
        if (said := _content(record.get("content"))) != "":
            strand.add_message("assistant", said, strand.model_actor)
        calls = record.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and (
                call.get("id") or call.get("function") or call.get("name")
            ):
                self._call(call, place)
            else:
                strand.note_omission("unknown-part", place, "a call without an id and a name")

    def _inside(self, record: Body, place: str) -> None:
        """Reasoning and searches that older records hold inside the answer."""
        held = record.get("reasoning")
        for words in (
            held.get("text") if isinstance(held, dict) else None,
            record.get("reasoning_content"),
        ):
            if as_text(words):
                self._strand.add_reasoning(words)
        items = record.get("raw_output")
        for item in items if isinstance(items, list) else ():
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "reasoning":
                self._reason(item, place)
            elif (
                isinstance(kind, str)
                and kind.endswith("_call")
                and as_text(item.get("id")) not in self._searched
            ):
                self._search({"tool_type": kind.removesuffix("_call"), **item}, place)
            elif kind not in _TOLD and not (isinstance(kind, str) and kind.endswith("_call")):
                self._strand.note_omission("unknown-part", place, f"item {format_kind(kind)}")

    def _reason(self, record: Body, place: str) -> None:
        """Reasoning: its words, the summary of them, or the mark that it is sealed."""
        full, short = _texts(record.get("content")), _texts(record.get("summary"))
        for words in full or short:
            self._strand.add_reasoning(words, summary=not full)
        if not full and not short:
            self._strand.add_reasoning(None)
        parts = record.get("content") if full else record.get("summary") or record.get("content")
        if parts and len(full or short) < (len(parts) if isinstance(parts, list) else 1):
            self._strand.note_omission("empty-reasoning", place, "reasoning without words")

    def _call(self, call: Body, place: str) -> None:
        native, function = as_text(call.get("id")), call.get("function")
        named = function if isinstance(function, dict) else call
        run = self._runs.get(native or "", Run())
        tool = as_text(named.get("name")) or "tool"
        self._strand.add_tool_call(
            native, tool, parse_arguments(named.get("arguments")), ts=run.called, group=place
        )

    def _result(self, record: Body) -> None:
        native, output = as_text(record.get("tool_call_id")), _content(record.get("content"))
        run = self._runs.get(native or "", Run())
        images = record.get("images")
        if isinstance(images, list) and images:
            first = [{"type": "text", "text": output}] if isinstance(output, str) else output
            output = [*(first if output != "" else []), *(_block(image) for image in images)]
        facts = {"is_error": True} if run.status == "failed" else None
        self._strand.add_tool_result(native, output, ts=run.ended, facts=facts)

    def _search(self, kind: Any, place: str) -> None:
        """A tool that ran at the provider: what it was asked and, where that is told, what it
        found."""
        if not isinstance(kind, dict):
            self._strand.note_omission("skipped-record", place, "type backend_tool_call")
            return
        native, action = as_text(kind.get("id")), kind.get("action")
        self._searched.add(native or "")
        asked = dict(action) if isinstance(action, dict) else {}
        asked |= {
            name: value
            for name, value in kind.items()
            if name in ("input", "code", "arguments", "query")
        }
        found = {name: asked.pop(name) for name in ("sources", "results") if name in asked}
        found |= pick_fields(kind, "output", "outputs", "results", "sources")
        tool, extra = (
            as_text(kind.get("tool_type")) or "backend_tool",
            {"native_type": "backend_tool_call"},
        )
        if (status := as_text(kind.get("status"))) and status != "completed":
            extra["status"] = status
        key = self._strand.add_tool_call(native, tool, asked, group=place, extra=extra)
        if found:
            self._strand.add_tool_result(key, found)


def _texts(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [text for text in texts if isinstance(text, str) and text]


def _content(value: Any) -> str | list[Any]:
    """One text as it is, anything else as a list of blocks."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [] if value is None else [value]
    blocks = [_block(part) for part in parts]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks or ""


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict) and part.get("type") == "image" and isinstance(part.get("url"), str):
        return build_media_url_block(part["url"], "image")
    return part


def _typed_block(block: Any) -> Any:
    """A block of a prompt with pictures, its text without the mark around it when that is all there
    is."""
    text = block.get("text") if isinstance(block, dict) else None
    found = _QUERY.fullmatch(text.strip()) if isinstance(text, str) else None
    return {**block, "text": found[1]} if found else block


def _provider(model: str) -> str | None:
    return "other" if "grok" in model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
