"""Read a Cursor agent transcript, with the transcripts of its subagents in a subfolder."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.cursor.conversation import (
    MAX_DEPTH,
    SPAWNING_TOOLS,
    Conversation,
    describe_subagent,
    note_left_out_subagent,
)
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    add_block,
    parse_content,
    parse_output,
)
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.sources.source import Source

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NORMAL_STATES = ("success", "completed")


def read_transcript(source: Source, draft: Draft) -> None:
    """Read the transcript with those of its subagents."""
    # Transcripts do not contain the id of the conversation; it is the name of the file.
    name = PurePath(source.name).name.split(".")[0]
    if source.path is not None and _UUID.fullmatch(name):
        draft.conversation["id"] = name
    if source.path is not None and source.path.parent.name == "subagents":
        asker = draft.get_actor("model", "parent agent")
    else:
        asker = draft.get_actor("human", "user")
    subagents = source.find_siblings("subagents/*.jsonl")
    _TranscriptReader(source, Conversation(draft, asker=asker), subagents).read()


class _TranscriptReader:
    """Reads one file."""

    def __init__(
        self,
        source: Source,
        conversation: Conversation,
        subagents: list[Source],
        depth: int = 0,
    ) -> None:
        self._source = source
        self._conversation = conversation
        self._draft = conversation.draft
        self._subagents = [(file, _get_first_prompt(file)) for file in subagents]
        """The transcripts of subagents that no call was matched with, and their prompts."""
        self._unmatched_calls: list[tuple[str, JsonObject]] = []
        """Calls that start a subagent whose prompt is in no transcript."""
        self._label = "subagent line" if depth else "line"
        self._depth = depth

    def read(self) -> None:
        """Read all lines, then the subagents that no call was matched with."""
        for number, record in self._source.records():
            self._read_line(record, f"{self._label} {number}")
        self._read_unmatched_subagents()

    def _read_line(self, record: Any, position: str) -> None:
        role = get_text(record, "role")
        message = get_dict(record, "message")
        if role is None or not message:
            self._read_other_record(record, position)
            return
        blocks = message.get("content")
        if blocks is None:
            blocks = []
        elif not isinstance(blocks, list):
            blocks = [blocks]
        if role == "assistant":
            actor = self._conversation.get_model_actor(get_text(message, "model"))
            for block in blocks:
                self._read_model_block(block, actor, position)
        elif role == "system":
            self._draft.add_message(
                "system",
                parse_content(blocks),
                self._conversation.client,
                span=self._conversation.span,
            )
        else:
            self._read_user_blocks(blocks)

    def _read_other_record(self, record: Any, position: str) -> None:
        kind = get_text(record, "type")
        if kind != "turn_ended":
            self._draft.note_omission("unknown-record", position, f"record {format_kind(kind)}")
            return
        status = record.get("status")
        if isinstance(status, str) and status not in _NORMAL_STATES:
            self._conversation.annotate({"kind": "stop", "reason": status})
        else:
            self._draft.note_omission("bookkeeping", position, "record turn_ended")

    def _read_user_blocks(self, blocks: list[Any]) -> None:
        prompt: list[Any] = []
        for block in blocks:
            if type(block) is not dict or block.get("type") != "tool_result":
                prompt.append(block)
                continue
            self._conversation.add_prompt(prompt)
            prompt = []
            facts = {"is_error": True} if block.get("is_error") is True else {}
            output = parse_output(block.get("content"))
            self._conversation.add_result(get_text(block, "tool_use_id"), output, facts)
        self._conversation.add_prompt(prompt)

    def _read_model_block(self, block: Any, actor: str, position: str) -> None:
        kind = block.get("type") if type(block) is dict else None
        if kind == "tool_use":
            tool = get_text(block, "name")
            arguments = block.get("input")
            call_id = get_text(block, "id")
            key = self._conversation.add_call(call_id, tool, arguments, actor, position)
            if tool in SPAWNING_TOOLS:
                self._match_subagent(key, arguments)
        # Transcripts contain placeholders for reasoning.
        elif _is_empty_reasoning(block):
            self._draft.note_omission("empty-reasoning", position, "reasoning without text")
        else:
            add_block(
                self._draft,
                block,
                actor,
                span=self._conversation.span,
                visibility=self._conversation.visibility,
            )

    def _match_subagent(self, key: str, arguments: Any) -> None:
        """Read the subagent whose transcript begins with the prompt of a call."""
        prompt = get_text(arguments, "prompt") or get_text(arguments, "task")
        description = describe_subagent(arguments)
        for position, (file, first_prompt) in enumerate(self._subagents):
            if prompt and first_prompt and prompt in first_prompt:
                del self._subagents[position]
                self._read_subagent(file, key, description)
                return
        self._unmatched_calls.append((key, description))

    def _read_unmatched_subagents(self) -> None:
        call: str | None = None
        description: JsonObject = {}
        # A single call and a single transcript belong together; of more it is not known.
        if len(self._unmatched_calls) == len(self._subagents) == 1:
            call, description = self._unmatched_calls[0]
        for file, _ in self._subagents:
            self._read_subagent(file, call, description)

    def _read_subagent(self, file: Source, call: str | None, description: JsonObject) -> None:
        draft = self._draft
        if draft.subagents == "none":
            note_left_out_subagent(draft, f"event {draft.count}")
            return
        is_inline = draft.subagents == "inline" and self._depth < MAX_DEPTH
        asker = self._conversation.get_model_actor()
        span = self._conversation.start_subagent(
            PurePath(file.name).stem, call, description, is_inline=is_inline, asker=asker
        )
        if is_inline:
            name = description.get("subagent_type") or "subagent"
            conversation = Conversation(draft, asker=asker, span=span, name=name)
            _TranscriptReader(file, conversation, [], self._depth + 1).read()
            note_file_faults(file, "subagent", draft)
        draft.end_span(span, call=call)


def _is_empty_reasoning(block: Any) -> bool:
    if type(block) is not dict:
        return False
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in THINKING_TYPES:
        return False
    return not block.get("thinking") and not block.get("data")


def _get_first_prompt(file: Source) -> str | None:
    """Return the first text in a transcript."""
    for record in file.sample:
        content = get_dict(record, "message").get("content")
        if content is None:
            continue
        simplified = parse_content(content)
        if isinstance(simplified, str):
            return simplified
        for block in simplified:
            text = get_text(block, "text")
            if text:
                return text
        return None
    return None
