"""Rules and allow-lists of the user and the project: checked entry by entry, with the place of what
is wrong."""

import re
from typing import Any, NamedTuple

from open_token.context import AllowEntry, CustomRule
from open_token.errors import UsageError
from open_token.options import suggest_match
from open_token.passes._own_pattern import PatternError, judges, own_pattern
from open_token.passes._rules import LEVELS

RULE_FIELDS = ("id", "type", "level", "keywords", "pattern", "validator", "matches", "ignores")
ALLOW_FIELDS = ("value", "pattern", "rule", "key", "path", "note")
_LISTS = ("keywords", "matches", "ignores")
_ID = re.compile("[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_TYPE = re.compile("[a-z0-9]+(?:[_-][a-z0-9]+)*")
_HASH = re.compile("hmac:[0-9a-f]{32}")
_HASH_FORM = "hmac: and 32 hex digits, as `open-token redact --review` and `open-token rules explain` write them"


class File(NamedTuple):
    """A settings file: its name for messages, its text for the lines of what is wrong."""

    name: str
    text: str

    def place(self, table: str, number: int, key: str = "") -> str:
        """Where an entry, or one key of it, stands."""
        heading = re.compile(rf"^[ \t]*\[\[[ \t]*{table}[ \t]*\]\]", re.MULTILINE)
        starts = [found.start() for found in heading.finditer(self.text)]
        if number >= len(starts):
            return f"{self.name} ({table} {number + 1})"
        start = starts[number]
        end = starts[number + 1] if number + 1 < len(starts) else len(self.text)
        line = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", re.MULTILINE)
        found = line.search(self.text, start, end) if key else None
        at = found.start() if found else start
        return f"{self.name}:{self.text.count(chr(10), 0, at) + 1} ({table} {number + 1}{key and f', {key}'})"


def own_rules(file: File, settings: dict[str, Any]) -> tuple[CustomRule, ...]:
    """The rules of a file; an entry that is wrong is an error with its place."""
    rules: list[CustomRule] = []
    for number, entry in enumerate(_entries(file, settings, "rule")):
        rules.append(_rule(_Entry(file, "rule", number, entry)))
        if rules[-1].id in {rule.id for rule in rules[:-1]}:
            raise _Entry(file, "rule", number, entry).wrong(
                "id", "two rules have the same id", "give one another id"
            )
    return tuple(rules)


def allowances(file: File, settings: dict[str, Any]) -> tuple[AllowEntry, ...]:
    """The allow-list of a file."""
    entries = _entries(file, settings, "allow")
    return tuple(
        _allowance(_Entry(file, "allow", number, entry)) for number, entry in enumerate(entries)
    )


def _entries(file: File, settings: dict[str, Any], table: str) -> list[dict[str, Any]]:
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
    """One entry with its place."""

    file: File
    table: str
    number: int
    fields: dict[str, Any]

    def wrong(self, key: str, what: str, help: str) -> UsageError:
        where = self.file.place(self.table, self.number, key)
        return UsageError(what, where=where, help=help, code="settings.entry")

    def check_names(self, known: tuple[str, ...]) -> None:
        for key in self.fields:
            if key not in known:
                guess = suggest_match(key, known)
                raise self.wrong(
                    key, "there is no such field", f"{guess}the fields are {', '.join(known)}"
                )

    def text(self, key: str, usual: str = "") -> str:
        value = self.fields.get(key, usual)
        if not isinstance(value, str) or (key in self.fields and not value.strip()):
            raise self.wrong(key, f"{key} is not a text", f'write {key} = "..."')
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.fields.get(key, [])
        if not isinstance(values, list) or not all(
            isinstance(value, str) and value for value in values
        ):
            raise self.wrong(key, f"{key} is not a list of texts", f'write {key} = ["...", "..."]')
        return tuple(values)

    def pattern(self, key: str = "pattern") -> str:
        """A pattern that RE2 takes, and that does not match nothing."""
        text = self.text(key)
        if not text:
            return text
        try:
            own_pattern(text)
        except PatternError as problem:
            raise self.wrong(key, str(problem), problem.help) from None
        return text


def _rule(entry: _Entry) -> CustomRule:
    entry.check_names(RULE_FIELDS)
    name = entry.text("id")
    if not _ID.fullmatch(name):
        raise entry.wrong(
            "id", "a rule needs an id of small letters and digits", 'as in id = "acme-ticket"'
        )
    kind = entry.text("type", re.sub("[-.]", "_", name))
    if not _TYPE.fullmatch(kind):
        raise entry.wrong(
            "type",
            "type is the word in the mark: small letters and digits",
            'as in type = "ticket"',
        )
    level = entry.text("level", "secrets")
    if level not in LEVELS[1:]:
        raise entry.wrong("level", "there is no such level", f"level takes {', '.join(LEVELS[1:])}")
    pattern = entry.pattern()
    if not pattern:
        raise entry.wrong("", "a rule needs a pattern", "as in pattern = 'ACME-[0-9]{6}'")
    validator = entry.text("validator")
    if validator and validator not in judges():
        guess = suggest_match(validator, judges())
        raise entry.wrong(
            "validator",
            "there is no such validator",
            f"{guess}there are {', '.join(sorted(judges()))}",
        )
    lists = {key: entry.texts(key) for key in _LISTS}
    lists["keywords"] = tuple(word.encode().lower().decode() for word in lists["keywords"])
    return CustomRule(
        name, kind, level, pattern, validator=validator, file=entry.file.name, **lists
    )


def _allowance(entry: _Entry) -> AllowEntry:
    entry.check_names(ALLOW_FIELDS)
    value = entry.text("value")
    if value and not _HASH.fullmatch(value):
        raise entry.wrong(
            "value",
            "value is the keyed hash of a value, never the value itself",
            f"it is {_HASH_FORM}",
        )
    entry.text("note")
    file = f"{entry.file.name} (allow {entry.number + 1})"
    made = AllowEntry(
        value, entry.pattern(), entry.text("rule"), entry.text("key"), entry.text("path"), file=file
    )
    if not any((made.value, made.pattern, made.rule, made.key, made.path)):
        raise entry.wrong(
            "", "this entry allows nothing", f"give one of {', '.join(ALLOW_FIELDS[:-1])}"
        )
    return made
