"""Estimated costs of model responses, from a bundled price list and the user's own prices.

Prices are in US dollars per million tokens. The list is the package `genai-prices`; it takes half a
second to import, so the prices of models that were looked up are remembered in the cache folder.
"""

import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from open_token.errors import UsageError
from open_token.storage.files import make_folder, read_existing, read_optional, write_atomic

PRICE_FILE = "prices.toml"
"""The user's own prices, in the settings folder."""
_CACHE_NAME = "prices.json"
_PACKAGE = "genai-prices"
_MILLION = 1_000_000
_OWN_KEYS = frozenset(("input", "cache_read", "cache_write", "output"))

Tiers = list[tuple[int, float]]
"""Prices by the number of input tokens from which they hold, ascending; the first is 0."""


class ModelPrice(msgspec.Struct, frozen=True):
    """What a model costs per million tokens."""

    input: Tiers
    output: Tiers
    cache_read: Tiers
    cache_write: Tiers
    checked: str = ""
    """The day on which the price was checked."""


class _Cache(msgspec.Struct):
    version: str
    models: dict[str, ModelPrice | None]


class PriceList:
    """Prices by model; a model without a known price has no cost, rather than a guessed one."""

    def __init__(self, cache_folder: Path, settings_folder: Path) -> None:
        self._path = cache_folder / _CACHE_NAME
        self._own = _read_own_prices(settings_folder / PRICE_FILE)
        self.version = _find_version()
        self._cache = self._load_cache()
        self._is_changed = False

    @property
    def is_available(self) -> bool:
        """Whether there is a price list besides the user's own prices."""
        return bool(self.version)

    def find(self, model: str) -> ModelPrice | None:
        """Return the price of a model; None if it is not known."""
        if model in self._own:
            return self._own[model]
        if not self.version:
            return None
        if model not in self._cache.models:
            self._cache.models[model] = _look_up(model)
            self._is_changed = True
        return self._cache.models[model]

    def estimate(
        self, model: str, *, input: int, cache_read: int, cache_write: int, output: int
    ) -> float | None:
        """Return the cost of one response in dollars; `input` includes cached tokens."""
        price = self.find(model)
        if price is None:
            return None
        uncached = max(0, input - cache_read - cache_write)
        total = (
            uncached * _choose_tier(price.input, input)
            + cache_read * _choose_tier(price.cache_read, input)
            + cache_write * _choose_tier(price.cache_write, input)
            + output * _choose_tier(price.output, input)
        )
        return total / _MILLION

    def save(self) -> None:
        """Remember the prices that were looked up."""
        if self._is_changed and make_folder(self._path.parent):
            write_atomic(self._path, msgspec.json.encode(self._cache), 0o600)

    def _load_cache(self) -> _Cache:
        raw = read_optional(self._path, private=True)
        if raw:
            try:
                cache = msgspec.json.decode(raw, type=_Cache)
                if cache.version == self.version:
                    return cache
            except (msgspec.DecodeError, msgspec.ValidationError):
                pass  # rebuilt from the package
        return _Cache(self.version, {})


def _choose_tier(tiers: Tiers, input_tokens: int) -> float:
    chosen = 0.0
    for start, price in tiers:
        if input_tokens >= start:
            chosen = price
    return chosen


def _find_version() -> str:
    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return ""


def _look_up(model: str) -> ModelPrice | None:
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(Usage(input_tokens=1, output_tokens=1), model_ref=model)
    except LookupError:
        return None
    prices = found.model_price
    standard = _to_tiers(getattr(prices, "input_mtok", None))
    # A provider without a price for cached tokens charges them as input.
    read = _to_tiers(getattr(prices, "cache_read_mtok", None)) or standard
    written = _to_tiers(getattr(prices, "cache_write_mtok", None)) or standard
    checked = getattr(found.model, "prices_checked", None)
    return ModelPrice(
        input=standard,
        output=_to_tiers(getattr(prices, "output_mtok", None)),
        cache_read=read,
        cache_write=written,
        checked=str(checked) if checked else "",
    )


def _to_tiers(price: Any) -> Tiers:
    if price is None:
        return []
    if not hasattr(price, "tiers"):
        return [(0, float(price))]
    tiers = [(0, float(price.base))]
    tiers += [(int(tier.start), float(tier.price)) for tier in price.tiers]
    return tiers


def _read_own_prices(path: Path) -> dict[str, ModelPrice]:
    """Read the user's prices: a table per model, with input, output, cache_read, cache_write."""
    raw = read_existing(path)
    if raw is None:
        return {}
    try:
        tables = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise UsageError(
            "the price file is not valid TOML", where=str(path), help='write ["model"] input = 3.0'
        ) from None
    prices = {}
    for model, table in tables.items():
        prices[model] = _parse_own_price(model, table, path)
    return prices


def _parse_own_price(model: str, table: Any, path: Path) -> ModelPrice:
    is_valid = isinstance(table, dict) and table.keys() <= _OWN_KEYS
    if is_valid:
        is_valid = all(type(value) in (int, float) and value >= 0 for value in table.values())
    if not is_valid or not {"input", "output"} <= table.keys():
        raise UsageError(
            f"invalid price of '{model[:60]}'",
            where=str(path),
            help="give input and output, and if they differ cache_read and cache_write, "
            "in dollars per million tokens",
        )
    input_price = float(table["input"])
    return ModelPrice(
        input=[(0, input_price)],
        output=[(0, float(table["output"]))],
        cache_read=[(0, float(table.get("cache_read", input_price)))],
        cache_write=[(0, float(table.get("cache_write", input_price)))],
    )
