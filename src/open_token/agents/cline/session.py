"""A session of Cline since version 3 of its command line: a document of messages, with those of its
agents beside."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.cline.shapes import SESSION, is_session
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import (
    get_block_type,
    parse_content,
    parse_output,
    unpack_block,
)
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_TYPED = re.compile(r"\s*<user_input(?: mode=\"(\w+)\")?>(.*)</user_input>\s*", re.DOTALL)
_SPAWNING = ("spawn_agent", "team_run_task")
_MANIFEST = {"status": "status", "exit_code": "exit_code", "ended_at": "ended_at"}


class Session:
    """Reads a session with what its agents did."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._providers = ProviderTracker()
        self._named: str | None = None
        """The runtime's name for the provider of the model that has the word."""
        self._agents = SubagentWriter(self._run)
        self._waiting: list[tuple[SubagentFile, str]] = []
        """Agents with files of their own that no call was found for yet, and the words that each
        was started with."""
        self._asked: dict[str, str] = {}
        """What an agent was asked to do, by the call that started it."""
        self._mode: str | None = None

    def read(self) -> None:
        """Tell everything."""
        main, rest = self._files()
        about = self._value(main)
        origin = get_dict(about, "origin")
        strand = Thread(self._draft, self._draft.get_actor("system", "Cline"), self._provider)
        if get_text(origin, "parentThreadId"):
            strand.agent_id, strand.name = (
                get_text(origin, "subagent"),
                get_text(about, "agent") or strand.name,
            )
            strand.user_actor = self._draft.get_actor("model", "parent agent")
        else:
            self._waiting = [self._agent(file) for file in rest if self._is_part(file)]
        manifest = self._frame(main, about, strand)
        self._run(main, strand)
        self._agents.finish([agent for agent, _ in self._waiting], strand)
        if totals := {
            ours: manifest[name]
            for name, ours in _MANIFEST.items()
            if manifest.get(name) is not None
        }:
            strand.add_annotation(
                {"kind": "session_totals", **totals}, ts=to_utc(manifest.get("ended_at"))
            )
        self._providers.set_provider(self._draft.conversation)

    def _files(self) -> tuple[Source, list[Source]]:
        """The document of the session, and those beside it."""
        if self._source.shape != "folder":
            return self._source, [
                file
                for file in self._source.find_siblings(SESSION)
                if file.path != self._source.path
            ]
        found = sorted(
            (file for file in self._source.find_files(SESSION) if is_session(file)),
            key=self._is_part,
        )
        return found[0], found[1:]

    def _value(self, file: Source) -> JsonObject:
        try:
            value = file.document
        except InputError:
            self._draft.note_omission(
                "unreadable-part", "an agent", "a file of the session that cannot be read"
            )
            return {}
        return value if isinstance(value, dict) else {}

    def _is_part(self, file: Source) -> bool:
        return get_text(get_dict(self._value(file), "origin"), "parentThreadId") is not None

    def _agent(self, file: Source) -> tuple[SubagentFile, str]:
        """A subagent or a teammate, and what it was asked to do."""
        about = self._value(file)
        origin, first = get_dict(about, "origin"), next(iter(get_dicts(about, "messages")), {})
        kind = get_text(about, "agent")
        name = get_text(origin, "subagent") or PurePath(file.name).name
        facts = {
            "tooling_scope": kind,
            "subagent_type": kind,
            "session_id": get_text(about, "sessionId"),
        }
        started = from_epoch(first.get("ts"), 0.001)
        words = parse_content(first.get("content") or "")
        return SubagentFile(
            name, file, kind, pick_fields(facts, *facts), started
        ), words if isinstance(words, str) else ""

    def _frame(self, main: Source, about: JsonObject, strand: Thread) -> JsonObject:
        """What the session is and where it ran; more of that is in a file beside it, which is given
        back."""
        conversation, name = self._draft.conversation, get_text(about, "sessionId")
        beside = main.open_sibling(f"{name}.json") if name and PurePath(name).name == name else None
        manifest = self._value(beside) if beside else {}
        if beside:
            note_file_faults(beside, "the facts of the session", self._draft)
            self._draft.note_omission(
                "bookkeeping",
                "the facts of the session",
                "switches, paths and totals of the session",
            )
        if name:
            conversation["id"] = name
        if title := get_text(get_dict(manifest, "metadata"), "title"):
            conversation["title"] = title
        if started := to_utc(manifest.get("started_at")):
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        origin = get_dict(about, "origin")
        facts = {
            "session_id": name,
            "cwd": get_text(manifest, "cwd"),
            "version": get_text(origin, "version"),
        }
        facts |= {
            "source": get_text(origin, "source"),
            "parent_session": get_text(origin, "parentThreadId"),
        }
        strand.add_annotation({"kind": "context", **pick_fields(facts, *facts)}, ts=started)
        return manifest

    def _provider(self, model: str) -> str | None:
        return self._providers.add_model(self._named, model or None)

    def _run(self, source: Source, strand: Thread) -> None:
        """Tell the messages of a file."""
        about = self._value(source)
        if prompt := get_text(about, "system_prompt"):
            strand.add_message("system", prompt, strand.client)
        messages = about.get("messages")
        for number, message in enumerate(messages if isinstance(messages, list) else []):
            place = f"message {number}"
            if not isinstance(message, dict):
                strand.note_omission("skipped-record", place, "a message that is no object")
                continue
            ts = strand.last_ts = from_epoch(message.get("ts"), 0.001) or strand.last_ts
            if message.get("role") == "user":
                self._user(message, strand, ts)
            elif message.get("role") == "assistant":
                self._assistant(message, strand, ts, place)
            else:
                strand.note_omission(
                    "unknown-role", place, f"role {format_kind(message.get('role'))}"
                )

    def _user(self, message: JsonObject, strand: Thread, ts: str | None) -> None:
        """What was typed, with the mode around it, or results."""
        content = message.get("content")
        said = []
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if get_block_type(block) == "tool_result":
                self._result(block, strand, ts)
            else:
                said.append(block)
        if said:
            words = parse_content([_block(block) for block in said])
            typed = _TYPED.fullmatch(words) if isinstance(words, str) else None
            if typed and typed[1] and typed[1] != self._mode:
                self._mode = typed[1]
                strand.add_annotation({"kind": "settings", "mode": typed[1]}, ts=ts)
            told = strand.add_message(
                "user", typed[2] if typed else words, strand.get_user_actor(), ts=ts
            )
            if typed:
                strand.add_annotation({"kind": "sent_text", "text": words}, ts=ts, parent=told)

    def _result(self, block: JsonObject, strand: Thread, ts: str | None) -> None:
        native, output = get_text(block, "tool_use_id"), block.get("content")
        self._started(native, strand)
        outcomes = (
            [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        )
        facts = {
            "is_error": block.get("is_error")
            or any(item.get("success") is False for item in outcomes)
            or None
        }
        told = (
            list(map(_block, outcomes))
            if any("success" in item for item in outcomes)
            else parse_output(output)
        )
        strand.add_tool_result(
            native,
            told,
            ts=ts,
            facts=pick_fields(facts, *facts) or None,
            tool=get_text(block, "name"),
        )

    def _started(self, call: str | None, strand: Thread) -> None:
        """Tell the agent that a call started: it was asked in the very words of the call."""
        words = self._asked.pop(call or "", None)
        found = next(
            (item for item in self._waiting if words is not None and item[1] == words), None
        )
        if found is not None:
            self._waiting.remove(found)
            self._agents.add(found[0], strand, strand.get_call_key(call))

    def _assistant(self, message: JsonObject, strand: Thread, ts: str | None, place: str) -> None:
        """An answer; what it took rides on the first of its events that is no thought."""
        if get_text(about := get_dict(message, "metadata"), "displayRole") == "error":
            # The model said none of it: it stands in its place for the screen alone.
            strand.add_annotation(
                {"kind": "error", "message": parse_content(message.get("content") or "")}, ts=ts
            )
            return
        model, content = get_dict(message, "modelInfo"), message.get("content")
        self._named = get_text(model, "provider") or self._named
        strand.set_model(model.get("id"))
        spent, last = _usage(message.get("metrics")), None
        invalid: JsonObject = {
            str(item.get("toolCallId")): item for item in get_dicts(about, "invalidToolCalls")
        }
        for block in (
            content
            if isinstance(content, list)
            else [{"type": "text", "text": content}]
            if content
            else []
        ):
            kind = get_block_type(block)
            if kind in ("thinking", "redacted_thinking"):
                last = strand.add_reasoning(get_text(block, "thinking"), ts=ts)
                continue
            if kind == "tool_use":
                self._call(block, strand, ts, place, spent, invalid)
            else:
                strand.add_message(
                    "assistant",
                    parse_content([_block(block)]),
                    strand.model_actor,
                    ts=ts,
                    usage=spent,
                )
            spent = None
        given = about.get("invalidToolCalls")
        if invalid or (
            isinstance(given, list) and len(given) > len(get_dicts(about, "invalidToolCalls"))
        ):
            strand.note_omission("unknown-part", place, "what is known of a call that is not there")
        if spent and last is not None:
            self._draft.set_usage(last, spent)
        elif spent:
            strand.add_annotation({"kind": "usage"}, ts=ts, usage=spent)

    def _call(
        self,
        block: JsonObject,
        strand: Thread,
        ts: str | None,
        place: str,
        spent: Usage | None,
        invalid: JsonObject,
    ) -> None:
        native, tool, given = (
            get_text(block, "id"),
            get_text(block, "name") or "tool",
            block.get("input"),
        )
        raw = get_text(get_dict(invalid.pop(native or "", None), "input"), "rawInputText")
        if tool in _SPAWNING and native and (task := get_text(given, "task")):
            self._asked[native] = task
        extra = {"partial_arguments": raw} if raw else None
        strand.add_tool_call(
            native,
            tool,
            {} if given is None else given,
            ts=ts,
            usage=spent,
            group=place,
            extra=extra,
        )


def _block(block: Any) -> Any:
    """A block with its pictures in the form that all media have, also those in the outcome of one
    part of a call."""
    if not isinstance(block, dict):
        return block
    if isinstance(block.get("data"), str) and (kind := get_block_type(block)):
        return build_media_block(get_text(block, "mediaType"), block["data"], kind)
    if isinstance(inner := block.get("result"), list):
        return {**block, "result": list(map(_block, inner))}
    return unpack_block(block)


def _usage(metrics: Any) -> Usage | None:
    """The figures of an answer; its input counts what was cached."""
    found = metrics if isinstance(metrics, dict) else {}
    return build_usage(
        input_tokens=found.get("inputTokens"),
        output_tokens=found.get("outputTokens"),
        cache_read_tokens=found.get("cacheReadTokens"),
        cache_write_tokens=found.get("cacheWriteTokens"),
    )
