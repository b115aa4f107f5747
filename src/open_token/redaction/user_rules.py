"""Parse the rules and allow-lists of the user's and the project's settings.

Each entry is checked; an error names the line of the settings file. RE2 alone runs the patterns,
over UTF-8, so that none of them can hang.
"""

import functools
import re
from typing import Any, NamedTuple

from open_token.context import AllowEntry, CustomRule
from open_token.errors import UsageError
from open_token.options import suggest_match
from open_token.redaction.ruleset import LEVELS
from open_token.redaction.validators import load_all_validators

RULE_FIELDS = ("id", "type", "level", "keywords", "pattern", "validator", "matches", "ignores")
ALLOW_FIELDS = ("value", "pattern", "rule", "key", "path", "note")
_LIST_FIELDS = ("keywords", "matches", "ignores")
_ID = re.compile("[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_TYPE = re.compile("[a-z0-9]+(?:[_-][a-z0-9]+)*")
_HASH = re.compile("hmac:[0-9a-f]{32}")
_HASH_FORM = (
    "hmac: and 32 hex digits, as `open-token redact --review` and `open-token rules explain` "
    "write them"
)

_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_MAX_MEMORY = 8 << 20
_REMEDIES = (
    (
        re.compile(r"\(\?<?[=!]"),
        "RE2 has no look-around; match the text around, too, and put the part to mask into a "
        "group: 'id=([0-9]+)'",
    ),
    (
        re.compile(r"\\[1-9gk]|\(\?P$"),
        "RE2 has no back references; write the part out once more",
    ),
    (
        re.compile(r"\(\?>|[+*?}]\+"),
        "RE2 never backtracks, so it has no atomic groups or possessive quantifiers; "
        "leave them out",
    ),
    (
        re.compile(r"\(\?#"),
        "RE2 has no comments; write one into a line that begins with # above",
    ),
    (
        re.compile(r"repetition size|too large"),
        "repeat at most 1,000 times in all, or use + and let a longer run match, too",
    ),
    (
        re.compile(r"\\[pP]"),
        r"character classes are \p{L}, \p{Lu}, \p{N}, \p{Greek} and so on",
    ),
    (re.compile(r"\\Z"), r"the end of the text is \z, the end of a line $"),
)
_SYNTAX_HELP = "see the syntax of RE2; a \\ makes the next character an ordinary one"


class PatternError(ValueError):
    """A pattern that RE2 rejects or that matches the empty text; `help` says what to write."""

    def __init__(self, what: str, help: str) -> None:
        super().__init__(what)
        self.help = help


@functools.cache
def compile_user_pattern(pattern: str) -> Any:
    """Compile a pattern over UTF-8; `^` and `$` match at the ends of lines."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    if _ANY_BYTE.search(pattern):
        raise PatternError(r"the pattern has \C, which splits characters", "use . instead")
    try:
        compiled = re2.compile(b"(?m)" + pattern.encode(), options)
    except re2.error as problem:
        reason = _get_reason(problem).removesuffix(f": (?m){pattern}")
        raise PatternError(f"RE2 rejects this pattern: {reason}", _find_remedy(reason)) from None
    except UnicodeEncodeError:
        raise PatternError(
            "the pattern is not valid Unicode", "remove the lone surrogate"
        ) from None
    if compiled.search(b""):
        raise PatternError(
            "the pattern matches the empty text", "require at least one character: + instead of *"
        )
    return compiled


def _get_reason(problem: Exception) -> str:
    reason = problem.args[0] if problem.args else b""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _find_remedy(reason: str) -> str:
    for symptom, remedy in _REMEDIES:
        if symptom.search(reason):
            return remedy
    return _SYNTAX_HELP


class SettingsFile(NamedTuple):
    """A settings file: its name for messages, its text to find line numbers."""

    name: str
    text: str

    def describe_position(self, table: str, number: int, key: str = "") -> str:
        """Return where an entry, or one key of it, is in the file."""
        label = f"{table} {number + 1}"
        heading = re.compile(rf"^[ \t]*\[\[[ \t]*{table}[ \t]*\]\]", re.MULTILINE)
        starts = [match.start() for match in heading.finditer(self.text)]
        if number >= len(starts):
            return f"{self.name} ({label})"
        position = starts[number]
        if key:
            end = starts[number + 1] if number + 1 < len(starts) else len(self.text)
            line = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE)
            match = line.search(self.text, position, end)
            if match:
                position = match.start()
            label += f", {key}"
        line_number = self.text.count("\n", 0, position) + 1
        return f"{self.name}:{line_number} ({label})"


def parse_user_rules(file: SettingsFile, settings: dict[str, Any]) -> tuple[CustomRule, ...]:
    """Return the rules of a file; raise an error at the first invalid entry."""
    rules: list[CustomRule] = []
    ids: set[str] = set()
    for number, fields in enumerate(_get_entries(file, settings, "rule")):
        entry = _Entry(file, "rule", number, fields)
        rule = _parse_rule(entry)
        if rule.id in ids:
            raise entry.build_error(
                "id", "two rules have the same id", "give one of them another id"
            )
        ids.add(rule.id)
        rules.append(rule)
    return tuple(rules)


def parse_allowances(file: SettingsFile, settings: dict[str, Any]) -> tuple[AllowEntry, ...]:
    """Return the allow-list of a file; raise an error at the first invalid entry."""
    entries = _get_entries(file, settings, "allow")
    return tuple(
        _parse_allowance(_Entry(file, "allow", number, fields))
        for number, fields in enumerate(entries)
    )


def _get_entries(file: SettingsFile, settings: dict[str, Any], table: str) -> list[dict[str, Any]]:
    entries = settings.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(
            f"{table} is not a list of tables",
            where=file.name,
            help=f"begin each entry with [[{table}]]",
            code="settings.entry",
        )
    return entries


class _Entry(NamedTuple):
    """One entry of a settings file."""

    file: SettingsFile
    table: str
    number: int
    fields: dict[str, Any]

    def build_error(self, key: str, what: str, help: str) -> UsageError:
        where = self.file.describe_position(self.table, self.number, key)
        return UsageError(what, where=where, help=help, code="settings.entry")

    def check_names(self, known: tuple[str, ...]) -> None:
        for key in self.fields:
            if key not in known:
                hint = f"{suggest_match(key, known)}the fields are {', '.join(known)}"
                raise self.build_error(key, "unknown field", hint)

    def get_text(self, key: str, default: str = "") -> str:
        value = self.fields.get(key, default)
        if not isinstance(value, str) or (key in self.fields and not value.strip()):
            raise self.build_error(key, f"{key} is not a text", f'write {key} = "..."')
        return value

    def get_texts(self, key: str) -> tuple[str, ...]:
        values = self.fields.get(key, [])
        is_valid = isinstance(values, list) and all(
            isinstance(value, str) and value for value in values
        )
        if not is_valid:
            hint = f'write {key} = ["...", "..."]'
            raise self.build_error(key, f"{key} is not a list of texts", hint)
        return tuple(values)

    def get_pattern(self) -> str:
        """Return the pattern, checked; empty where there is none."""
        pattern = self.get_text("pattern")
        if not pattern:
            return pattern
        try:
            compile_user_pattern(pattern)
        except PatternError as problem:
            raise self.build_error("pattern", str(problem), problem.help) from None
        return pattern


def _parse_rule(entry: _Entry) -> CustomRule:
    entry.check_names(RULE_FIELDS)
    rule_id = entry.get_text("id")
    if not _ID.fullmatch(rule_id):
        raise entry.build_error(
            "id",
            "a rule needs an id of lower-case letters and digits",
            'for example id = "acme-ticket"',
        )
    type_name = entry.get_text("type", re.sub("[-.]", "_", rule_id))
    if not _TYPE.fullmatch(type_name):
        raise entry.build_error(
            "type",
            "type is the word in the marker: lower-case letters and digits",
            'for example type = "ticket"',
        )
    level = entry.get_text("level", "secrets")
    if level not in LEVELS[1:]:
        hint = f"level takes {', '.join(LEVELS[1:])}"
        raise entry.build_error("level", "unknown level", hint)
    pattern = entry.get_pattern()
    if not pattern:
        raise entry.build_error(
            "", "a rule needs a pattern", "for example pattern = 'ACME-[0-9]{6}'"
        )
    validator = entry.get_text("validator")
    if validator and validator not in load_all_validators():
        names = sorted(load_all_validators())
        hint = f"{suggest_match(validator, load_all_validators())}there are {', '.join(names)}"
        raise entry.build_error("validator", "unknown validator", hint)
    lists = {key: entry.get_texts(key) for key in _LIST_FIELDS}
    # Only ASCII is folded, as in the search for keywords.
    lists["keywords"] = tuple(word.encode().lower().decode() for word in lists["keywords"])
    return CustomRule(
        rule_id, type_name, level, pattern, validator=validator, file=entry.file.name, **lists
    )


def _parse_allowance(entry: _Entry) -> AllowEntry:
    entry.check_names(ALLOW_FIELDS)
    value = entry.get_text("value")
    if value and not _HASH.fullmatch(value):
        raise entry.build_error(
            "value",
            "value is the keyed hash of a value, never the value itself",
            f"it is {_HASH_FORM}",
        )
    entry.get_text("note")
    allowance = AllowEntry(
        value,
        entry.get_pattern(),
        entry.get_text("rule"),
        entry.get_text("key"),
        entry.get_text("path"),
        file=f"{entry.file.name} (allow {entry.number + 1})",
    )
    conditions = (
        allowance.value,
        allowance.pattern,
        allowance.rule,
        allowance.key,
        allowance.path,
    )
    if not any(conditions):
        hint = f"give one of {', '.join(ALLOW_FIELDS[:-1])}"
        raise entry.build_error("", "this entry allows nothing", hint)
    return allowance
