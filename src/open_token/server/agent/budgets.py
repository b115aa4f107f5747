"""Budgets: what a session has used, in tokens and in money."""

import asyncio

from open_token.library.prices import PriceList
from open_token.model.log_events import Json
from open_token.server.agent.model_interface import ModelError
from open_token.server.agent.run_context import RunContext
from open_token.session import SessionState
from open_token.storage.files import Folders

_FREE_PROVIDERS = ("demo", "recorded")


async def is_exhausted(context: RunContext, state: SessionState) -> bool:
    """Return whether a session has used up its budget; abandoned branches count as well.

    Raise ModelError when the price of a model that it used is not known.
    """
    budget = context.settings.budget
    if budget is None:
        return False
    if budget.tokens is not None and count_tokens(state) >= budget.tokens:
        return True
    if budget.cost is None:
        return False
    return await asyncio.to_thread(estimate_cost, context, state) >= budget.cost


def count_tokens(state: SessionState) -> int:
    """Return the input and output tokens of all model calls of a session."""
    total = 0
    for turn in state.turns.values():
        usage = turn.facts.usage or {}
        total += usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    return total


def estimate_cost(context: RunContext, state: SessionState) -> float:
    """Return the estimated cost of all model calls of a session in US dollars."""
    folders = Folders.of(context.services.env)
    prices = PriceList(folders.cache, folders.settings)
    total = _estimate_call(prices, context.model.name, {})
    for turn in state.turns.values():
        if turn.facts.model and turn.facts.usage and not turn.imported:
            total += _estimate_call(prices, turn.facts.model, turn.facts.usage)
    return total


def _estimate_call(prices: PriceList, model: str, usage: Json) -> float:
    provider, _, name = model.partition(":")
    if provider in _FREE_PROVIDERS:
        return 0.0
    cost = prices.estimate(
        name or provider,
        input=usage.get("input_tokens", 0),
        cache_read=usage.get("cache_read_tokens", 0),
        cache_write=usage.get("cache_write_tokens", 0),
        output=usage.get("output_tokens", 0),
    )
    if cost is None:
        raise ModelError(
            f"the budget cannot be checked: the price of {model} is not known; "
            "set it in prices.toml, or set a budget in tokens",
            "request",
        )
    return cost
