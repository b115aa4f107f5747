"""`open-token rules`: what redaction looks for, whether the rules keep their examples, and why one
fires or not."""

import argparse
import os
import shutil
from dataclasses import replace
from typing import Any

from open_token.cli.arriving import as_text
from open_token.cli.console import Console, plural, table, visible
from open_token.cli.found import words_around
from open_token.context import Context
from open_token.errors import InputError, UsageError
from open_token.library import context_for
from open_token.model import REDACTION_MODES
from open_token.options import ExportOptions, guess_of
from open_token.passes.catalogue import Entry, catalogue, failures, own_entries
from open_token.passes.explaining import Explanation, NearMiss, explain
from open_token.passes.findings import Finding, Place, allow_hash, told_as_json
from open_token.passes.text import text_level
from open_token.settings import load_settings, rules_in, rules_of
from open_token.sources.source import Source

HELP = """List, try and explain the rules of redaction: the built-in ones and your own.

usage: open-token rules list [--level L] [--type T] | show ID | test [FILE|ID|- ...]
                       | explain FILE|TEXT|- [--level L]

  open-token rules list --level pii
  open-token rules test .open-token.toml       do my rules keep their examples?
  git diff | open-token rules explain -        which rule fires where, and what nearly did

list     every rule with its type and level: the project's, the user's, the built-in ones
show     one rule as it is written, its examples with holes such as {hex:40}
test     fill the holes and try each rule on what it should match and what it should not
explain  look through a text; values are not shown, only their place, length and letters;
         a near miss says why nothing is masked: a placeholder, a checksum, an allow-list
  --level L   secrets, pii or strict; for explain the level of your exports without it
  --type T    only rules of one type, such as email     --json   for scripts
Rules of your own: [[rule]] in .open-token.toml or in the settings (docs/how-to/redact.md).
Exit: 0 done  1 an example failed, or list found none  2 usage  3 cannot be read
"""

_LEVELS = REDACTION_MODES[1:]
_LARGEST = 32 << 20
_WORDS = ("list", "show", "test", "explain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with what."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--level")
    parser.add_argument("--type")


def run(args: argparse.Namespace, console: Console) -> int:
    """Do one of the four."""
    what, words = (args.words[0], args.words[1:]) if args.words else ("", [])
    if what not in _WORDS:
        guess = guess_of(what, _WORDS, "`open-token rules {}`")
        raise UsageError(
            "rules takes list, show, test or explain", help=f"{guess}see `open-token rules --help`"
        )
    if args.level is not None and args.level not in _LEVELS:
        raise UsageError("there is no such level", help=f"--level takes {', '.join(_LEVELS)}")
    settings = load_settings(console.env, console.cwd)
    for remark in settings.remarks:
        console.warn(visible(remark))
    context = context_for(ExportOptions.of(settings.defaults), settings, console.env)
    return {"list": _list, "show": _show, "test": _test, "explain": _explain}[what](
        words, args, context, console
    )


def _list(words: list[str], args: argparse.Namespace, context: Context, console: Console) -> int:
    if words:
        raise UsageError("list takes no further word", help="filter with --level and --type")
    known = catalogue(context.screen.rules)
    wanted = [
        entry
        for entry in known
        if args.level in (None, entry.level) and args.type in (None, entry.type)
    ]
    if args.json:
        told = [_facts(entry, {}) for entry in wanted]
        console.json({"schema": "open-token/rules/1", "rules": told})
    else:
        rows = [(entry.id, entry.type, entry.level, visible(entry.file)) for entry in wanted]
        table(("ID", "TYPE", "LEVEL", "FILE"), rows, console)
        guess = "" if wanted else guess_of(args.type or "", sorted({entry.type for entry in known}))
        more = (
            "Look at one: open-token rules show ID"
            if wanted
            else f"{guess}open-token rules list has all rules"
        )
        console.say(f"{plural(len(wanted), 'rule')}.  {more}")
    return 0 if wanted else 1


def _facts(entry: Entry, more: dict[str, Any]) -> dict[str, Any]:
    return {"id": entry.id, "type": entry.type, "level": entry.level, "file": entry.file, **more}


def _show(words: list[str], args: argparse.Namespace, context: Context, console: Console) -> int:
    if len(words) != 1:
        raise UsageError("show takes the id of one rule", help="`open-token rules list` has them")
    entries = _named(words[0], catalogue(context.screen.rules))
    if args.json:
        told = [_facts(entry, {"fields": entry.fields}) for entry in entries]
        console.json({"schema": "open-token/rules/1", "rules": told})
        return 0
    for entry in entries:
        console.out(f"{entry.id}  ({entry.level}, {visible(entry.file)})")
        for name, value in entry.fields.items():
            for line in (
                value
                if isinstance(value, list | tuple) and name in ("matches", "ignores")
                else [value]
            ):
                if name != "id":
                    console.out(f"  {name:10} {visible(_shown(line))}")
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(name: str, entries: list[Entry]) -> list[Entry]:
    """The rules of an id; one's own may share it with a built-in one."""
    found = [entry for entry in entries if entry.id == name]
    if not found:
        guess = guess_of(name, [entry.id for entry in entries])
        raise UsageError(
            "there is no rule with that id", help=f"{guess}`open-token rules list` has them all"
        )
    return found


def _test(words: list[str], args: argparse.Namespace, context: Context, console: Console) -> int:
    entries: list[Entry] = []
    known = catalogue(context.screen.rules)
    for word in words:
        path = console.cwd / os.path.expanduser(word)
        if word == "-":
            entries += own_entries(rules_of(console.stdin.read(_LARGEST), "<stdin>"))
        elif os.path.isfile(path) or "/" in word or word.endswith(".toml"):
            entries += own_entries(rules_in(path, word))
        else:
            entries += _named(word, known)
    entries = entries if words else known
    failed = [failure for entry in entries for failure in failures(entry, context)]
    without = [entry.id for entry in entries if entry.own and not entry.own.matches]
    if args.json:
        console.json(
            {
                "schema": "open-token/rules-test/1",
                "rules": len(entries),
                "failures": [failure._asdict() for failure in failed],
                "without_matches": without,
            }
        )
        return 1 if failed else 0
    for failure in failed:
        why = f" ({failure.why})" if failure.why else ""
        wrong = f"is not found{why}" if failure.list == "matches" else "is found, and should not be"
        console.out(
            f"FAIL  {failure.id}  {failure.list} {failure.number} {wrong}: {visible(failure.example)}"
        )
    for name in without:
        console.say(f"note    {name} has no matches to try")
    console.say(f"{plural(len(entries), 'rule')} tried, {plural(len(failed), 'example')} failed")
    return 1 if failed else 0


def _explain(words: list[str], args: argparse.Namespace, context: Context, console: Console) -> int:
    if len(words) != 1:
        raise UsageError(
            "explain takes one text", help="name a file, give - for stdin, or quote the words"
        )
    name, data = _text(words[0], console)
    level = args.level or (
        context.options.redact if context.options.redact != "none" else "secrets"
    )
    level = text_level(replace(context, options=context.options.changed(redact=level))) or level
    told = explain(data, context, level)
    if args.json:
        console.json(_as_json(name, level, told, context))
        return 0
    for finding, place in _by_line(told.findings):
        _tell_finding(finding, place, console)
    for near in told.near:
        _tell_near(near, console)
    masked = sum(finding.count for finding in told.findings)
    allowed = sum(near.is_allowed for near in told.near)
    rest = f"{allowed} allowed, {len(told.near) - allowed} nearly masked"
    nothing = "" if told.findings or told.near else "; no rule of this level matches anything in it"
    console.say(f"level {level}: {plural(masked, 'place')} masked, {rest}{nothing}")
    return 0


def _text(word: str, console: Console) -> tuple[str, bytes]:
    """The text that a word means, and its name; a text that is too long to be explained is an
    error."""
    path = console.cwd / os.path.expanduser(word)
    if word == "-":
        name, data = "<stdin>", console.stdin.read(_LARGEST + 1)
    elif os.path.exists(path):
        name = word
        with Source.of(path, word).opened() as stream:
            data = stream.read(_LARGEST + 1)
    else:
        name, data = "<words>", os.fsencode(word)
        console.say("note    there is no such file: these words themselves are explained")
    if len(data) > _LARGEST:
        raise InputError(
            f"this is more than {_LARGEST >> 20} MiB",
            where=name,
            help="explain a part of it, or use `open-token redact --report`",
        )
    return name, b"".join(as_text([data], name))


def _by_line(findings: list[Finding]) -> list[tuple[Finding, Place]]:
    """Every place of every find, in the order of the text."""
    places = [(finding, place) for finding in findings for place in finding.places]
    return sorted(places, key=lambda item: int(item[1].where.removeprefix("line ")))


def _tell_finding(finding: Finding, place: Place, console: Console) -> None:
    head = console.paint("masked ", "yellow", console.out_is_terminal)
    console.out(
        f"{head} {place.where}  {finding.type}  (rule {finding.rule}, {finding.level})  {finding.shape}"
    )
    columns = max(32, shutil.get_terminal_size().columns - len(finding.type) - 12)
    before, after = words_around(place, columns)
    console.out(f"          {before}[{finding.type}]{after}")


def _tell_near(near: NearMiss, console: Console) -> None:
    word = "allowed" if near.is_allowed else "near   "
    console.out(
        f"{word} line {near.line}  {near.type}  (rule {near.rule})  {visible(near.why)}; {near.length} characters"
    )


def _as_json(name: str, level: str, told: Explanation, context: Context) -> dict[str, Any]:
    findings = told_as_json(told.findings)
    for item, finding in zip(findings, told.findings, strict=True):
        if context.key is not None:
            item["allow"] = allow_hash(finding, context.key)
    return {
        "schema": "open-token/rules-explain/1",
        "source": name,
        "level": level,
        "findings": findings,
        "near": [near._asdict() for near in told.near],
    }
