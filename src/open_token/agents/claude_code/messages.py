"""Read user and assistant records of a Claude Code session: messages, thinking, calls, results."""

from typing import Any

from open_token.agents.claude_code.prompt_queue import PromptQueue
from open_token.agents.claude_code.records import (
    Line,
    Message,
    Record,
    get_text,
    parse_progress_output,
    parse_subagent_result,
    to_safe_name,
    to_text,
)
from open_token.agents.claude_code.subagents import SubagentReader
from open_token.agents.claude_code.thread import MessageUsage, Thread
from open_token.agents.claude_code.user_text import parse_command, split_user_text
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    add_block,
    get_plain_text,
    parse_content,
    parse_output,
)
from open_token.formats.shared.user_shell_commands import add_user_command
from open_token.model.document import Event

_USUAL_STOPS = (None, "tool_use", "end_turn", "stop_sequence")
# The beginning of the result of a call that the person did not allow.
_REJECTION = "The user doesn't want to "
# The tool that starts subagents, under its older and its newer name.
_SPAWNING_TOOLS = ("Task", "Agent")


class MessageReader:
    """Adds the events of user and assistant records to the draft."""

    def __init__(
        self, draft: Draft, client: str, subagents: SubagentReader, queue: PromptQueue
    ) -> None:
        self._draft = draft
        self._client = client
        self._subagents = subagents
        self._queue = queue
        self._progress: dict[str, str] = {}
        """What the command of each open call has printed so far."""

    def read_assistant(self, line: Line, thread: Thread, ts: str | None) -> None:
        """Read a line of an answer, as a rule one block of a message."""
        message = line.message
        if message is None:
            return
        model = message.model or line.model
        content = message.content
        # `<synthetic>` is the model of messages that Claude Code writes itself.
        if model == "<synthetic>" or line.is_api_error_message is True:
            self._add_client_message(line, content, thread, ts)
            return
        if model != thread.model or not thread.speaker:
            thread.set_model(model)
        usage = thread.get_usage(message)
        if type(content) is list:
            for block in content:
                self._add_block(block, message.id, line, thread, usage, ts)
        elif content is not None:
            self._add_block(content, message.id, line, thread, usage, ts)
        # No later line can belong to a message without an id.
        if type(message.id) is not str:
            usage.close(self._draft)
        if (
            message.stop_reason not in _USUAL_STOPS
            or line.cost_usd
            or line.is_aborted_mid_stream is True
        ):
            self._annotate_answer(line, message, usage, thread, ts)

    def _add_block(
        self,
        block: Any,
        message_id: object,
        line: Line,
        thread: Thread,
        message_usage: MessageUsage,
        ts: str | None,
    ) -> None:
        draft = self._draft
        position = draft.count
        usage = message_usage.usage if message_usage.position < 0 else None
        kind = block.get("type") if type(block) is dict else None
        if kind == "tool_use":
            name = block.get("name")
            call_id = block.get("id")
            arguments = block.get("input")
            key = draft.add_tool_call(
                call_id if type(call_id) is str else None,
                name if type(name) is str and name else "tool",
                {} if arguments is None else arguments,
                thread.speaker,
                ts=ts,
                span=thread.span,
                usage=usage,
                group=message_id,
            )
            if name in _SPAWNING_TOOLS:
                self._subagents.add_call(key, arguments, thread.speaker, line.uuid)
            # The draft's own keys, for calls without an id, begin with a zero byte.
            if key[0] == "\0":
                thread.calls_without_id.append(key)
        elif type(kind) is str and kind in THINKING_TYPES:
            event = draft.add_reasoning(
                get_text(block, "thinking"), thread.speaker, ts=ts, span=thread.span
            )
            if message_usage.reasoning is None:
                message_usage.reasoning = event
            return
        elif kind == "text" and (text := get_plain_text(block)):
            draft.add_message(
                "assistant",
                text,
                thread.speaker,
                ts=ts,
                visibility=thread.visibility,
                span=thread.span,
                usage=usage,
            )
        else:
            add_block(
                draft,
                block,
                thread.speaker,
                ts=ts,
                span=thread.span,
                usage=usage,
                visibility=thread.visibility,
            )
            # Results of server tools are no output of the model: they carry no usage.
            if type(kind) is str and kind.endswith("tool_result"):
                return
        if message_usage.position < 0 and draft.count > position:
            message_usage.position = position

    def _annotate_answer(
        self, line: Line, message: Message, usage: MessageUsage, thread: Thread, ts: str | None
    ) -> None:
        """Add an unusual stop reason, an abort and the cost, which the oldest versions wrote."""
        reason = message.stop_reason
        if type(reason) is str and reason not in _USUAL_STOPS and not usage.has_stop:
            usage.has_stop = True
            self._annotate({"kind": "stop", "reason": reason}, thread, ts)
        if line.is_aborted_mid_stream is True:
            self._annotate({"kind": "aborted"}, thread, ts)
        if type(line.cost_usd) in (int, float) and line.cost_usd:
            cost: Record = {"kind": "cost", "cost_usd": line.cost_usd}
            if type(line.duration_ms) in (int, float):
                cost["duration_ms"] = line.duration_ms
            self._annotate(cost, thread, ts)

    def _annotate(self, data: Record, thread: Thread, ts: str | None) -> None:
        self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)

    def _add_client_message(self, line: Line, content: Any, thread: Thread, ts: str | None) -> None:
        """Add an assistant line that Claude Code wrote itself: an API error or a notice."""
        kind = "api_error" if line.is_api_error_message is True else "client_message"
        text = parse_content(content) if content is not None else ""
        data: Record = {"kind": kind, "text": text}
        if to_text(line.error):
            data["error"] = line.error
        self._annotate(data, thread, ts)

    def read_user(self, line: Line, thread: Thread, ts: str | None) -> bool:
        """Read a user line; return whether it holds nothing but what a person typed."""
        content = line.message.content if line.message is not None else None
        if content is None:
            return False
        if line.is_compact_summary is True:
            self._add_summary(parse_content(content), thread, ts)
            return False
        plan = to_text(line.plan_content)
        if plan:
            self._add_plan(plan, content, thread, ts)
            return False
        if type(content) is not list:
            return self.add_user_content([content], line, thread, ts)
        # Results may be mixed with other blocks; the order of the line is preserved.
        pending: list[Any] = []
        for block in content:
            if type(block) is dict and block.get("type") == "tool_result":
                if pending:
                    self.add_user_content(pending, line, thread, ts)
                    pending = []
                self._add_result(block, line, thread, ts, is_only=len(content) == 1)
            else:
                pending.append(block)
        if not pending:
            return False
        is_typed = self.add_user_content(pending, line, thread, ts)
        return is_typed and len(pending) == len(content)

    def add_user_content(
        self, blocks: list[Any], line: Line, thread: Thread, ts: str | None
    ) -> bool:
        """Add texts and images of a user message; return whether a person typed any of them."""
        # A message of another agent names its sender.
        sender = get_text(line.origin, "from") if line.origin is not None else None
        if sender or line.is_meta is True:
            actor = self._draft.get_actor("model", sender) if sender else self._client
            content = parse_content(blocks)
            self._add_internal(content, actor, thread, ts)
            if isinstance(content, str):
                self._queue.settle(content)
            return False
        typed: list[Any] = []
        has_typed = False
        for block in blocks:
            text = block if isinstance(block, str) else get_plain_text(block)
            if text is None:
                typed.append(block)
                continue
            for origin, part in split_user_text(text):
                self._queue.settle(part)
                if origin == "typed":
                    typed.append({"type": "text", "text": part})
                    continue
                has_typed |= self._add_typed(typed, thread, ts)
                typed = []
                self._add_injected(origin, part, thread, ts)
        return self._add_typed(typed, thread, ts) or has_typed

    def _add_typed(self, blocks: list[Any], thread: Thread, ts: str | None) -> bool:
        if not blocks:
            return False
        self._draft.add_message(
            "user",
            parse_content(blocks),
            thread.get_prompter(),
            ts=ts,
            visibility=thread.visibility,
            span=thread.span,
        )
        return True

    def _add_injected(self, origin: str, text: str, thread: Thread, ts: str | None) -> None:
        if origin == "summary":
            self._add_summary(text, thread, ts)
        elif origin == "command":
            self._add_command(text, thread, ts)
        else:
            event = self._add_internal(text, self._client, thread, ts)
            if origin == "interrupted":
                self._draft.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)

    def _add_command(self, text: str, thread: Thread, ts: str | None) -> None:
        """Add a command that the person ran; XML that cannot be parsed is kept as it is."""
        command = parse_command(text)
        if command is None:
            self._add_internal(text, thread.get_prompter(), thread, ts)
            return
        self._queue.settle(command.text)
        # The model received the XML.
        facts = {**command.facts, "sent_text": text}
        person = thread.get_prompter()
        add_user_command(self._draft, command.text, person, facts, ts=ts, span=thread.span)

    def _add_plan(self, plan: str, content: Any, thread: Thread, ts: str | None) -> None:
        """Add a prompt that the client made of a plan: the plan is the model's, the rest its own.

        A person accepted the plan, and wrote none of it.
        """
        text = parse_content(content)
        if not isinstance(text, str) or plan not in text:
            self._add_internal(text, self._client, thread, ts)
            return
        # The model that wrote it answered in an earlier session, unless one answered here.
        author = thread.speaker or self._draft.get_actor("model", thread.name, provider="anthropic")
        event = self._draft.add_message(
            "user", plan, author, ts=ts, visibility=thread.visibility, span=thread.span
        )
        data = {"kind": "plan", "sent_text": text}
        self._draft.add_annotation(data, parent=event, actor=self._client, ts=ts)

    def _add_summary(self, content: str | list[Any], thread: Thread, ts: str | None) -> None:
        event = self._add_internal(content, self._client, thread, ts)
        self._draft.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _add_internal(
        self, content: str | list[Any], actor: str, thread: Thread, ts: str | None
    ) -> Event:
        return self._draft.add_message(
            "user", content, actor, ts=ts, visibility="internal", span=thread.span
        )

    def _add_result(
        self, block: Record, line: Line, thread: Thread, ts: str | None, *, is_only: bool
    ) -> None:
        draft = self._draft
        key = block.get("tool_use_id")
        output = block.get("content")
        if type(output) is not str:
            output = parse_output(output)
        facts = _parse_failure(output, line) if block.get("is_error") is True else None
        if type(key) is not str or not key:
            key = self._find_call_without_id(line, thread)
        if key in self._subagents.calls or key is None or not draft.is_call_open(key):
            # `toolUseResult` belongs to the line; with several results it cannot be assigned.
            if is_only and line.tool_use_result is not None:
                subagent_facts = parse_subagent_result(line.tool_use_result)
                if subagent_facts:
                    facts = {**(facts or {}), **subagent_facts}
            # The events of the subagent precede the result of its call.
            self._subagents.finish_call(key, facts, thread, line.uuid)
        event = draft.add_tool_result(key, output, ts=ts, span=thread.span, facts=facts)
        if key in self._progress:
            self._add_progress(self._progress.pop(key), output, event, ts)

    def keep_progress(self, line: Line) -> bool:
        """Keep what the command of an open call has printed until its result; False for others."""
        key = to_text(line.parent_tool_use_id)
        if key is None or not self._draft.is_call_open(key):
            return False
        printed = parse_progress_output(line.data)
        if printed is None:
            return False
        self._progress[key] = printed
        return True

    def _add_progress(self, printed: str, output: Any, event: Event, ts: str | None) -> None:
        """Add what a command printed while it ran, unless its result holds that.

        A result is cut when it is long, and that of a command in the background is a mere receipt.
        """
        if isinstance(output, str) and printed.strip() in output:
            return
        data = {"kind": "progress_output", "output": printed}
        self._draft.add_annotation(data, parent=event, ts=ts)

    def finish(self) -> None:
        """Add what commands printed that have no result."""
        for key, printed in self._progress.items():
            data = {"kind": "progress_output", "native_call_id": key, "output": printed}
            self._draft.add_annotation(data, actor=self._client)

    def _find_call_without_id(self, line: Line, thread: Thread) -> str | None:
        """Return the key of the call that a result without an id answers: the oldest such call."""
        call_id = to_text(line.source_tool_use_id)
        if call_id and self._draft.is_call_open(call_id):
            return call_id
        return thread.calls_without_id.popleft() if thread.calls_without_id else None


def _parse_failure(output: Any, line: Line) -> Record:
    facts: Record = {"is_error": True}
    if isinstance(output, str) and output.startswith(_REJECTION):
        facts["rejected"] = True
    if line.tool_denial_kind is not None:
        facts["denial"] = to_safe_name(line.tool_denial_kind)
    return facts
