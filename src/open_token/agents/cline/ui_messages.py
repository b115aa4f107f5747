"""What the panel of Cline showed, joined to the messages of the API: times, cost, errors between
them."""

from typing import Any

from open_token.formats.shared.fields import as_text, parse_arguments
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch

Item = dict[str, Any]
_TYPED = ("task", "user_feedback")
_REQUEST = "api_req_started"
_ERRORS = (
    "error",
    "error_retry",
    "diff_error",
    "clineignore_error",
    "rooignore_error",
    "command_permission_denied",
    "api_req_failed",
    "mistake_limit_reached",
)
_NOTICES = ("info", "mcp_notification", "shell_integration_warning")
# The panel's own view of what stands in the messages of the API.
_SAME = frozenset(
    "text reasoning tool command command_output completion_result followup plan_mode_respond act_mode_respond"
    " use_mcp_server mcp_server_request_started mcp_server_response browser_action browser_action_launch"
    " browser_action_result api_req_finished api_req_retried new_task condense summarize_task task_progress resume_task"
    " resume_completed_task user_feedback_diff use_subagents subagent condense_context subtask_result".split()
)


class Screen:
    """The items of the panel by the message that was being made when they were shown.

    An item's conversationHistoryIndex is that of the last message at the time, so it belongs to the
    one after that."""

    def __init__(self, items: list[Any], roles: list[Any]) -> None:
        self._roles = roles
        self._times: dict[int, str] = {}
        self._sent: dict[int, str] = {}
        self.requests: dict[int, Item] = {}
        """What is known of the request that brought an answer, by the answer."""
        self.asides: dict[int, list[tuple[dict[str, Any], str | None]]] = {}
        """Errors and notices, by the message before which they stand; what they say, and when."""
        self.typed: set[str] = set()
        self.other: dict[str, int] = {}
        """Kinds that are not carried, with the first place of each, and how often they come."""
        for place, item in enumerate(items):
            if isinstance(item, dict):
                self._take(item, place)

    def ts(self, index: int) -> str | None:
        """When a message was typed, sent, or began to be shown."""
        return self._times.get(index) or self._sent.get(index)

    def _take(self, item: Item, place: int) -> None:
        kind, text = kind_of(item), as_text(item.get("text"))
        index = item.get("conversationHistoryIndex")
        index = index if type(index) is int else None
        ts = from_epoch(item.get("ts"), 0.001)
        if kind in _TYPED or (kind == "text" and place == 0):
            self.typed.add((text or "").strip())
        if kind in _ERRORS or kind in _NOTICES:
            self._aside(kind, text, index, ts)
        elif kind == _REQUEST:
            self._request(text, index, ts)
        elif kind not in _SAME and kind not in _TYPED:
            self.other[kind] = self.other.get(kind, 0) + 1
        if ts and index is not None and self._is_time_of(kind, index + 1, place):
            self._times.setdefault(index + 1, ts)

    def _is_time_of(self, kind: str, target: int, place: int) -> bool:
        """Whether an item shows when a message came about: for a prompt what was typed, for an
        answer its parts."""
        role = self._roles[target] if 0 <= target < len(self._roles) else None
        if role == "assistant":
            return kind in _SAME
        return role == "user" and (kind in _TYPED or (kind == "text" and place == 0))

    def _request(self, text: str | None, index: int | None, ts: str | None) -> None:
        about = parse_arguments(text)
        if index is None or not isinstance(about, dict):
            return
        if ts:
            self._sent[index + 1] = ts
        self.requests[index + 2] = about

    def _aside(self, kind: str, text: str | None, index: int | None, ts: str | None) -> None:
        before = len(self._roles) if index is None else index + 1
        self.asides.setdefault(before, []).append((aside_of(kind, text), ts))


def aside_of(kind: str, text: str | None) -> dict[str, Any]:
    """What an item that is no talk says: an error, or else a notice."""
    if kind in _ERRORS:
        return {"kind": "error", "subtype": kind} | ({"message": text} if text else {})
    return {"kind": "notice", "subtype": kind} | ({"text": text} if text else {})


def kind_of(item: Item) -> str:
    """What an item says or asks."""
    return format_kind(item.get("say") if item.get("type") == "say" else item.get("ask"))
