"""The messages of a Pi session by their roles, as draft verbs."""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.model.document import Event, Usage

Message = dict[str, Any]
_Telling = Callable[[Message, str | None, int], None]
_USUAL_ENDS = ("stop", "toolUse", None)


class Talk:
    """Tells messages."""

    def __init__(self, draft: Draft, client: str) -> None:
        self._draft = draft
        self._client = client
        self._person = ""
        self.providers = ProviderTracker()
        self._actors: dict[tuple[str | None, str | None], str] = {}
        self._prompt = ""
        self._tools: list[str] = []
        self._roles: dict[str, _Telling] = {
            "system": self.system,
            "user": self._user,
            "assistant": self._assistant,
            "toolResult": self._result,
            "bashExecution": self._command,
            "custom": self.custom,
            "hookMessage": self.custom,
            "branchSummary": self._branch_summary,
            "compactionSummary": self._compaction_summary,
        }

    def tell(self, message: Message, ts: str | None, number: int) -> None:
        """Tell one message."""
        role = message.get("role")
        tell = self._roles.get(role) if isinstance(role, str) else None
        if tell is None:
            self._draft.note_omission("unknown-role", f"line {number}", f"role {format_kind(role)}")
        else:
            tell(message, ts, number)

    def _asker(self) -> str:
        if not self._person:
            self._person = self._draft.get_actor("human", "user")
        return self._person

    def system(self, message: Message, ts: str | None, number: int) -> None:
        """What the model is told before all else, since 0.87: words, then named sections.

        A later one tells changes alone, and a compaction tells all of it again.
        """
        sections = message.get("sections")
        named = sections if isinstance(sections, dict) else {}
        texts = [
            _words(message.get("content")),
            *(text for text in named.values() if isinstance(text, str)),
        ]
        prompt = "\n\n".join(text for text in texts if text)
        if prompt and prompt == self._prompt:
            self._draft.note_omission(
                "repeated-prompt", f"line {number}", "a system prompt that was told already"
            )
        elif prompt:
            self._draft.add_message("system", prompt, self._client, ts=ts)
            self._prompt = prompt
        if removed := [name for name, text in named.items() if text is None]:
            self._draft.add_annotation(
                {"kind": "settings", "sections_removed": removed}, actor=self._client, ts=ts
            )
        self._offer(message, ts, number)

    def _offer(self, message: Message, ts: str | None, number: int) -> None:
        """The tools that the model can call from now on, or cannot any more."""
        names, removed = _names(message.get("toolsAdded")), _names(message.get("toolsRemoved"))
        if (names and names != self._tools) or removed:
            facts = {"names": names or None, "removed": removed or None}
            self._draft.add_annotation(
                {"kind": "tools", **pick_fields(facts, *facts)}, actor=self._client, ts=ts
            )
            note_tool_definitions(
                self._draft.note_omission, message.get("toolsAdded"), f"line {number}"
            )
        self._tools = names or self._tools

    def spent(self, entry: Message, ts: str | None) -> None:
        """Tokens that no answer of the talk took."""
        actor = self._speaker(as_text(entry.get("provider")), as_text(entry.get("model")))
        usage, cost = usage_of(entry.get("usage")), cost_of(entry.get("usage"))
        facts = {
            "purpose": as_text(entry.get("kind")),
            "text": as_text(entry.get("note")),
            "cost_usd": cost,
        }
        self._draft.add_annotation(
            {"kind": "usage", **pick_fields(facts, *facts)}, actor=actor, ts=ts, usage=usage
        )

    def _user(self, message: Message, ts: str | None, number: int) -> None:
        self._draft.add_message("user", parse_content(message.get("content")), self._asker(), ts=ts)

    def _assistant(self, message: Message, ts: str | None, number: int) -> None:
        actor = self._speaker(as_text(message.get("provider")), as_text(message.get("model")))
        spent, last = usage_of(message.get("usage")), None
        said = message.get("content")
        for block in said if isinstance(said, list) else [said] if said else []:
            last, spent = self._block(block, actor, ts, number, spent)
        if spent and last is not None:
            self._draft.set_usage(last, spent)
        elif spent:
            self._draft.add_annotation({"kind": "usage"}, actor=actor, ts=ts, usage=spent)
        self._end(message, actor, ts)

    def _speaker(self, provider: str | None, model: str | None) -> str:
        known = self._actors.get((provider, model))
        if known is None:
            named = self.providers.add_model(provider, model)
            known = self._draft.get_actor("model", "assistant", provider=named, model=model)
            self._actors[provider, model] = known
        return known

    def _block(
        self, block: Any, actor: str, ts: str | None, number: int, spent: Usage | None
    ) -> tuple[Event | None, Usage | None]:
        """Tell a block; gives a thought that may have to take the usage, and the usage when it is
        still untold."""
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            words = block.get("thinking")
            sealed = block.get("redacted") is True or not isinstance(words, str) or not words
            return self._draft.add_reasoning(None if sealed else words, actor, ts=ts), spent
        if kind == "toolCall":
            self._call(block, actor, ts, number, spent)
        elif kind == "text" and type(words := block.get("text")) is str and words:
            self._draft.add_message("assistant", words, actor, ts=ts, usage=spent)
        elif said := parse_content([block] if isinstance(block, dict | str) else None):
            self._draft.add_message("assistant", said, actor, ts=ts, usage=spent)
        else:
            return None, spent
        return None, None

    def _call(
        self, block: dict[str, Any], actor: str, ts: str | None, number: int, spent: Usage | None
    ) -> None:
        arguments = block.get("arguments")
        # A call that broke off has its arguments as far as they came, also as the text they came
        # in.
        partial = as_text(block.get("partialJson"))
        self._draft.add_tool_call(
            as_text(block.get("id")),
            as_text(block.get("name")) or "tool",
            {} if arguments is None else arguments,
            actor,
            ts=ts,
            usage=spent,
            group=number,
            extra={"partial_arguments": partial} if partial else None,
        )

    def _end(self, message: Message, actor: str, ts: str | None) -> None:
        """What is known of an answer beside its words."""
        reason, problem = message.get("stopReason"), as_text(message.get("errorMessage"))
        facts = {"message": problem} if problem else {}
        if reason == "aborted":
            self._draft.add_annotation({"kind": "aborted", **facts}, actor=actor, ts=ts)
        elif reason == "error" or problem:
            self._draft.add_annotation({"kind": "api_error", **facts}, actor=actor, ts=ts)
        elif reason not in _USUAL_ENDS:
            self._draft.add_annotation({"kind": "stop", "reason": reason}, actor=actor, ts=ts)
        if total := cost_of(message.get("usage")):
            self._draft.add_annotation({"kind": "cost", "cost_usd": total}, actor=actor, ts=ts)

    def _result(self, message: Message, ts: str | None, number: int) -> None:
        facts = {"is_error": True} if message.get("isError") is True else None
        output, tool = parse_content(message.get("content")), as_text(message.get("toolName"))
        self._draft.add_tool_result(
            as_text(message.get("toolCallId")), output, ts=ts, tool=tool, facts=facts
        )
        if message.get("details"):
            self._draft.note_omission(
                "side-data",
                f"line {number}",
                "the details of a result, which the model did not see",
            )

    def _command(self, message: Message, ts: str | None, number: int) -> None:
        """A command that the person ran with `!`; the model was told of it afterwards, or with `!!`
        not at all."""
        facts = {
            "exit_code": message.get("exitCode"),
            "cancelled": message.get("cancelled") or None,
            "truncated": message.get("truncated") or None,
            "full_output_path": as_text(message.get("fullOutputPath")),
            "hidden_from_model": message.get("excludeFromContext") or None,
        }
        add_user_command(
            self._draft, as_text(message.get("command")) or "", self._asker(), facts, ts=ts
        )
        add_command_output(self._draft, parse_content(message.get("output")), self._client, ts=ts)

    def custom(self, message: Message, ts: str | None, number: int) -> None:
        """What an extension put into the talk."""
        words = parse_content(message.get("content"))
        said = self._draft.add_message("user", words, self._client, ts=ts, visibility="internal")
        facts = {"extension": as_text(message.get("customType")), "display": message.get("display")}
        self._draft.add_annotation(
            {"kind": "message_facts", **pick_fields(facts, *facts)}, parent=said, ts=ts
        )
        if message.get("details"):
            self._draft.note_omission(
                "side-data", f"line {number}", "the details of a message of an extension"
            )

    def _branch_summary(self, message: Message, ts: str | None, number: int) -> None:
        facts = {"from_entry": message.get("fromId")}
        self.summary(
            message.get("summary"), {"kind": "branch_summary", **pick_fields(facts, *facts)}, ts
        )

    def _compaction_summary(self, message: Message, ts: str | None, number: int) -> None:
        facts = {"tokens_before": message.get("tokensBefore")}
        self.summary(
            message.get("summary"), {"kind": "compaction", **pick_fields(facts, *facts)}, ts
        )

    def summary(self, words: Any, about: dict[str, Any], ts: str | None, spent: Any = None) -> None:
        """What the model goes on with in place of what was left, what is known of that, and what
        making it took."""
        said = self._draft.add_message(
            "user", parse_content(words), self._client, ts=ts, visibility="internal"
        )
        if total := cost_of(spent):
            about = {**about, "cost_usd": total}
        self._draft.add_annotation(about, parent=said, ts=ts, usage=usage_of(spent))


def _words(value: Any) -> str:
    """A text, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    texts = (
        [as_text(block.get("text")) for block in value if isinstance(block, dict)]
        if isinstance(value, list)
        else []
    )
    return "\n".join(text for text in texts if text)


def _names(tools: Any) -> list[str]:
    found = (
        [as_text(tool.get("name")) for tool in tools if isinstance(tool, dict)]
        if isinstance(tools, list)
        else []
    )
    return [name for name in found if name]


def cost_of(usage: Any) -> float | None:
    """What it cost in all, where that is known and not nothing."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    total = cost.get("total") if isinstance(cost, dict) else None
    return total if type(total) in (int, float) and total else None


def usage_of(usage: Any) -> Usage | None:
    """Pi's figures in the export's terms: its input leaves cached tokens out; an answer that never
    came has zeros."""
    if not isinstance(usage, dict):
        return None
    names = ("input", "output", "cacheRead", "cacheWrite", "reasoning")
    fresh, output, read, written, reasoning = (_count(usage.get(name)) for name in names)
    if not (fresh or output or read or written):
        return None
    return build_usage(
        input_tokens=(fresh or 0) + (read or 0) + (written or 0),
        output_tokens=output,
        reasoning_tokens=reasoning,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
