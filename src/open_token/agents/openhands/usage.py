"""Token counts and costs of an OpenHands conversation: by response, and accumulated."""

from typing import Any, cast

from open_token.formats.shared.fields import as_dicts, as_text
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

Body = dict[str, Any]


class UsageTracker:
    """Token counts by response, each returned once, and the running totals of every purpose."""

    def __init__(self) -> None:
        self._by_response: dict[str, Usage] = {}
        self._metrics: dict[str, Body] = {}
        """The newest metrics by purpose, such as the agent or the condenser."""
        self._attributed: dict[str, int] = {}
        """The sums of the counts that events already have."""

    def add_stats(self, stats: Any) -> str | None:
        """Add the newest metrics of all purposes; return the name of the agent's model."""
        metrics = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
        if not isinstance(metrics, dict):
            return None
        model = None
        for purpose, values in metrics.items():
            if isinstance(values, dict):
                self.add_metrics(purpose, values)
                if purpose in ("agent", "default"):
                    model = as_text(values.get("model_name"))
        return model

    def add_metrics(self, purpose: str, metrics: Body) -> None:
        """Add the newest metrics of one purpose."""
        # Metrics accumulate: the newest replace earlier ones.
        self._metrics[purpose] = metrics
        for item in as_dicts(metrics.get("token_usages")):
            response_id = as_text(item.get("response_id"))
            usage = _parse_usage(item)
            if response_id and usage:
                self._by_response.setdefault(response_id, usage)

    def take(self, response_id: Any) -> Usage | None:
        """Return the usage of a response; None if it is not known or was returned before."""
        usage = self._by_response.get(response_id) if isinstance(response_id, str) else None
        if not usage:
            return None
        # An empty entry remains, so that repeated metrics do not add the usage again.
        self._by_response[response_id] = {}
        self.mark_attributed(usage)
        return usage

    def mark_attributed(self, usage: Usage) -> None:
        """Record that an event has this usage."""
        for name, count in cast(dict[str, int], usage).items():
            self._attributed[name] = self._attributed.get(name, 0) + count

    def get_totals(self) -> dict[str, Body]:
        """Return the model, the counts and the cost of each purpose that has any."""
        totals: dict[str, Body] = {}
        for purpose, metrics in self._metrics.items():
            usage = _parse_usage(metrics.get("accumulated_token_usage")) or {}
            cost = metrics.get("accumulated_cost")
            if not any(usage.values()) and not cost:
                continue
            total: Body = {}
            model = as_text(metrics.get("model_name"))
            if model:
                total["model"] = model
            totals[purpose] = {**total, **usage, "cost_usd": cost}
        return totals

    def get_unattributed(self) -> Usage | None:
        """Return the accumulated counts without those that events have."""
        sums: dict[str, int] = {}
        for metrics in self._metrics.values():
            usage = _parse_usage(metrics.get("accumulated_token_usage")) or {}
            for name, count in cast(dict[str, int], usage).items():
                sums[name] = sums.get(name, 0) + count
        rest: dict[str, int] = {}
        for name, count in sums.items():
            difference = count - self._attributed.get(name, 0)
            if difference > 0:
                rest[name] = difference
        return build_usage(**rest)


def _parse_usage(value: Any) -> Usage | None:
    """Return token counts; the prompt includes what was read from a cache."""
    if not isinstance(value, dict):
        return None
    return build_usage(
        input_tokens=value.get("prompt_tokens"),
        output_tokens=value.get("completion_tokens"),
        reasoning_tokens=value.get("reasoning_tokens"),
        cache_read_tokens=value.get("cache_read_tokens"),
        cache_write_tokens=value.get("cache_write_tokens"),
    )
