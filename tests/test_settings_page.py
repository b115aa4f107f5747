"""docs/reference/settings.md is what the code says, and all three ways lead to every setting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers import settings_page
from open_token.cli import serve
from open_token.cli.dispatch import build_parser
from open_token.server.config import ServerConfig
from open_token.server.config_loader import SETTINGS, flag_name, load_config, variable_name

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "settings.md"
TEXTS = {
    "model": ("demo", "openai:a", "anthropic:b"),
    "models": ("demo", "openai:a,google:b", "recorded:c"),
    "role": ("worker", "gateway", "scheduler"),
    "log": ("off", "json", "text"),
    "database": ("postgresql://a/b", "postgres://c/d", "postgresql://e/f"),
    "redis": ("redis://a", "rediss://b", "redis://c"),
    "base_url": ("http://a", "https://b", "http://c"),
    "public_url": ("http://a", "https://b", "http://c"),
    "cors": ("https://a.example,https://b.example", "*", "http://c.example"),
    "proxies": ("10.0.0.1,10.1.0.0/16", "::1", "192.0.2.1"),
    "mcp": ('{"a":{"command":"b"}}', "{}", '{"c":{"url":"d"}}'),
    "display_names": ('{"Bash":"Shell"}', "{}", '{"Glob":"Find"}'),
    "compact_at": ("0.5", "0.25", "1.0"),
}
KINDS: dict[Any, tuple[str, str, str]] = {
    bool: ("false", "true", "false"),
    int: ("11", "12", "13"),
    int | None: ("11", "12", "13"),
    float: ("1.5", "2.5", "3.5"),
}


def three(name: str) -> tuple[str, str, str]:
    """Three values of a setting, as texts: for the file, the environment and the flag."""
    return TEXTS.get(name) or KINDS.get(SETTINGS[name]) or ("/a", "/b", "/c")


def in_toml(name: str, text: str) -> str:
    """A text as the file has the value."""
    kind = str(SETTINGS[name])
    if SETTINGS[name] in KINDS:
        return text
    if kind.startswith("tuple"):
        return msgspec.json.encode(text.split(",")).decode()
    if kind.startswith("dict"):
        return text.replace('":', '"=')
    return f"'{text}'"


def set_to(config: ServerConfig, name: str) -> Any:
    return getattr(config.limits, name[7:]) if name.startswith("limits.") else getattr(config, name)


def test_the_page_is_what_the_code_says(golden: Callable[[Path, str | bytes], None]) -> None:
    golden(PAGE, settings_page.page())


def test_every_setting_is_reported_in_words() -> None:
    rows = [
        line.split(" | ") for line in settings_page.page().splitlines() if line.startswith("| `")
    ]
    assert len(rows) == len(SETTINGS)
    assert all(len(cells) == 5 and len(cells[4]) > 10 for cells in rows)


@pytest.mark.parametrize("name", SETTINGS)
def test_all_three_ways_work_and_each_wins_over_the_one_below(tmp_path: Path, name: str) -> None:
    file, variable, flag = three(name)
    env = {"OPEN_TOKEN_HOME": str(tmp_path)}
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "config.toml").write_text(
        f"[server]\n{name} = {in_toml(name, file)}\n"
    )
    no_flags = vars(build_parser("serve", serve).parse_args([]))
    with_flag = vars(build_parser("serve", serve).parse_args([flag_name(name), flag]))
    seen = [
        set_to(load_config(no_flags, env), name),
        set_to(load_config(no_flags, {**env, variable_name(name): variable}), name),
        set_to(load_config(with_flag, {**env, variable_name(name): variable}), name),
    ]
    alone = [
        set_to(load_config({name.replace(".", "_"): text}, {}), name)
        for text in (file, variable, flag)
    ]
    assert seen == alone
    assert seen[0] != seen[1] != seen[2]
