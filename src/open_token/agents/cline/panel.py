"""A task of Cline of which only the panel's items are left: what was typed and shown."""

from typing import Any

from open_token.agents.cline.ui_messages import aside_of, kind_of
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import from_epoch

Item = dict[str, Any]
_TYPED = ("task", "user_feedback")
_SAID = ("text", "completion_result", "followup", "plan_mode_respond", "act_mode_respond")
_QUIET = (
    "api_req_finished",
    "checkpoint_created",
    "task_progress",
    "resume_task",
    "resume_completed_task",
)


class Panel:
    """Tells the items. A tool's item shows what was asked for; what came of it is not in this
    file."""

    def __init__(self, draft: Draft, client: str) -> None:
        self._draft = draft
        self._client = client
        self._command: str | None = None
        self._printed: list[str] = []
        self._last = ""
        self._model: Item = {}
        self._providers = ProviderTracker()

    def tell(self, items: list[Any]) -> None:
        """Tell everything."""
        for number, item in enumerate(items):
            if not isinstance(item, dict):
                self._draft.note_omission(
                    "skipped-record", f"item {number}", "an item that is no object"
                )
                continue
            about = item.get("modelInfo")
            self._model = about if isinstance(about, dict) else self._model
            self._item(item, kind_of(item), number)
        self._flush(None)
        self._providers.set_provider(self._draft.conversation)

    def _item(self, item: Item, kind: str, number: int) -> None:
        ts, text = from_epoch(item.get("ts"), 0.001), as_text(item.get("text")) or ""
        if kind == "command_output":
            self._printed.append(text)
            return
        self._flush(ts)
        if kind in _TYPED or (kind == "text" and number == 0):
            self._draft.add_message("user", text, self._draft.get_actor("human", "user"), ts=ts)
        elif kind in _SAID:
            self._say(kind, text, ts)
        elif kind == "reasoning":
            self._draft.add_reasoning(text or None, self._actor(), ts=ts)
        elif kind == "command":
            self._command = self._draft.add_tool_call(
                None, "execute_command", {"command": text}, self._actor(), ts=ts
            )
        elif kind in ("tool", "use_mcp_server", "browser_action", "browser_action_launch"):
            self._tool(kind, text, ts)
        elif kind == "api_req_started":
            self._request(text, ts)
        elif kind in _QUIET or not text:
            self._draft.note_omission("panel-only", f"item {number}", f"item {kind}")
        else:
            self._draft.add_annotation(aside_of(kind, text), actor=self._client, ts=ts)

    def _actor(self) -> str:
        model, named = as_text(self._model.get("modelId")), as_text(self._model.get("providerId"))
        return self._draft.get_actor(
            "model", "assistant", provider=self._providers.add_model(named, model), model=model
        )

    def _say(self, kind: str, text: str, ts: str | None) -> None:
        """What the model said; a question to answer is JSON, and an end is shown once as said and
        once as asked."""
        shown = parse_arguments(text)
        words = text
        if kind != "text" and isinstance(shown, dict):
            words = as_text(shown.get("question")) or as_text(shown.get("response")) or text
        if words and words != self._last:
            self._draft.add_message("assistant", words, self._actor(), ts=ts)
        self._last = words

    def _tool(self, kind: str, text: str, ts: str | None) -> None:
        shown = parse_arguments(text)
        name = (
            as_text(shown.get("tool")) or as_text(shown.get("toolName"))
            if isinstance(shown, dict)
            else None
        )
        self._draft.add_tool_call(None, name or kind, shown, self._actor(), ts=ts)

    def _flush(self, ts: str | None) -> None:
        """What a command printed, which is shown piece by piece."""
        if not self._printed:
            return
        output = "\n".join(piece for piece in self._printed if piece)
        self._draft.add_tool_result(self._command, output, ts=ts, tool="execute_command")
        self._command, self._printed = None, []

    def _request(self, text: str, ts: str | None) -> None:
        """A request: its figures; its words are those shown around it."""
        about = parse_arguments(text)
        if not isinstance(about, dict):
            return
        fresh, read, written = (
            about.get(name) for name in ("tokensIn", "cacheReads", "cacheWrites")
        )
        parts = [part for part in (fresh, read, written) if type(part) is int and part >= 0]
        usage = build_usage(
            input_tokens=sum(parts) if parts else None,
            output_tokens=about.get("tokensOut"),
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
        facts = {"cost_usd": about.get("cost"), "cancel_reason": as_text(about.get("cancelReason"))}
        if usage:
            data = {"kind": "request_usage", **pick_fields(facts, *facts)}
            self._draft.add_annotation(data, actor=self._client, ts=ts, usage=usage)
