"""A session of Cline since version 3 of its command line: a document of messages, with those of its
agents beside."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.cline.shapes import SESSION, is_session
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import block_of, content_of, kind_of, output_of
from open_token.formats.shared.fields import (
    Record,
    kept,
    name_of,
    note_faults,
    record_in,
    records_in,
    word_in,
)
from open_token.formats.shared.model_message import counts
from open_token.formats.shared.providers import Providers
from open_token.formats.shared.thread import Agent, Agents, Strand
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
        self._providers = Providers()
        self._named: str | None = None
        """The runtime's name for the provider of the model that has the word."""
        self._agents = Agents(self._run)
        self._waiting: list[tuple[Agent, str]] = []
        """Agents with files of their own that no call was found for yet, and the words that each
        was started with."""
        self._asked: dict[str, str] = {}
        """What an agent was asked to do, by the call that started it."""
        self._mode: str | None = None

    def read(self) -> None:
        """Tell everything."""
        main, rest = self._files()
        about = self._value(main)
        origin = record_in(about, "origin")
        strand = Strand(self._draft, self._draft.get_actor("system", "Cline"), self._provider)
        if word_in(origin, "parentThreadId"):
            strand.agent_id, strand.name = (
                word_in(origin, "subagent"),
                word_in(about, "agent") or strand.name,
            )
            strand.prompter = self._draft.get_actor("model", "parent agent")
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
            strand.note({"kind": "session_totals", **totals}, ts=to_utc(manifest.get("ended_at")))
        self._providers.settle(self._draft.conversation)

    def _files(self) -> tuple[Source, list[Source]]:
        """The document of the session, and those beside it."""
        if self._source.shape != "folder":
            return self._source, [
                file for file in self._source.neighbours(SESSION) if file.path != self._source.path
            ]
        found = sorted(
            (file for file in self._source.below(SESSION) if is_session(file)), key=self._is_part
        )
        return found[0], found[1:]

    def _value(self, file: Source) -> Record:
        try:
            value = file.document
        except InputError:
            self._draft.note_omission(
                "unreadable-part", "an agent", "a file of the session that cannot be read"
            )
            return {}
        return value if isinstance(value, dict) else {}

    def _is_part(self, file: Source) -> bool:
        return word_in(record_in(self._value(file), "origin"), "parentThreadId") is not None

    def _agent(self, file: Source) -> tuple[Agent, str]:
        """A subagent or a teammate, and what it was asked to do."""
        about = self._value(file)
        origin, first = record_in(about, "origin"), next(iter(records_in(about, "messages")), {})
        kind = word_in(about, "agent")
        name = word_in(origin, "subagent") or PurePath(file.name).name
        facts = {
            "tooling_scope": kind,
            "subagent_type": kind,
            "session_id": word_in(about, "sessionId"),
        }
        started = from_epoch(first.get("ts"), 0.001)
        words = content_of(first.get("content") or "")
        return Agent(name, file, kind, kept(facts, *facts), started), words if isinstance(
            words, str
        ) else ""

    def _frame(self, main: Source, about: Record, strand: Strand) -> Record:
        """What the session is and where it ran; more of that is in a file beside it, which is given
        back."""
        conversation, name = self._draft.conversation, word_in(about, "sessionId")
        beside = main.neighbour(f"{name}.json") if name and PurePath(name).name == name else None
        manifest = self._value(beside) if beside else {}
        if beside:
            note_faults(beside, "the facts of the session", self._draft)
            self._draft.note_omission(
                "bookkeeping",
                "the facts of the session",
                "switches, paths and totals of the session",
            )
        if name:
            conversation["id"] = name
        if title := word_in(record_in(manifest, "metadata"), "title"):
            conversation["title"] = title
        if started := to_utc(manifest.get("started_at")):
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        origin = record_in(about, "origin")
        facts = {
            "session_id": name,
            "cwd": word_in(manifest, "cwd"),
            "version": word_in(origin, "version"),
        }
        facts |= {
            "source": word_in(origin, "source"),
            "parent_session": word_in(origin, "parentThreadId"),
        }
        strand.note({"kind": "context", **kept(facts, *facts)}, ts=started)
        return manifest

    def _provider(self, model: str) -> str | None:
        return self._providers.meet(self._named, model or None)

    def _run(self, source: Source, strand: Strand) -> None:
        """Tell the messages of a file."""
        about = self._value(source)
        if prompt := word_in(about, "system_prompt"):
            strand.say("system", prompt, strand.client)
        messages = about.get("messages")
        for number, message in enumerate(messages if isinstance(messages, list) else []):
            place = f"message {number}"
            if not isinstance(message, dict):
                strand.skip("skipped-record", place, "a message that is no object")
                continue
            ts = strand.last_ts = from_epoch(message.get("ts"), 0.001) or strand.last_ts
            if message.get("role") == "user":
                self._user(message, strand, ts)
            elif message.get("role") == "assistant":
                self._assistant(message, strand, ts, place)
            else:
                strand.skip("unknown-role", place, f"role {name_of(message.get('role'))}")

    def _user(self, message: Record, strand: Strand, ts: str | None) -> None:
        """What was typed, with the mode around it, or results."""
        content = message.get("content")
        said = []
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if kind_of(block) == "tool_result":
                self._result(block, strand, ts)
            else:
                said.append(block)
        if said:
            words = content_of([_block(block) for block in said])
            typed = _TYPED.fullmatch(words) if isinstance(words, str) else None
            if typed and typed[1] and typed[1] != self._mode:
                self._mode = typed[1]
                strand.note({"kind": "settings", "mode": typed[1]}, ts=ts)
            told = strand.say("user", typed[2] if typed else words, strand.asker(), ts=ts)
            if typed:
                strand.note({"kind": "sent_text", "text": words}, ts=ts, parent=told)

    def _result(self, block: Record, strand: Strand, ts: str | None) -> None:
        native, output = word_in(block, "tool_use_id"), block.get("content")
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
            else output_of(output)
        )
        strand.answer(
            native, told, ts=ts, facts=kept(facts, *facts) or None, tool=word_in(block, "name")
        )

    def _started(self, call: str | None, strand: Strand) -> None:
        """Tell the agent that a call started: it was asked in the very words of the call."""
        words = self._asked.pop(call or "", None)
        found = next(
            (item for item in self._waiting if words is not None and item[1] == words), None
        )
        if found is not None:
            self._waiting.remove(found)
            self._agents.tell(found[0], strand, strand.key(call))

    def _assistant(self, message: Record, strand: Strand, ts: str | None, place: str) -> None:
        """An answer; what it took rides on the first of its events that is no thought."""
        if word_in(about := record_in(message, "metadata"), "displayRole") == "error":
            # The model said none of it: it stands in its place for the screen alone.
            strand.note(
                {"kind": "error", "message": content_of(message.get("content") or "")}, ts=ts
            )
            return
        model, content = record_in(message, "modelInfo"), message.get("content")
        self._named = word_in(model, "provider") or self._named
        strand.speak(model.get("id"))
        spent, last = _usage(message.get("metrics")), None
        invalid: Record = {
            str(item.get("toolCallId")): item for item in records_in(about, "invalidToolCalls")
        }
        for block in (
            content
            if isinstance(content, list)
            else [{"type": "text", "text": content}]
            if content
            else []
        ):
            kind = kind_of(block)
            if kind in ("thinking", "redacted_thinking"):
                last = strand.think(word_in(block, "thinking"), ts=ts)
                continue
            if kind == "tool_use":
                self._call(block, strand, ts, place, spent, invalid)
            else:
                strand.say(
                    "assistant", content_of([_block(block)]), strand.speaker, ts=ts, usage=spent
                )
            spent = None
        given = about.get("invalidToolCalls")
        if invalid or (
            isinstance(given, list) and len(given) > len(records_in(about, "invalidToolCalls"))
        ):
            strand.skip("unknown-part", place, "what is known of a call that is not there")
        if spent and last is not None:
            self._draft.set_usage(last, spent)
        elif spent:
            strand.note({"kind": "usage"}, ts=ts, usage=spent)

    def _call(
        self,
        block: Record,
        strand: Strand,
        ts: str | None,
        place: str,
        spent: Usage | None,
        invalid: Record,
    ) -> None:
        native, tool, given = (
            word_in(block, "id"),
            word_in(block, "name") or "tool",
            block.get("input"),
        )
        raw = word_in(record_in(invalid.pop(native or "", None), "input"), "rawInputText")
        if tool in _SPAWNING and native and (task := word_in(given, "task")):
            self._asked[native] = task
        extra = {"partial_arguments": raw} if raw else None
        strand.call(
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
    if isinstance(block.get("data"), str) and (kind := kind_of(block)):
        return build_media_block(word_in(block, "mediaType"), block["data"], kind)
    if isinstance(inner := block.get("result"), list):
        return {**block, "result": list(map(_block, inner))}
    return block_of(block)


def _usage(metrics: Any) -> Usage | None:
    """The figures of an answer; its input counts what was cached."""
    found = metrics if isinstance(metrics, dict) else {}
    return counts(
        input_tokens=found.get("inputTokens"),
        output_tokens=found.get("outputTokens"),
        cache_read_tokens=found.get("cacheReadTokens"),
        cache_write_tokens=found.get("cacheWriteTokens"),
    )
