"""Writes the table of the server's settings from the code that reads them: names, defaults,
words."""

import ast
import inspect
from pathlib import Path
from typing import Any

import msgspec

from open_token.server import config
from open_token.server.config_loader import SETTINGS, flag_name, is_switch, variable_name

HEAD = """# Server settings

This page is generated from the code (`make accept`). A setting can be given in three ways, in order of precedence:

1. as a **flag** of `open-token serve`
2. as an **environment variable**; an empty variable is ignored
3. in the **file** `config.toml` in the settings folder (`$OPEN_TOKEN_HOME/settings`, else the platform's folder for
   settings): as a key of `[server]`, or of `[server.limits]` for limits

In flags and variables, lists are separated by commas, tables are JSON objects, and switches are `true` or `false`; a
switch without a value is `true`. An unknown name or an invalid value is an error that names the flag, the variable, or
the file and line, but not the value, which could be a secret. `open-token serve --check` prints the effective settings
without starting the server.

```toml
[server]
data = "/srv/agents"
cors = ["https://chat.example"]

[server.limits]
runs = 20
```

`open-token server` reads the same variables and the same file, and has the flags `--data` and `--database`.

"""
COLUMNS = "| key in the file | environment | flag | default | meaning |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    result = {
        **_describe_fields(config.ServerConfig),
        **{f"limits.{name}": words for name, words in _describe_fields(config.Limits).items()},
    }
    rows = {name: _row(name, result[name]) for name in SETTINGS}
    plain = [row for name, row in rows.items() if not name.startswith("limits.")]
    limits = [row for name, row in rows.items() if name.startswith("limits.")]
    said = "A request over a limit is rejected with 413, 429 or 503 and an error message; nothing of it is stored."
    return "".join(
        [HEAD, "## Settings\n\n", COLUMNS, *plain, f"\n## Limits\n\n{said}\n\n", COLUMNS, *limits],
    )


def _row(name: str, words: str) -> str:
    default = _default(name)
    given = flag_name(name)
    if is_switch(name):
        given += " false" if default == "`true`" else " true"
    cells = [
        f"`{name}`",
        f"`{variable_name(name)}`",
        f"`{given}`",
        default,
        words.replace("|", "\\|"),
    ]
    return f"| {' | '.join(cells)} |\n"


def _default(name: str) -> str:
    if name == "data":
        return "`server` in the user's data folder"
    holder: Any = (
        config.Limits() if name.startswith("limits.") else config.ServerConfig(data=Path())
    )
    value = getattr(holder, name.removeprefix("limits."))
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{', '.join(map(str, value))}`"
    return f"`{value}`" + _size(name, value)


def _size(name: str, value: Any) -> str:
    if not name.endswith("_bytes"):
        return ""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value % size == 0:
            return f" ({value // size} {unit})"
    return ""


def _describe_fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The words that stand below each field."""
    (cls,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(cls, ast.ClassDef)
    found: dict[str, str] = {}
    for field, words in zip(cls.body, cls.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(words, ast.Expr)
        ):
            assert isinstance(words.value, ast.Constant)
            found[field.target.id] = " ".join(str(words.value.value).split()).rstrip(".")
    return found
