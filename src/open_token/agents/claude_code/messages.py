"""What people, models and tools said in a Claude Code session: user and assistant records as draft
verbs."""

from typing import Any

from open_token.agents.claude_code.records import (
    Line,
    Message,
    Record,
    name_of,
    side_facts,
    text,
    text_in,
)
from open_token.agents.claude_code.subagents import Subagents
from open_token.agents.claude_code.thread import Account, Thread
from open_token.agents.claude_code.user_text import pieces
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    add_block,
    get_plain_text,
    parse_content,
    parse_output,
)

_USUAL_STOPS = (None, "tool_use", "end_turn", "stop_sequence")
_REJECTED = "The user doesn't want to "
_SPAWNING = ("Task", "Agent")


class Talk:
    """Tells user and assistant records."""

    def __init__(self, draft: Draft, client: str, subagents: Subagents) -> None:
        self._draft = draft
        self._client = client
        self._subagents = subagents

    def assistant(self, line: Line, thread: Thread, ts: str | None) -> None:
        """A line of what a model said: as a rule one block of a message."""
        message = line.message
        if message is None:
            return
        model, content = message.model or line.model, message.content
        if model == "<synthetic>" or line.is_api_error_message is True:
            self._client_says(line, content, thread, ts)
            return
        if model != thread.model or not thread.speaker:
            thread.speak(model)
        account = thread.account(message)
        for block in content if type(content) is list else [] if content is None else [content]:
            self._block(block, message.id, line, thread, account, ts)
        if type(message.id) is not str:
            account.close(self._draft)
        if (
            message.stop_reason not in _USUAL_STOPS
            or line.cost_usd
            or line.is_aborted_mid_stream is True
        ):
            self._beside(line, message, account, thread, ts)

    def _block(
        self,
        block: Any,
        message_id: object,
        line: Line,
        thread: Thread,
        account: Account,
        ts: str | None,
    ) -> None:
        draft, place = self._draft, self._draft.count
        usage = account.usage if account.place < 0 else None
        kind = block.get("type") if type(block) is dict else None
        if kind == "tool_use":
            name, native = block.get("name"), block.get("id")
            given = block.get("input")
            key = draft.add_tool_call(
                native if type(native) is str else None,
                name if type(name) is str and name else "tool",
                {} if given is None else given,
                thread.speaker,
                ts=ts,
                span=thread.span,
                usage=usage,
                group=message_id,
            )
            if name in _SPAWNING:
                self._subagents.called(key, given, thread.speaker, line.uuid)
            if key[0] == "\0":
                thread.nameless.append(key)
        elif type(kind) is str and kind in THINKING_TYPES:
            event = draft.add_reasoning(
                text_in(block, "thinking"), thread.speaker, ts=ts, span=thread.span
            )
            account.thought = account.thought or event
            return
        elif kind == "text" and (words := get_plain_text(block)):
            draft.add_message(
                "assistant",
                words,
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
            if type(kind) is str and kind.endswith("tool_result"):
                return
        if account.place < 0 and draft.count > place:
            account.place = place

    def _beside(
        self, line: Line, message: Message, account: Account, thread: Thread, ts: str | None
    ) -> None:
        """What is known of an answer beside its words."""
        if (
            type(message.stop_reason) is str
            and message.stop_reason not in _USUAL_STOPS
            and not account.stopped
        ):
            account.stopped = True
            data: Record = {"kind": "stop", "reason": message.stop_reason}
            self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)
        if line.is_aborted_mid_stream is True:
            self._draft.add_annotation(
                {"kind": "aborted"}, actor=self._client, ts=ts, span=thread.span
            )
        if type(line.cost_usd) in (int, float) and line.cost_usd:
            data = {"kind": "cost", "cost_usd": line.cost_usd}
            if type(line.duration_ms) in (int, float):
                data["duration_ms"] = line.duration_ms
            self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)

    def _client_says(self, line: Line, content: Any, thread: Thread, ts: str | None) -> None:
        """A line in the model's place that Claude Code made up: an error of the API, a notice."""
        data: Record = {
            "kind": "api_error" if line.is_api_error_message is True else "client_message"
        }
        data["text"] = parse_content(content) if content is not None else ""
        if text(line.error):
            data["error"] = line.error
        self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)

    def user(self, line: Line, thread: Thread, ts: str | None) -> bool:
        """A line in the user's place; tells whether it is what a person typed."""
        content = line.message.content if line.message is not None else None
        if content is None:
            return False
        if line.is_compact_summary is True:
            self._summary(parse_content(content), thread, ts)
            return False
        if type(content) is not list:
            return self.say([content], line, thread, ts)
        said: list[Any] = []
        for block in content:
            if type(block) is dict and block.get("type") == "tool_result":
                if said:
                    self.say(said, line, thread, ts)
                    said = []
                self._result(block, line, thread, ts, len(content) == 1)
            else:
                said.append(block)
        return bool(said) and self.say(said, line, thread, ts) and len(said) == len(content)

    def say(self, blocks: list[Any], line: Line, thread: Thread, ts: str | None) -> bool:
        """Texts and images in the user's place, with what was typed kept apart from what was put
        in."""
        sender = text_in(line.origin, "from") if line.origin is not None else None
        if sender or line.is_meta is True:
            actor = self._draft.get_actor("model", sender) if sender else self._client
            content = parse_content(blocks)
            self._draft.add_message(
                "user", content, actor, ts=ts, visibility="internal", span=thread.span
            )
            return False
        typed: list[Any] = []
        said = False
        for block in blocks:
            words = block if isinstance(block, str) else get_plain_text(block)
            if words is None:
                typed.append(block)
                continue
            for origin, part in pieces(words):
                if origin == "typed":
                    typed.append({"type": "text", "text": part})
                    continue
                said |= self._typed(typed, thread, ts)
                typed = []
                self._put_in(origin, part, thread, ts)
        return self._typed(typed, thread, ts) or said

    def _typed(self, blocks: list[Any], thread: Thread, ts: str | None) -> bool:
        if blocks:
            content = parse_content(blocks)
            self._draft.add_message(
                "user",
                content,
                thread.asker(),
                ts=ts,
                visibility=thread.visibility,
                span=thread.span,
            )
        return bool(blocks)

    def _put_in(self, origin: str, words: str, thread: Thread, ts: str | None) -> None:
        if origin == "summary":
            self._summary(words, thread, ts)
            return
        actor = thread.asker() if origin == "command" else self._client
        event = self._draft.add_message(
            "user", words, actor, ts=ts, visibility="internal", span=thread.span
        )
        if origin == "interrupted":
            self._draft.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)

    def _summary(self, content: str | list[Any], thread: Thread, ts: str | None) -> None:
        event = self._draft.add_message(
            "user", content, self._client, ts=ts, visibility="internal", span=thread.span
        )
        self._draft.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _result(
        self, block: Record, line: Line, thread: Thread, ts: str | None, alone: bool
    ) -> None:
        native, output = block.get("tool_use_id"), block.get("content")
        if type(output) is not str:
            output = parse_output(output)
        facts = _failure(output, line) if block.get("is_error") is True else None
        if type(native) is not str or not native:
            native = self._call_without_id(line, thread)
        if (
            native in self._subagents.spawns
            or native is None
            or not self._draft.is_call_open(native)
        ):
            if (
                alone
                and line.tool_use_result is not None
                and (side := side_facts(line.tool_use_result))
            ):
                facts = {**(facts or {}), **side}
            self._subagents.answered(native, facts, thread, line.uuid)
        self._draft.add_tool_result(native, output, ts=ts, span=thread.span, facts=facts)

    def _call_without_id(self, line: Line, thread: Thread) -> str | None:
        """The key of the call that a result without an id answers: the oldest call without one."""
        named = text(line.source_tool_use_id)
        if named and self._draft.is_call_open(named):
            return named
        return thread.nameless.popleft() if thread.nameless else None


def _failure(output: Any, line: Line) -> Record:
    facts: Record = {"is_error": True}
    if isinstance(output, str) and output.startswith(_REJECTED):
        facts["rejected"] = True
    if line.tool_denial_kind is not None:
        facts["denial"] = name_of(line.tool_denial_kind)
    return facts
