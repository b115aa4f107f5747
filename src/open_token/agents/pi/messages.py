"""Read the messages of a Pi session by their roles."""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.model.document import Event, Usage

Message = dict[str, Any]
Handler = Callable[[Message, str | None, int], None]
_USUAL_STOPS = ("stop", "toolUse", None)


class MessageReader:
    """Adds the events of messages to the draft."""

    def __init__(self, draft: Draft, client: str) -> None:
        self._draft = draft
        self._client = client
        self._person = ""
        self.providers = ProviderTracker()
        self._actors: dict[tuple[str | None, str | None], str] = {}
        """The actors of models by provider and model."""
        self._system_prompt = ""
        self._tools: list[str] = []
        self._handlers: dict[str, Handler] = {
            "system": self.read_system,
            "user": self._read_user,
            "assistant": self._read_assistant,
            "toolResult": self._read_result,
            "bashExecution": self._read_command,
            "custom": self.read_custom,
            # The older name of messages that extensions inject.
            "hookMessage": self.read_custom,
            "branchSummary": self._read_branch_summary,
            "compactionSummary": self._read_compaction_summary,
        }

    def read_message(self, message: Message, ts: str | None, number: int) -> None:
        """Read one message, from the line with this number."""
        role = message.get("role")
        handler = self._handlers.get(role) if isinstance(role, str) else None
        if handler is None:
            self._draft.note_omission("unknown-role", f"line {number}", f"role {format_kind(role)}")
        else:
            handler(message, ts, number)

    def _get_person(self) -> str:
        if not self._person:
            self._person = self._draft.get_actor("human", "user")
        return self._person

    def _get_model_actor(self, provider: str | None, model: str | None) -> str:
        actor = self._actors.get((provider, model))
        if actor is None:
            known_provider = self.providers.add_model(provider, model)
            actor = self._draft.get_actor(
                "model", "assistant", provider=known_provider, model=model
            )
            self._actors[provider, model] = actor
        return actor

    def read_system(self, message: Message, ts: str | None, number: int) -> None:
        """Read a system message (since 0.87): text, then named sections.

        A later one holds only changes, and a compaction repeats all of it.
        """
        sections = message.get("sections")
        if not isinstance(sections, dict):
            sections = {}
        texts = [_join_texts(message.get("content"))]
        texts += [text for text in sections.values() if isinstance(text, str)]
        prompt = "\n\n".join(text for text in texts if text)
        if prompt and prompt == self._system_prompt:
            self._draft.note_omission("repeated-prompt", f"line {number}", "repeated system prompt")
        elif prompt:
            self._draft.add_message("system", prompt, self._client, ts=ts)
            self._system_prompt = prompt
        removed = [name for name, text in sections.items() if text is None]
        if removed:
            data = {"kind": "settings", "sections_removed": removed}
            self._draft.add_annotation(data, actor=self._client, ts=ts)
        self._read_tools(message, ts, number)

    def _read_tools(self, message: Message, ts: str | None, number: int) -> None:
        """Read the tools that the model is offered from now on, or no longer."""
        added = _get_names(message.get("toolsAdded"))
        removed = _get_names(message.get("toolsRemoved"))
        if (added and added != self._tools) or removed:
            facts = {"names": added or None, "removed": removed or None}
            self._draft.add_annotation(
                {"kind": "tools", **drop_nulls(facts)}, actor=self._client, ts=ts
            )
            note_tool_definitions(
                self._draft.note_omission, message.get("toolsAdded"), f"line {number}"
            )
        self._tools = added or self._tools

    def add_usage(self, entry: Message, ts: str | None) -> None:
        """Add the usage of a request that is no answer of the conversation."""
        actor = self._get_model_actor(as_text(entry.get("provider")), as_text(entry.get("model")))
        facts = {
            "purpose": as_text(entry.get("kind")),
            "text": as_text(entry.get("note")),
            "cost_usd": parse_cost(entry.get("usage")),
        }
        self._draft.add_annotation(
            {"kind": "usage", **drop_nulls(facts)},
            actor=actor,
            ts=ts,
            usage=parse_usage(entry.get("usage")),
        )

    def _read_user(self, message: Message, ts: str | None, number: int) -> None:
        self._draft.add_message(
            "user", parse_content(message.get("content")), self._get_person(), ts=ts
        )

    def _read_assistant(self, message: Message, ts: str | None, number: int) -> None:
        actor = self._get_model_actor(
            as_text(message.get("provider")), as_text(message.get("model"))
        )
        usage = parse_usage(message.get("usage"))
        blocks = message.get("content")
        # After an abort an answer has empty content, and usage that must be counted nevertheless.
        if not isinstance(blocks, list):
            blocks = [blocks] if blocks else []
        # Reasoning carries the usage only if it comes last, with nothing but reasoning before it.
        reasoning = None
        for block in blocks:
            reasoning = None
            if isinstance(block, dict) and block.get("type") == "thinking":
                reasoning = self._add_reasoning(block, actor, ts)
            elif self._add_block(block, actor, ts, number, usage):
                usage = None
        if usage and reasoning is not None:
            self._draft.set_usage(reasoning, usage)
        elif usage:
            self._draft.add_annotation({"kind": "usage"}, actor=actor, ts=ts, usage=usage)
        self._annotate_stop(message, actor, ts)

    def _add_reasoning(self, block: Message, actor: str, ts: str | None) -> Event:
        text = as_text(block.get("thinking"))
        # The text of redacted reasoning is a placeholder of the client.
        if block.get("redacted") is True:
            text = None
        return self._draft.add_reasoning(text, actor, ts=ts)

    def _add_block(
        self, block: Any, actor: str, ts: str | None, number: int, usage: Usage | None
    ) -> bool:
        """Add a call or a message with the usage; return whether there was anything to add."""
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "toolCall":
            self._add_call(block, actor, ts, number, usage)
            return True
        # The usual case, without the conversion of other blocks.
        text = as_text(block.get("text")) if kind == "text" else None
        if text:
            self._draft.add_message("assistant", text, actor, ts=ts, usage=usage)
            return True
        converted = parse_content([block] if isinstance(block, dict | str) else None)
        if converted:
            self._draft.add_message("assistant", converted, actor, ts=ts, usage=usage)
            return True
        return False

    def _add_call(
        self, block: Message, actor: str, ts: str | None, number: int, usage: Usage | None
    ) -> None:
        arguments = block.get("arguments")
        # A call that broke off also has its arguments as incomplete JSON.
        partial = as_text(block.get("partialJson"))
        self._draft.add_tool_call(
            as_text(block.get("id")),
            as_text(block.get("name")) or "tool",
            {} if arguments is None else arguments,
            actor,
            ts=ts,
            usage=usage,
            group=number,
            extra={"partial_arguments": partial} if partial else None,
        )

    def _annotate_stop(self, message: Message, actor: str, ts: str | None) -> None:
        """Annotate an abort, an error or another unusual stop, and the cost of an answer."""
        reason = message.get("stopReason")
        # An error counts as one, whatever the stop reason says.
        error = as_text(message.get("errorMessage"))
        facts = {"message": error} if error else {}
        if reason == "aborted":
            self._draft.add_annotation({"kind": "aborted", **facts}, actor=actor, ts=ts)
        elif reason == "error" or error:
            self._draft.add_annotation({"kind": "api_error", **facts}, actor=actor, ts=ts)
        elif reason not in _USUAL_STOPS:
            self._draft.add_annotation({"kind": "stop", "reason": reason}, actor=actor, ts=ts)
        cost = parse_cost(message.get("usage"))
        if cost:
            self._draft.add_annotation({"kind": "cost", "cost_usd": cost}, actor=actor, ts=ts)

    def _read_result(self, message: Message, ts: str | None, number: int) -> None:
        self._draft.add_tool_result(
            as_text(message.get("toolCallId")),
            parse_content(message.get("content")),
            ts=ts,
            tool=as_text(message.get("toolName")),
            facts={"is_error": True} if message.get("isError") is True else None,
        )
        if message.get("details"):
            self._draft.note_omission(
                "side-data",
                f"line {number}",
                "details of a result, which the model did not see",
            )

    def _read_command(self, message: Message, ts: str | None, number: int) -> None:
        """Read a command that the person ran with `!`, or with `!!`, hidden from the model."""
        facts = {
            "exit_code": message.get("exitCode"),
            "cancelled": message.get("cancelled") or None,
            "truncated": message.get("truncated") or None,
            "full_output_path": as_text(message.get("fullOutputPath")),
            "hidden_from_model": message.get("excludeFromContext") or None,
        }
        command = as_text(message.get("command")) or ""
        add_user_command(self._draft, command, self._get_person(), facts, ts=ts)
        add_command_output(self._draft, parse_content(message.get("output")), self._client, ts=ts)

    def read_custom(self, message: Message, ts: str | None, number: int) -> None:
        """Read a message that an extension injected."""
        event = self._add_internal(message.get("content"), ts)
        facts = {"extension": as_text(message.get("customType")), "display": message.get("display")}
        self._draft.add_annotation(
            {"kind": "message_facts", **drop_nulls(facts)}, parent=event, ts=ts
        )
        if message.get("details"):
            self._draft.note_omission(
                "side-data", f"line {number}", "details of a message of an extension"
            )

    def _read_branch_summary(self, message: Message, ts: str | None, number: int) -> None:
        facts = {"from_entry": message.get("fromId")}
        data = {"kind": "branch_summary", **drop_nulls(facts)}
        self.add_summary(message.get("summary"), data, ts)

    def _read_compaction_summary(self, message: Message, ts: str | None, number: int) -> None:
        facts = {"tokens_before": message.get("tokensBefore")}
        data = {"kind": "compaction", **drop_nulls(facts)}
        self.add_summary(message.get("summary"), data, ts)

    def add_summary(
        self, summary: Any, data: dict[str, Any], ts: str | None, usage: Any = None
    ) -> None:
        """Add a summary that replaces earlier messages, with the usage of making it."""
        event = self._add_internal(summary, ts)
        cost = parse_cost(usage)
        if cost:
            data = {**data, "cost_usd": cost}
        self._draft.add_annotation(data, parent=event, ts=ts, usage=parse_usage(usage))

    def _add_internal(self, value: Any, ts: str | None) -> Event:
        return self._draft.add_message(
            "user", parse_content(value), self._client, ts=ts, visibility="internal"
        )


def _join_texts(value: Any) -> str:
    """Return a text, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = [as_text(block.get("text")) for block in value if isinstance(block, dict)]
    return "\n".join(text for text in texts if text)


def _get_names(tools: Any) -> list[str]:
    if not isinstance(tools, list):
        return []
    names = [as_text(tool.get("name")) for tool in tools if isinstance(tool, dict)]
    return [name for name in names if name]


def parse_cost(usage: Any) -> float | None:
    """Return the total cost, if it is known and not zero."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    total = cost.get("total") if isinstance(cost, dict) else None
    return total if type(total) in (int, float) and total else None


def parse_usage(usage: Any) -> Usage | None:
    """Return token counts.

    Pi's input excludes cached tokens; an answer that never came has zeros.
    """
    if not isinstance(usage, dict):
        return None
    fresh = _to_count(usage.get("input"))
    output = _to_count(usage.get("output"))
    read = _to_count(usage.get("cacheRead"))
    written = _to_count(usage.get("cacheWrite"))
    if not (fresh or output or read or written):
        return None
    return build_usage(
        input_tokens=(fresh or 0) + (read or 0) + (written or 0),
        output_tokens=output,
        reasoning_tokens=_to_count(usage.get("reasoning")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _to_count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
