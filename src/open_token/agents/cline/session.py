"""Read a session of Cline's command line, since version 3, with its subagents and teammates."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.cline.detect import SESSION_FILES, is_session_file
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import (
    get_block_type,
    parse_content,
    parse_output,
    unpack_block,
)
from open_token.formats.shared.fields import (
    JsonObject,
    drop_nulls,
    get_dict,
    get_dicts,
    get_text,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_USER_INPUT = re.compile(r"\s*<user_input(?: mode=\"(\w+)\")?>(.*)</user_input>\s*", re.DOTALL)
_SPAWNING_TOOLS = ("spawn_agent", "team_run_task")
_REASONING_KINDS = ("thinking", "redacted_thinking")
_MANIFEST = "the facts of the session"
"""The position of notes on the manifest of a session."""


class SessionReader:
    """Reads a session with its subagents."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._providers = ProviderTracker()
        self._provider_name: str | None = None
        """Cline's name for the provider of the current model."""
        self._agents = SubagentWriter(self._read_file)
        self._unmatched_agents: list[tuple[SubagentFile, str]] = []
        """Subagents that were not matched with a call yet, and their prompts."""
        self._tasks: dict[str, str] = {}
        """The prompt of a subagent, by the id of the call that started it."""
        self._mode: str | None = None

    def read(self) -> None:
        """Read the session into the draft."""
        main, other_files = self._find_files()
        header = self._decode(main)
        origin = get_dict(header, "origin")
        client = self._draft.get_actor("system", "Cline")
        thread = Thread(self._draft, client, self._find_provider)
        if get_text(origin, "parentThreadId"):
            # The file of a subagent was opened alone.
            thread.agent_id = get_text(origin, "subagent")
            thread.name = get_text(header, "agent") or thread.name
            thread.user_actor = self._draft.get_actor("model", "parent agent")
        else:
            subagent_files = [file for file in other_files if self._is_subagent(file)]
            self._unmatched_agents = [self._describe_agent(file) for file in subagent_files]
        manifest = self._read_context(main, header, thread)
        self._read_file(main, thread)
        self._agents.finish([agent for agent, _ in self._unmatched_agents], thread)
        totals = pick_fields(manifest, "status", "exit_code", "ended_at")
        if totals:
            thread.add_annotation(
                {"kind": "session_totals", **totals}, ts=to_utc(manifest.get("ended_at"))
            )
        self._providers.set_provider(self._draft.conversation)

    def _find_files(self) -> tuple[Source, list[Source]]:
        """Return the file of the session, and other files of messages in its folder."""
        if self._source.shape != "folder":
            neighbours = self._source.find_siblings(SESSION_FILES)
            return self._source, [file for file in neighbours if file.path != self._source.path]
        files = [file for file in self._source.find_files(SESSION_FILES) if is_session_file(file)]
        # The file without a parent thread is that of the session.
        files.sort(key=self._is_subagent)
        return files[0], files[1:]

    def _decode(self, file: Source) -> JsonObject:
        try:
            value = file.document
        except InputError:
            self._draft.note_omission(
                "unreadable-part", "an agent", "unreadable file of the session"
            )
            return {}
        return value if isinstance(value, dict) else {}

    def _is_subagent(self, file: Source) -> bool:
        return get_text(get_dict(self._decode(file), "origin"), "parentThreadId") is not None

    def _describe_agent(self, file: Source) -> tuple[SubagentFile, str]:
        """Return a subagent or a teammate, and its prompt."""
        header = self._decode(file)
        kind = get_text(header, "agent")
        agent_id = get_text(get_dict(header, "origin"), "subagent") or PurePath(file.name).name
        facts = {
            "tooling_scope": kind,
            "subagent_type": kind,
            "session_id": get_text(header, "sessionId"),
        }
        first = next(iter(get_dicts(header, "messages")), {})
        prompt = parse_content(first.get("content") or "")
        started_at = from_epoch(first.get("ts"), 0.001)
        agent = SubagentFile(agent_id, file, kind, drop_nulls(facts), started_at)
        return agent, prompt if isinstance(prompt, str) else ""

    def _read_context(self, main: Source, header: JsonObject, thread: Thread) -> JsonObject:
        """Read what the session is and where it ran, and return its manifest."""
        conversation = self._draft.conversation
        session_id = get_text(header, "sessionId")
        manifest = self._read_manifest(main, session_id)
        if session_id:
            conversation["id"] = session_id
        title = get_text(get_dict(manifest, "metadata"), "title")
        if title:
            conversation["title"] = title
        started_at = to_utc(manifest.get("started_at"))
        if started_at:
            conversation["started_at"] = started_at
        conversation["source_runtime"] = "cli"
        origin = get_dict(header, "origin")
        facts = {
            "session_id": session_id,
            "cwd": get_text(manifest, "cwd"),
            "version": get_text(origin, "version"),
            "source": get_text(origin, "source"),
            "parent_session": get_text(origin, "parentThreadId"),
        }
        thread.add_annotation({"kind": "context", **drop_nulls(facts)}, ts=started_at)
        return manifest

    def _read_manifest(self, main: Source, session_id: str | None) -> JsonObject:
        # The id becomes part of a path: it must be a plain file name.
        if not session_id or PurePath(session_id).name != session_id:
            return {}
        file = main.open_sibling(f"{session_id}.json")
        if not file:
            return {}
        manifest = self._decode(file)
        note_file_faults(file, _MANIFEST, self._draft)
        self._draft.note_omission(
            "bookkeeping", _MANIFEST, "switches, paths and totals of the session"
        )
        return manifest

    def _find_provider(self, model: str) -> str | None:
        return self._providers.add_model(self._provider_name, model or None)

    def _read_file(self, source: Source, thread: Thread) -> None:
        """Read the messages of a file."""
        header = self._decode(source)
        system_prompt = get_text(header, "system_prompt")
        if system_prompt:
            thread.add_message("system", system_prompt, thread.client)
        messages = header.get("messages")
        if not isinstance(messages, list):
            return
        for number, message in enumerate(messages):
            position = f"message {number}"
            if not isinstance(message, dict):
                thread.note_omission("skipped-record", position, "message that is not an object")
                continue
            ts = from_epoch(message.get("ts"), 0.001) or thread.last_ts
            thread.last_ts = ts
            if message.get("role") == "user":
                self._read_user_message(message, thread, ts)
            elif message.get("role") == "assistant":
                self._read_response(message, thread, ts, position)
            else:
                thread.note_omission(
                    "unknown-role", position, f"role {format_kind(message.get('role'))}"
                )

    def _read_user_message(self, message: JsonObject, thread: Thread, ts: str | None) -> None:
        """Read tool results and typed text, which is in a tag with the mode."""
        content = message.get("content")
        if not isinstance(content, list):
            content = [{"type": "text", "text": content}]
        prompt = []
        for block in content:
            if get_block_type(block) == "tool_result":
                self._read_result(block, thread, ts)
            else:
                prompt.append(_convert_block(block))
        if not prompt:
            return
        text = parse_content(prompt)
        match = _USER_INPUT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            thread.add_message("user", text, thread.get_user_actor(), ts=ts)
            return
        mode, typed = match.groups()
        # Every prompt repeats the mode.
        if mode and mode != self._mode:
            self._mode = mode
            thread.add_annotation({"kind": "settings", "mode": mode}, ts=ts)
        event = thread.add_message("user", typed, thread.get_user_actor(), ts=ts)
        thread.add_annotation({"kind": "sent_text", "text": text}, ts=ts, parent=event)

    def _read_result(self, block: JsonObject, thread: Thread, ts: str | None) -> None:
        call_id = get_text(block, "tool_use_id")
        self._read_spawned_agent(call_id, thread)
        # A call that did several things has an outcome for each of them.
        outcomes = get_dicts(block, "content")
        if any("success" in outcome for outcome in outcomes):
            output: Any = [_convert_block(outcome) for outcome in outcomes]
        else:
            output = parse_output(block.get("content"))
        facts: JsonObject = {}
        is_error = block.get("is_error")
        if is_error:
            facts["is_error"] = is_error
        elif any(outcome.get("success") is False for outcome in outcomes):
            facts["is_error"] = True
        thread.add_tool_result(
            call_id, output, ts=ts, facts=facts or None, tool=get_text(block, "name")
        )

    def _read_spawned_agent(self, call_id: str | None, thread: Thread) -> None:
        """Read the subagent of a call, whose first message is the task in the call."""
        task = self._tasks.pop(call_id or "", None)
        if task is None:
            return
        for position, (agent, prompt) in enumerate(self._unmatched_agents):
            if prompt == task:
                del self._unmatched_agents[position]
                self._agents.add(agent, thread, thread.get_call_key(call_id))
                return

    def _read_response(
        self, message: JsonObject, thread: Thread, ts: str | None, position: str
    ) -> None:
        """Read a message of the model; its usage is on the first event that is not reasoning."""
        content = message.get("content")
        metadata = get_dict(message, "metadata")
        if get_text(metadata, "displayRole") == "error":
            # An error in the place of a response, for the screen only: not from the model.
            thread.add_annotation({"kind": "error", "message": parse_content(content or "")}, ts=ts)
            return
        model = get_dict(message, "modelInfo")
        self._provider_name = get_text(model, "provider") or self._provider_name
        thread.set_model(model.get("id"))
        usage = _parse_usage(message.get("metrics"))
        last_reasoning = None
        # Calls whose arguments could not be parsed: the raw text is in the metadata.
        invalid_calls = {
            str(item.get("toolCallId")): item for item in get_dicts(metadata, "invalidToolCalls")
        }
        if not isinstance(content, list):
            content = [{"type": "text", "text": content}] if content else []
        for block in content:
            kind = get_block_type(block)
            if kind in _REASONING_KINDS:
                last_reasoning = thread.add_reasoning(get_text(block, "thinking"), ts=ts)
                continue
            if kind == "tool_use":
                self._read_call(block, thread, ts, position, usage, invalid_calls)
            else:
                text = parse_content([_convert_block(block)])
                thread.add_message("assistant", text, thread.model_actor, ts=ts, usage=usage)
            usage = None
        if invalid_calls or _has_non_objects(metadata.get("invalidToolCalls")):
            thread.note_omission(
                "unknown-part", position, "facts about a call that is not in the message"
            )
        if usage and last_reasoning is not None:
            self._draft.set_usage(last_reasoning, usage)
        elif usage:
            thread.add_annotation({"kind": "usage"}, ts=ts, usage=usage)

    def _read_call(
        self,
        block: JsonObject,
        thread: Thread,
        ts: str | None,
        position: str,
        usage: Usage | None,
        invalid_calls: dict[str, JsonObject],
    ) -> None:
        call_id = get_text(block, "id")
        tool = get_text(block, "name") or "tool"
        arguments = block.get("input")
        task = get_text(arguments, "task")
        if tool in _SPAWNING_TOOLS and call_id and task:
            self._tasks[call_id] = task
        extra = None
        invalid_call = invalid_calls.pop(call_id or "", None)
        raw_arguments = get_text(get_dict(invalid_call, "input"), "rawInputText")
        if raw_arguments:
            extra = {"partial_arguments": raw_arguments}
        thread.add_tool_call(
            call_id,
            tool,
            {} if arguments is None else arguments,
            ts=ts,
            usage=usage,
            group=position,
            extra=extra,
        )


def _has_non_objects(values: Any) -> bool:
    return isinstance(values, list) and any(type(value) is not dict for value in values)


def _convert_block(block: Any) -> Any:
    """Return a block with its media unpacked, also those in the outcomes of a call."""
    if not isinstance(block, dict):
        return block
    kind = get_block_type(block)
    if kind and isinstance(block.get("data"), str):
        return build_media_block(get_text(block, "mediaType"), block["data"], kind)
    if isinstance(block.get("result"), list):
        return {**block, "result": [_convert_block(inner) for inner in block["result"]]}
    return unpack_block(block)


def _parse_usage(metrics: Any) -> Usage | None:
    """Return the token counts of a response; the input includes cached tokens."""
    if not isinstance(metrics, dict):
        return None
    return build_usage(
        input_tokens=metrics.get("inputTokens"),
        output_tokens=metrics.get("outputTokens"),
        cache_read_tokens=metrics.get("cacheReadTokens"),
        cache_write_tokens=metrics.get("cacheWriteTokens"),
    )
