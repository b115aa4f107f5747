"""Writes the table of the server's settings from the code that reads them: names, defaults,
words."""

import ast
import inspect
from pathlib import Path
from typing import Any

import msgspec

from open_token.server import config
from open_token.server.loading import SETTINGS, flag_of, is_switch, variable_of

HEAD = """# Settings of the server

Made from the code that reads them (`make accept`). Each setting can be given in three ways:

1. a **flag** of `open-token serve`, which wins over
2. the **environment**, where an empty variable is none, which wins over
3. the **file** `config.toml` in the settings folder (`$OPEN_TOKEN_HOME/settings`, else where the platform keeps
   settings): a key below `[server]`, a limit below `[server.limits]`.

What none of them says has its default. In flags and the environment, lists are written with commas, tables as a JSON
object, and what is on or off as `true` or `false`; a flag of that kind with nothing after it means `true`. A name that
there is not, or a value that does not fit, is an error that tells the flag, the variable, or the file and line; the
value is not repeated, as it could be a secret. `open-token serve --check` tells what would be used, and starts nothing.

```toml
[server]
data = "/srv/agents"
cors = ["https://chat.example"]

[server.limits]
runs = 20
```

`open-token server` takes the same variables and the same file, and `--data` and `--database` as flags.

"""
COLUMNS = "| key in the file | environment | flag | default | meaning |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    told = {
        **_told(config.ServerConfig),
        **{f"limits.{name}": words for name, words in _told(config.Limits).items()},
    }
    rows = {name: _row(name, told[name]) for name in SETTINGS}
    plain = [row for name, row in rows.items() if not name.startswith("limits.")]
    limits = [row for name, row in rows.items() if name.startswith("limits.")]
    said = "What is over a limit is refused with 413 or 429 and a word; nothing of it is kept."
    return "".join(
        [HEAD, "## Settings\n\n", COLUMNS, *plain, f"\n## Limits\n\n{said}\n\n", COLUMNS, *limits],
    )


def _row(name: str, words: str) -> str:
    default = _default(name)
    given = flag_of(name)
    if is_switch(name):
        given += " false" if default == "`true`" else " true"
    cells = [
        f"`{name}`",
        f"`{variable_of(name)}`",
        f"`{given}`",
        default,
        words.replace("|", "\\|"),
    ]
    return f"| {' | '.join(cells)} |\n"


def _default(name: str) -> str:
    if name == "data":
        return "`server` in the data folder of this user"
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


def _told(kind: type[msgspec.Struct]) -> dict[str, str]:
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
