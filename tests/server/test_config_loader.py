"""Flags, the environment and the settings file; errors name the place and never the value."""

from pathlib import Path
from typing import Any

import pytest

from open_token.errors import UsageError
from open_token.server.config_loader import load_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "settings").mkdir()
    return tmp_path


def loaded(home: Path, file: str = "", flags: dict[str, Any] | None = None, **env: str) -> Any:
    if file:
        (home / "settings" / "config.toml").write_text(file)
    return load_config(flags or {}, {"OPEN_TOKEN_HOME": str(home), **env})


def test_nothing_said(home: Path) -> None:
    config = loaded(home)
    assert (config.data, config.host, config.port) == (home / "data" / "server", "127.0.0.1", 8020)


def test_each_rank_wins_over_the_one_below(home: Path) -> None:
    file = "[server]\nport = 1\nhost = 'a'\nmodel = 'openai:file'\n[server.limits]\nruns = 5\n"
    config = loaded(
        home,
        file,
        {"port": "3", "host": None},
        OPEN_TOKEN_SERVER_PORT="2",
        OPEN_TOKEN_SERVER_HOST="b",
    )
    assert (config.port, config.host, config.model, config.limits.runs) == (
        3,
        "b",
        "openai:file",
        5,
    )


def test_every_kind_of_value(home: Path) -> None:
    file = """
[server]
data = "~/here"
cors = ["https://chat.example"]
allow_unsandboxed = true
compact_at = 0.5
skills = ["/a", "/b"]
[server.mcp.files]
command = "mcp-files"
[server.display_names]
Bash = "Shell"
"""
    config = loaded(home, file)
    assert config.data == Path("~/here").expanduser()
    assert (config.cors, config.allow_unsandboxed, config.compact_at) == (
        ("https://chat.example",),
        True,
        0.5,
    )
    assert config.skills == (Path("/a"), Path("/b"))
    assert config.mcp == {"files": {"command": "mcp-files"}}
    said = {
        "CORS": "https://a.example, https://b.example",
        "MCP": '{"x":{"url":"http://127.0.0.1"}}',
        "ALLOW_UNSANDBOXED": "false",
        "SHARING": "0",
        "LIMITS_BODY_BYTES": "1000",
        "SKILLS": "/c",
    }
    config = loaded(home, **{f"OPEN_TOKEN_SERVER_{name}": value for name, value in said.items()})
    assert config.cors == ("https://a.example", "https://b.example")
    assert (config.mcp, config.sharing, config.allow_unsandboxed) == (
        {"x": {"url": "http://127.0.0.1"}},
        False,
        False,
    )
    assert (config.limits.body_bytes, config.skills) == (1000, (Path("/c"),))


@pytest.mark.parametrize(
    ("file", "env", "flags", "where"),
    [
        ("[server]\nport = 'hidden'", {}, {}, "port below [server] in "),
        ("[server]\nport = 70000", {}, {}, "port below [server] in "),
        ("[server]\nprot = 1", {}, {}, "[server] in "),
        ("[server]\nlimits = 1", {}, {}, "config.toml"),
        ("[server.limits]\nrunz = 1", {}, {}, "[server] in "),
        ("[server.limits]\nruns = 0", {}, {}, "limits.runs below [server] in "),
        ("server = 1", {}, {}, "config.toml"),
        ("[server", {}, {}, "config.toml"),
        ("", {"OPEN_TOKEN_SERVER_PORT": "hidden"}, {}, "OPEN_TOKEN_SERVER_PORT in the environment"),
        ("", {"OPEN_TOKEN_SERVER_PROT": "1"}, {}, "OPEN_TOKEN_SERVER_PROT in the environment"),
        ("", {"OPEN_TOKEN_SERVER_MCP": "hidden"}, {}, "OPEN_TOKEN_SERVER_MCP in the environment"),
        ("", {"OPEN_TOKEN_SERVER_ROLE": "hidden"}, {}, "OPEN_TOKEN_SERVER_ROLE in the environment"),
        (
            "",
            {"OPEN_TOKEN_SERVER_COMPACT_AT": "2"},
            {},
            "OPEN_TOKEN_SERVER_COMPACT_AT in the environment",
        ),
        (
            "",
            {"OPEN_TOKEN_SERVER_LIMITS_RUNS": "x"},
            {},
            "OPEN_TOKEN_SERVER_LIMITS_RUNS in the environment",
        ),
        ("", {"OPEN_TOKEN_SERVER_LIMITS": "{}"}, {}, "OPEN_TOKEN_SERVER_LIMITS in the environment"),
        ("", {}, {"port": "hidden"}, "--port"),
        ("", {}, {"cors": "hidden"}, "--cors"),
        ("", {}, {"log": "hidden"}, "--log"),
        ("", {}, {"model": "hidden"}, "--model"),
        ("", {}, {"model": "hidden:x"}, "--model"),
        ("", {}, {"model": "openai:"}, "--model"),
        ("[server]\nmodels = ['demo', 'hidden:x']", {}, {}, "models below [server] in "),
        ("", {}, {"data": "a\0b"}, "--data"),
        ("", {}, {"host": " "}, "--host"),
        ("", {}, {"limits_runs": "hidden"}, "--limits-runs"),
        ("", {}, {"sharing": "hidden"}, "--sharing"),
        ("", {}, {"model_timeout": "nan"}, "--model-timeout"),
        ("", {}, {"schedule_grace": "-1"}, "--schedule-grace"),
        ("", {}, {"database": "mysql://hidden"}, "--database"),
        ("", {}, {"redis": "hidden"}, "--redis"),
        ("", {}, {"public_url": "hidden"}, "--public-url"),
        ("", {}, {"proxies": "10.0.0.1,hidden"}, "--proxies"),
        ("", {}, {"mcp": "[" * 100_000}, "--mcp"),
        (
            "",
            {"OPEN_TOKEN_SERVER_DISPLAY_NAMES": '{"a":1}'},
            {},
            "OPEN_TOKEN_SERVER_DISPLAY_NAMES in the environment",
        ),
        ("[server]\n\nmodel_timeout = inf", {}, {}, "model_timeout below [server] in "),
        ("[sever]\nport = 1", {}, {}, "config.toml:1"),
        ("# first\n[server]\nhost = 'a'\nprot = 1", {}, {}, "prot below [server] in "),
        ("# first\n[server]\nhost = 'a'\nprot = 1", {}, {}, "config.toml:4"),
        ("server.limits.runs = 'hidden'", {}, {}, "config.toml:1"),
        ("[server]\n[server.limits]\nruns = 'hidden'", {}, {}, "config.toml:3"),
        ("[server]\nport = 1\nport = 2\n", {}, {}, "config.toml:3"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(
    home: Path, file: str, env: dict[str, str], flags: dict[str, str], where: str
) -> None:
    with pytest.raises(UsageError) as problem:
        loaded(home, file, flags, **env)
    assert where in str(problem.value.where)
    assert "hidden" not in str(problem.value)
    assert problem.value.help
