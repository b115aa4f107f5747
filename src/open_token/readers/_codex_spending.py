"""Token counts of a rollout, put once on the last event in which the model spoke during the request
they count."""

from typing import Any

from open_token.draft import Draft
from open_token.model import Usage
from open_token.readers._wire_responses_content import usage


class Spending:
    """Joins counts and events, whichever comes first: before 0.50 the count stood before the items
    of its request."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._total: Any = None
        self._early: Usage | None = None
        self._recorded: Usage | None = None
        """What the last answer cost, as long as no count has told it."""
        self._spoken: str | None = None
        self._is_answered = False

    def spoke(self, event_id: str, is_thought: bool = False) -> None:
        """The model spoke in this event. A thought is the last choice: an export may leave it out
        with its count."""
        if not is_thought or self._spoken is None or self._is_answered:
            self._spoken, self._is_answered = event_id, False

    def counted(self, info: Any, ts: str | None, span: str | None) -> None:
        """A count came; the same totals told again count nothing."""
        if not isinstance(info, dict):
            return
        self._recorded = None
        total = info.get("total_token_usage", info)
        if total == self._total:
            return
        self._total = total
        made = usage(info.get("last_token_usage")) or _oldest(info)
        if not made or not any(made.values()):
            return
        self.settle(ts, span)
        if self._spoken:
            self._give(made)
        else:
            self._early = made

    def recorded(self, counts: Any) -> None:
        """What one answer cost (token_usage_record, 0.16x), told before its calls are done; the
        count comes after."""
        self._recorded = usage(counts)

    def settle(self, ts: str | None, span: str | None) -> None:
        """A request is over: a count that came early goes to what was said since, or stands
        alone."""
        if self._early and self._spoken:
            self._give(self._early)
        elif self._early:
            self._draft.annotation({"kind": "request_usage"}, ts=ts, span=span, usage=self._early)
        self._early = None

    def answered(self, ts: str | None, span: str | None) -> None:
        """A result came: what the model said for it was said before."""
        self._is_answered = True
        if self._early and self._spoken:
            self.settle(ts, span)

    def turn(self, ts: str | None, span: str | None) -> None:
        """Someone else speaks, or nobody more: what the model said before is not counted any
        more."""
        self.settle(ts, span)
        if self._recorded and self._spoken:
            self._give(self._recorded)
        self._recorded = None
        self._spoken = None

    def _give(self, made: Usage) -> None:
        self._draft.usage(str(self._spoken), made)
        self._spoken = None


def _oldest(info: dict[str, Any]) -> Usage | None:
    """The two counts of the first versions."""
    return usage({"input_tokens": info.get("prompt"), "output_tokens": info.get("completion")})
