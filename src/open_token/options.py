"""The export options: one table for the command line, the library, the skill and the server."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from open_token.errors import UsageError
from open_token.jsontools.timestamps import to_utc


class Option(NamedTuple):
    """One export option: name, values (the default first), meaning, and how help texts show it."""

    name: str
    values: tuple[str, ...]
    meaning: str
    default: str
    group: str
    metavar: str
    free: str = ""
    """What is accepted besides the listed values."""


OPTIONS: tuple[Option, ...] = (
    Option(
        "mode", ("json", "ndjson"), "One document, or one record per line", "json", "Output", "MODE"
    ),
    Option(
        "pretty",
        ("true", "false"),
        "Indent the JSON",
        "true for json, false for ndjson",
        "Output",
        "BOOL",
    ),
    Option(
        "include",
        ("visible-only", "include-internal"),
        "Exclude or include hidden reasoning",
        "visible-only",
        "Content",
        "SCOPE",
    ),
    Option(
        "internal",
        ("redacted", "summary", "full"),
        "How included reasoning is shown",
        "redacted",
        "Content",
        "FORM",
    ),
    Option(
        "redact",
        ("secrets", "none", "pii", "strict"),
        "What to mask",
        "secrets",
        "Redaction",
        "LEVEL",
    ),
    Option(
        "max_bytes",
        (),
        "Maximum size of the output in bytes",
        "unlimited",
        "Output",
        "N",
        free="a number",
    ),
    Option(
        "drop",
        ("never", "oldest"),
        "Whether to drop events to fit max_bytes",
        "never",
        "Output",
        "WHICH",
    ),
    Option(
        "strategy",
        ("mask", "hash", "drop"),
        "How the hash in a redaction marker is computed",
        "mask",
        "Redaction",
        "KIND",
    ),
    Option(
        "images",
        ("keep", "drop"),
        "Whether to keep images and other binary data, which cannot be searched",
        "keep; drop with redact=pii and strict",
        "Redaction",
        "WHAT",
    ),
    Option(
        "integrity",
        ("hash", "none", "tree", "source"),
        "Integrity data to include",
        "hash",
        "Integrity",
        "KIND",
    ),
    Option(
        "exported_at",
        ("now", "omit", "keep"),
        "Time of the export",
        "now, but keep for a source that is an export",
        "Output",
        "TIME",
        free="an RFC 3339 time",
    ),
    Option(
        "branches",
        ("active", "all"),
        "Only the active branch, or abandoned branches too",
        "active",
        "Content",
        "WHICH",
    ),
    Option(
        "subagents",
        ("inline", "reference", "none"),
        "Include subagents in full, by reference, or not at all",
        "inline",
        "Content",
        "FORM",
    ),
    Option(
        "native",
        ("none", "full"),
        "Also preserve source data that the format does not model",
        "none",
        "Content",
        "SCOPE",
    ),
)
OPTION_NAMES = tuple(option.name for option in OPTIONS)
_BY_NAME = {option.name: option for option in OPTIONS}


class ExportOptions(msgspec.Struct, frozen=True):
    """The validated options of one export."""

    mode: str = "json"
    pretty: bool = True
    include: str = "visible-only"
    internal: str = "redacted"
    redact: str = "secrets"
    max_bytes: int | None = None
    drop: str = "never"
    strategy: str = "mask"
    images: str = ""
    """keep or drop; empty: drop from redact=pii on."""
    integrity: str = "hash"
    exported_at: str = ""
    """now, omit, keep or an RFC 3339 time; empty: keep if the source is an export, else now."""
    branches: str = "active"
    subagents: str = "inline"
    native: str = "none"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ExportOptions":
        """Validate options given as text or as Python values; None means the default."""
        given = {}
        for name, value in values.items():
            if value is not None:
                given[name] = _parse_value(name, value)
        if "pretty" not in given:
            given["pretty"] = given.get("mode", "json") == "json"
        return cls(**given)

    def changed(self, **changes: Any) -> "ExportOptions":
        """Return a copy with some options replaced; the values are not validated again."""
        return msgspec.structs.replace(self, **changes)

    def as_words(self) -> str:
        """Return the options as `key=value` words, without those at their default."""
        defaults = ExportOptions.of({"mode": self.mode})
        words = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_default = value == getattr(defaults, name)
            if name == "mode":
                is_default = value == "json"
            if not is_default:
                words.append(
                    f"{name}={str(value).lower() if value is True or value is False else value}"
                )
        return " ".join(words)


def split_option_words(words: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Separate `key=value` words from all others.

    One string may hold several options, as an agent's skill passes them."""
    options: dict[str, str] = {}
    others: list[str] = []
    for word in words:
        for part in _split_word(word):
            key, equals, value = part.partition("=")
            name = key.replace("-", "_")
            if equals and name in _BY_NAME:
                if options.get(name, value) != value:
                    raise UsageError(
                        f"{name} is given more than once", help=f"keep one {name}=VALUE"
                    )
                options[name] = value
            # A file name may contain `=`; a plain word before it is a mistyped option.
            elif equals and name.isidentifier() and "/" not in key:
                raise _unknown_option_error(key)
            else:
                others.append(part)
    return options, others


def _split_word(word: str) -> list[str]:
    """Split a word that holds several options; any other word, such as a path, stays whole."""
    if not word.strip():
        return []
    if "=" not in word or not any(character.isspace() for character in word):
        return [word]
    import shlex

    try:
        parts = shlex.split(word)
    except ValueError:
        return [word]
    names = [part.partition("=")[0].replace("-", "_") for part in parts]
    return parts if any(name in _BY_NAME for name in names) else [word]


def suggest_match(word: str, known: Iterable[str], template: str = "{}") -> str:
    """Return `did you mean X? ` for a mistyped word, or an empty string."""
    import difflib

    matches = difflib.get_close_matches(word, known, 1)
    return f"did you mean {template.format(matches[0])}? " if matches else ""


def _unknown_option_error(key: str) -> UsageError:
    guess = suggest_match(key.replace("-", "_"), OPTION_NAMES)
    return UsageError(
        f"unknown option '{key}'", help=f"{guess}available options: {', '.join(OPTION_NAMES)}"
    )


def _parse_value(name: str, value: Any) -> Any:
    option = _BY_NAME.get(name)
    if option is None:
        raise _unknown_option_error(name)
    if name == "pretty":
        return _parse_bool(option, value)
    if name == "max_bytes":
        return _parse_size(value)
    text = str(value)
    if text in option.values:
        return text
    if name == "exported_at":
        return _parse_time(option, text)
    raise _invalid_value_error(option, text)


def _invalid_value_error(option: Option, text: str) -> UsageError:
    guess = suggest_match(text, option.values)
    free = f" or {option.free}" if option.free else ""
    return UsageError(
        f"invalid value for {option.name}",
        help=f"{guess}{option.name} accepts {', '.join(option.values)}{free}",
    )


def _parse_bool(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _invalid_value_error(option, str(value))


def _parse_size(value: Any) -> int:
    try:
        size = int(str(value).replace("_", ""))
    except ValueError:
        size = 0
    if size < 1:
        raise UsageError(
            "invalid value for max_bytes",
            help="give a positive whole number of bytes, for example max_bytes=200000",
        )
    return size


def _parse_time(option: Option, text: str) -> str:
    time = to_utc(text)
    if time is None:
        raise _invalid_value_error(option, text)
    return time
