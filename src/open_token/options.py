"""The export options: one table for the command line, the library, the skill and the server, parsed
once."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from open_token.errors import UsageError
from open_token.timestamps import to_utc


class Option(NamedTuple):
    """One row of the table: the name, the words it takes (the first is the default), what it
    does."""

    name: str
    values: tuple[str, ...]
    meaning: str
    default: str
    free: str = ""
    """What else may stand there than the listed words."""


TABLE: tuple[Option, ...] = (
    Option("mode", ("json", "ndjson"), "one document, or one record a line", "json"),
    Option("pretty", ("true", "false"), "indented or compact", "true for json, false for ndjson"),
    Option(
        "include",
        ("visible-only", "include-internal"),
        "leave hidden reasoning out, or let it in",
        "visible-only",
    ),
    Option(
        "internal",
        ("redacted", "summary", "full"),
        "how hidden reasoning is shown when it is let in",
        "redacted",
    ),
    Option("redact", ("secrets", "none", "pii", "strict"), "what is masked", "secrets"),
    Option("max_bytes", (), "the largest size of the output, in bytes", "unset", free="a number"),
    Option("drop", ("never", "oldest"), "may events be dropped to fit max_bytes", "never"),
    Option("strategy", ("mask", "hash", "drop"), "how the hash in a mark is made", "mask"),
    Option(
        "integrity",
        ("hash", "none", "tree", "source"),
        "what lets a reader verify the export",
        "hash",
    ),
    Option(
        "exported_at",
        ("now", "omit", "keep"),
        "the time of the export",
        "now; keep for an export",
        free="a time",
    ),
    Option(
        "branches",
        ("active", "all"),
        "the branch in use, or also abandoned ones inside spans",
        "active",
    ),
    Option(
        "subagents",
        ("inline", "reference", "none"),
        "subagents whole, as a reference, or not at all",
        "inline",
    ),
    Option("native", ("none", "full"), "also keep what the format has no place for", "none"),
)
NAMES = tuple(option.name for option in TABLE)
_BY_NAME = {option.name: option for option in TABLE}


class ExportOptions(msgspec.Struct, frozen=True):
    """The options of one export, checked."""

    mode: str = "json"
    pretty: bool = True
    include: str = "visible-only"
    internal: str = "redacted"
    redact: str = "secrets"
    max_bytes: int | None = None
    drop: str = "never"
    strategy: str = "mask"
    integrity: str = "hash"
    exported_at: str = ""
    """now, omit, keep or an RFC 3339 time; empty: keep for an export, else now."""
    branches: str = "active"
    subagents: str = "inline"
    native: str = "none"

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "ExportOptions":
        """Options from names and values, as text or as Python values; unknown ones are errors that
        list the valid."""
        given = {name: _check(name, value) for name, value in words.items() if value is not None}
        if "pretty" not in given:
            given["pretty"] = given.get("mode", "json") == "json"
        return cls(**given)

    def changed(self, **changes: Any) -> "ExportOptions":
        """The same options but for the given ones."""
        return msgspec.structs.replace(self, **changes)

    def as_words(self) -> str:
        """The options as `key=value` words, without those at their default."""
        usual = ExportOptions.of({"mode": self.mode})
        words = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(usual, name) or (name == "mode" and value != "json"):
                words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
        return " ".join(words)


def split_words(words: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """`key=value` words, also several in one string as a skill passes them, apart from all other
    words."""
    options: dict[str, str] = {}
    others: list[str] = []
    for word in words:
        for part in _parts(word):
            key, equals, value = part.partition("=")
            name = key.replace("-", "_")
            if equals and name in _BY_NAME:
                if options.get(name, value) != value:
                    raise UsageError(f"{name} is given twice", help=f"keep one {name}=VALUE")
                options[name] = value
            elif equals and name.isidentifier() and "/" not in key:
                raise _unknown_option(key)
            else:
                others.append(part)
    return options, others


def _parts(word: str) -> list[str]:
    if "=" not in word or not any(character.isspace() for character in word):
        return [word] if word.strip() else []
    import shlex

    try:
        parts = shlex.split(word)
    except ValueError:
        return [word]
    return (
        parts
        if any(part.partition("=")[0].replace("-", "_") in _BY_NAME for part in parts)
        else [word]
    )


def guess_of(word: str, known: Iterable[str], form: str = "{}") -> str:
    """What a mistyped word was perhaps meant to be, as the start of a sentence of help."""
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {form.format(near[0])}? " if near else ""


def _unknown_option(key: str) -> UsageError:
    guess = guess_of(key.replace("-", "_"), NAMES)
    return UsageError(
        f"there is no option {key}", help=f"{guess}the options are {', '.join(NAMES)}"
    )


def _check(name: str, value: Any) -> Any:
    option = _BY_NAME.get(name)
    if option is None:
        raise _unknown_option(name)
    if name == "pretty":
        return _flag(option, value)
    if name == "max_bytes":
        return _size(value)
    text = str(value)
    if name == "exported_at" and text not in option.values:
        return _moment(option, text)
    if text not in option.values:
        raise _bad_value(option, text)
    return text


def _bad_value(option: Option, text: str) -> UsageError:
    guess = guess_of(text, option.values)
    free = f" or {option.free}" if option.free else ""
    return UsageError(
        f"{option.name} does not take that value",
        help=f"{guess}{option.name} takes {', '.join(option.values)}{free}",
    )


def _flag(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _bad_value(option, str(value))


def _size(value: Any) -> int:
    try:
        size = int(str(value).replace("_", ""))
    except ValueError:
        size = 0
    if size < 1:
        raise UsageError(
            "max_bytes is not a number of bytes",
            help="give a whole number above 0, as in max_bytes=200000",
        )
    return size


def _moment(option: Option, text: str) -> str:
    moment = to_utc(text)
    if moment is None:
        raise _bad_value(option, text)
    return moment
