"""What the answers of an OpenHands conversation cost: each by its id, and all of them together."""

from typing import Any, cast

from open_token.formats.shared.fields import as_dicts, as_text
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

Body = dict[str, Any]


class Spending:
    """Figures by answer, each given out once, and the running totals of every purpose."""

    def __init__(self) -> None:
        self._by_answer: dict[str, Usage] = {}
        self._totals: dict[str, Body] = {}
        self._given: dict[str, int] = {}

    def take(self, stats: Any) -> str | None:
        """The newest totals; gives the name of the agent's model."""
        metrics = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
        model = None
        for purpose, spent in metrics.items() if isinstance(metrics, dict) else ():
            if isinstance(spent, dict):
                self.add(purpose, spent)
                if purpose in ("agent", "default"):
                    model = as_text(spent.get("model_name"))
        return model

    def add(self, purpose: str, spent: Body) -> None:
        """What was spent for one purpose: the agent, the condenser."""
        self._totals[purpose] = spent
        for usage in as_dicts(spent.get("token_usages")):
            name, known = as_text(usage.get("response_id")), usage_of(usage)
            if name and known:
                self._by_answer.setdefault(name, known)

    def of(self, answer: Any) -> Usage | None:
        """What an answer of the model cost, the first time it is asked for."""
        usage = self._by_answer.get(answer) if isinstance(answer, str) else None
        if not usage:
            return None
        self._by_answer[answer] = {}
        self.given(usage)
        return usage

    def given(self, usage: Usage) -> None:
        """These counts stand with an answer already."""
        for name, count in cast(dict[str, int], usage).items():
            self._given[name] = self._given.get(name, 0) + count

    def totals(self) -> dict[str, Body]:
        """For each purpose that cost anything: the model, the counts, the money."""
        made: dict[str, Body] = {}
        for purpose, spent in self._totals.items():
            usage = usage_of(spent.get("accumulated_token_usage")) or {}
            cost = spent.get("accumulated_cost")
            if any(usage.values()) or cost:
                model = {"model": spent["model_name"]} if as_text(spent.get("model_name")) else {}
                made[purpose] = {**model, **usage, "cost_usd": cost}
        return made

    def rest(self) -> Usage | None:
        """What no answer that was told accounts for."""
        sums: dict[str, int] = {}
        for spent in self._totals.values():
            usage = usage_of(spent.get("accumulated_token_usage")) or {}
            for name, count in cast(dict[str, int], usage).items():
                sums[name] = sums.get(name, 0) + count
        left = {name: count - self._given.get(name, 0) for name, count in sums.items()}
        return build_usage(**{name: count for name, count in left.items() if count > 0})


def usage_of(value: Any) -> Usage | None:
    """Token counts; the prompt includes what was read from a cache."""
    if not isinstance(value, dict):
        return None
    return build_usage(
        input_tokens=value.get("prompt_tokens"),
        output_tokens=value.get("completion_tokens"),
        reasoning_tokens=value.get("reasoning_tokens"),
        cache_read_tokens=value.get("cache_read_tokens"),
        cache_write_tokens=value.get("cache_write_tokens"),
    )
