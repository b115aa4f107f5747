"""Estimated costs: known prices, the user's own, and models without a price."""

from pathlib import Path

import pytest

from open_token.errors import UsageError
from open_token.library import prices
from open_token.library.prices import PriceList

MODEL = "claude-sonnet-4-5-20250929"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def load(folder: Path) -> PriceList:
    return PriceList(folder / "cache", folder)


def test_a_known_model_costs_what_the_price_list_says(folder: Path) -> None:
    pytest.importorskip("genai_prices")
    from genai_prices import Usage, calc_price

    for size in (1_000, 150_000, 500_000):
        usage = Usage(
            input_tokens=size,
            cache_read_tokens=size // 2,
            cache_write_tokens=size // 10,
            output_tokens=700,
        )
        expected = float(calc_price(usage, model_ref=MODEL).total_price)
        cost = load(folder).estimate(
            MODEL, input=size, cache_read=size // 2, cache_write=size // 10, output=700
        )
        assert cost == pytest.approx(expected)


def test_prices_that_were_looked_up_are_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("genai_prices")
    first = load(folder)
    price = first.find(MODEL)
    assert price is not None
    assert first.find("no-such-model") is None
    first.save()
    monkeypatch.setattr(
        prices, "_look_up", lambda model: pytest.fail(f"{model} is looked up again")
    )
    second = load(folder)
    assert second.find(MODEL) == price
    assert second.find("no-such-model") is None


def test_an_unknown_model_has_no_cost(folder: Path) -> None:
    cost = load(folder).estimate("no-such-model", input=5, cache_read=0, cache_write=0, output=5)
    assert cost is None


def test_own_prices_come_first(folder: Path) -> None:
    (folder / "prices.toml").write_text(f'["{MODEL}"]\ninput = 2\noutput = 4.0\ncache_read = 1\n')
    cost = load(folder).estimate(
        MODEL, input=3_000_000, cache_read=1_000_000, cache_write=1_000_000, output=1_000_000
    )
    assert cost == pytest.approx(2 + 1 + 2 + 4)


@pytest.mark.parametrize(
    "text",
    [
        "[",
        '["m"]\ninput = 1',
        '["m"]\ninput = 1\noutput = -2',
        '["m"]\ninput = 1\noutput = true',
        '["m"]\ninput = 1\noutput = 2\ninptu = 3',
        "m = 3",
    ],
)
def test_an_invalid_price_file_is_an_error_that_names_it(folder: Path, text: str) -> None:
    (folder / "prices.toml").write_text(text)
    with pytest.raises(UsageError) as problem:
        load(folder)
    assert "prices.toml" in str(problem.value)


def test_a_damaged_cache_is_ignored(folder: Path) -> None:
    (folder / "cache").mkdir()
    (folder / "cache" / "prices.json").write_text('{"version": 3}')
    assert load(folder).find("no-such-model") is None
