"""The items that Cline's panel showed: joined with the API messages of a task, or alone."""

from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls, parse_arguments
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage

Item = dict[str, Any]
_PROMPT_KINDS = ("task", "user_feedback")
_RESPONSE_KINDS = ("text", "completion_result", "followup", "plan_mode_respond", "act_mode_respond")
_TOOL_KINDS = ("tool", "use_mcp_server", "browser_action", "browser_action_launch")
_STATE_KINDS = (
    "api_req_finished",
    "checkpoint_created",
    "task_progress",
    "resume_task",
    "resume_completed_task",
)
_ERROR_KINDS = (
    "error",
    "error_retry",
    "diff_error",
    "clineignore_error",
    "rooignore_error",
    "command_permission_denied",
    "api_req_failed",
    "mistake_limit_reached",
)
_NOTICE_KINDS = ("info", "mcp_notification", "shell_integration_warning")
_API_KINDS = frozenset(
    (
        "text",
        "reasoning",
        "tool",
        "command",
        "command_output",
        "completion_result",
        "followup",
        "plan_mode_respond",
        "act_mode_respond",
        "use_mcp_server",
        "mcp_server_request_started",
        "mcp_server_response",
        "browser_action",
        "browser_action_launch",
        "browser_action_result",
        "api_req_finished",
        "api_req_retried",
        "new_task",
        "condense",
        "summarize_task",
        "task_progress",
        "resume_task",
        "resume_completed_task",
        "user_feedback_diff",
        "use_subagents",
        "subagent",
        "condense_context",
        "subtask_result",
    )
)
"""Items that repeat what is in the API messages."""


_OUTPUT_KINDS = frozenset(("reasoning", *_RESPONSE_KINDS, *_TOOL_KINDS, "command"))
"""Items that show what the model wrote."""


class BrokenRequest(NamedTuple):
    """A request whose response broke off, with what the panel showed of it."""

    response: int
    """The index that the response has among the API messages, if it was stored at all."""
    facts: Item
    ts: str | None
    items: list[Item]


class PanelIndex:
    """The items of the panel by the API message that was being written when they were shown.

    The conversationHistoryIndex of an item is that of the last message at that time, so the item
    belongs to the message after it.
    """

    def __init__(self, items: list[Any], roles: list[Any]) -> None:
        self._roles = roles
        self._item_times: dict[int, str] = {}
        self._request_times: dict[int, str] = {}
        self.requests: dict[int, Item] = {}
        """The facts of the request that led to a response, by the index of the response."""
        self.notices: dict[int, list[tuple[dict[str, Any], str | None]]] = {}
        """The data and times of errors and notices, by the message that they precede."""
        self.typed: set[str] = set()
        """Texts that the user typed."""
        self.other_kinds: dict[str, int] = {}
        """How many items there are of each kind that is not exported."""
        self.broken_requests: dict[int, list[BrokenRequest]] = {}
        """Requests that broke off, by the index of the message before which they belong."""
        self._shown_items: list[Item] | None = None
        """What the panel shows of the response to a request that broke off."""
        for position, item in enumerate(items):
            if isinstance(item, dict):
                self._add_item(item, position)

    def get_time(self, index: int) -> str | None:
        """Return when a message was typed, began to be shown, or was requested."""
        return self._item_times.get(index) or self._request_times.get(index)

    def _add_item(self, item: Item, position: int) -> None:
        kind = get_kind(item)
        text = as_text(item.get("text"))
        index = item.get("conversationHistoryIndex")
        if type(index) is not int:
            index = None
        ts = from_epoch(item.get("ts"), 0.001)
        # The first item repeats the task.
        is_prompt = kind in _PROMPT_KINDS or (kind == "text" and position == 0)
        if is_prompt:
            self.typed.add((text or "").strip())
        elif self._shown_items is not None and kind in _OUTPUT_KINDS:
            self._shown_items.append(item)
        if kind in _ERROR_KINDS or kind in _NOTICE_KINDS:
            # Items without an index come after all messages.
            following = len(self._roles) if index is None else index + 1
            self.notices.setdefault(following, []).append((build_notice(kind, text), ts))
        elif kind == "api_req_started":
            self._add_request(text, index, ts)
        elif kind not in _API_KINDS and kind not in _PROMPT_KINDS:
            self.other_kinds[kind] = self.other_kinds.get(kind, 0) + 1
        if ts is None or index is None:
            return
        role = self._roles[index + 1] if 0 <= index + 1 < len(self._roles) else None
        if (role == "assistant" and kind in _API_KINDS) or (role == "user" and is_prompt):
            self._item_times.setdefault(index + 1, ts)

    def _add_request(self, text: str | None, index: int | None, ts: str | None) -> None:
        self._shown_items = None
        request = parse_arguments(text)
        if not isinstance(request, dict):
            return
        # The request is the next message, the response the one after it.
        response = len(self._roles) if index is None else index + 2
        has_failed = bool(request.get("cancelReason") or request.get("streamingFailedMessage"))
        is_stored = response < len(self._roles) and self._roles[response] == "assistant"
        # Older versions write no index: only a failure is recognized there.
        if has_failed or (index is not None and not is_stored):
            broken = BrokenRequest(response, request, ts, [])
            self._shown_items = broken.items
            self.broken_requests.setdefault(response, []).append(broken)
        if index is None:
            return
        if ts:
            self._request_times[index + 1] = ts
        self.requests[response] = request


class PanelReader:
    """Reads a task of which only the items of the panel exist.

    The item of a tool shows its arguments; its result is not in this file.
    """

    def __init__(self, draft: Draft, client: str) -> None:
        self._draft = draft
        self._client = client
        self._command: str | None = None
        self._output: list[str] = []
        self._last_text = ""
        self._model: Item = {}
        self._providers = ProviderTracker()

    def read(self, items: list[Any]) -> None:
        """Read all items."""
        for number, item in enumerate(items):
            if not isinstance(item, dict):
                self._draft.note_omission(
                    "skipped-record", f"item {number}", "item that is not an object"
                )
                continue
            model = item.get("modelInfo")
            if isinstance(model, dict):
                self._model = model
            self._read_item(item, number)
        self._flush_output(None)
        self._providers.set_provider(self._draft.conversation)

    def _read_item(self, item: Item, number: int) -> None:
        kind = get_kind(item)
        ts = from_epoch(item.get("ts"), 0.001)
        text = as_text(item.get("text")) or ""
        if kind == "command_output":
            # The panel shows the output of a command in many items.
            self._output.append(text)
            return
        self._flush_output(ts)
        if kind in _PROMPT_KINDS or (kind == "text" and number == 0):
            self._draft.add_message("user", text, self._draft.get_actor("human", "user"), ts=ts)
        elif kind in _RESPONSE_KINDS:
            self._read_response(kind, text, ts)
        elif kind == "reasoning":
            self._draft.add_reasoning(text or None, self._get_model_actor(), ts=ts)
        elif kind == "command":
            self._command = self._draft.add_tool_call(
                None, "execute_command", {"command": text}, self._get_model_actor(), ts=ts
            )
        elif kind in _TOOL_KINDS:
            self._read_tool_call(kind, text, ts)
        elif kind == "api_req_started":
            self._read_request(text, ts)
        elif kind in _STATE_KINDS or not text:
            self._draft.note_omission("panel-only", f"item {number}", f"item {kind}")
        else:
            self._draft.add_annotation(build_notice(kind, text), actor=self._client, ts=ts)

    def _get_model_actor(self) -> str:
        model = as_text(self._model.get("modelId"))
        provider = self._providers.add_model(as_text(self._model.get("providerId")), model)
        return self._draft.get_actor("model", "assistant", provider=provider, model=model)

    def _read_response(self, kind: str, text: str, ts: str | None) -> None:
        # A question is JSON. The end of a task is shown twice, as text and as a question.
        if kind != "text":
            shown = parse_arguments(text)
            if isinstance(shown, dict):
                text = as_text(shown.get("question")) or as_text(shown.get("response")) or text
        if text and text != self._last_text:
            self._draft.add_message("assistant", text, self._get_model_actor(), ts=ts)
        self._last_text = text

    def _read_tool_call(self, kind: str, text: str, ts: str | None) -> None:
        shown = parse_arguments(text)
        tool = kind
        if isinstance(shown, dict):
            tool = as_text(shown.get("tool")) or as_text(shown.get("toolName")) or kind
        self._draft.add_tool_call(None, tool, shown, self._get_model_actor(), ts=ts)

    def _flush_output(self, ts: str | None) -> None:
        if not self._output:
            return
        output = "\n".join(text for text in self._output if text)
        self._draft.add_tool_result(self._command, output, ts=ts, tool="execute_command")
        self._command = None
        self._output = []

    def _read_request(self, text: str, ts: str | None) -> None:
        request = parse_arguments(text)
        if not isinstance(request, dict):
            return
        usage = parse_request_usage(request)
        if usage:
            facts = {
                "cost_usd": request.get("cost"),
                "cancel_reason": as_text(request.get("cancelReason")),
            }
            data = {"kind": "request_usage", **drop_nulls(facts)}
            self._draft.add_annotation(data, actor=self._client, ts=ts, usage=usage)


def parse_request_usage(request: Item) -> Usage | None:
    """Return the token counts of a request, in which the input includes cached tokens."""
    cache_read = request.get("cacheReads")
    cache_write = request.get("cacheWrites")
    return build_usage(
        input_tokens=sum_counts(request.get("tokensIn"), cache_read, cache_write),
        output_tokens=request.get("tokensOut"),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )


def sum_counts(*values: Any) -> int | None:
    """Return the sum of the values that are counts; None if there are none."""
    numbers = [value for value in values if type(value) is int and value >= 0]
    return sum(numbers) if numbers else None


def build_notice(kind: str, text: str | None) -> dict[str, Any]:
    """Return the annotation of an error or a notice."""
    data = {"kind": "error" if kind in _ERROR_KINDS else "notice", "subtype": kind}
    if text:
        data["message" if kind in _ERROR_KINDS else "text"] = text
    return data


def get_kind(item: Item) -> str:
    """Return what kind of statement or question an item is."""
    key = "say" if item.get("type") == "say" else "ask"
    return format_kind(item.get(key))
