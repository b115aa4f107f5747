"""`open-token rules`: list, show, test and explain redaction rules."""

import argparse
import os
import shutil
from dataclasses import replace
from typing import Any

from open_token.api import build_context
from open_token.cli.shared.console import Console, escape_controls, pluralize, print_table
from open_token.cli.shared.findings import fit_context
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.text_input import check_text
from open_token.context import Context
from open_token.errors import InputError, UsageError
from open_token.model.document import REDACTION_MODES
from open_token.options import ExportOptions, suggest_match
from open_token.redaction.explanation import Explanation, NearMiss, explain
from open_token.redaction.findings import Finding, Place, compute_allow_hash, to_json
from open_token.redaction.rule_catalogue import (
    CatalogueEntry,
    Failure,
    find_failures,
    list_rules,
    list_user_rules,
)
from open_token.redaction.text_stream import get_text_level
from open_token.settings import load_settings, parse_rules, read_rules_file
from open_token.sources.source import Source

HELP = Help(
    summary="List, show, test and explain redaction rules, built-in and custom.",
    usage=(
        "rules list [OPTIONS]",
        "rules show ID",
        "rules test [FILE|ID|-]...",
        "rules explain FILE|TEXT|- [OPTIONS]",
    ),
    sections=(
        Section(
            "Commands",
            (
                ("list", "List all rules with type and level"),
                ("show", "Print the definition and the examples of a rule"),
                ("test", "Test rules against their examples"),
                ("explain", "Show which rules match a text, and near misses with the reason"),
            ),
        ),
    ),
    notes=(
        "`explain` prints position, length and kinds of characters of a value, never the "
        "value itself. Examples have placeholders such as {hex:40}, which `test` fills in.",
        "Custom rules are [[rule]] tables in .open-token.toml or in the settings.",
    ),
    exit_codes=(
        ("0", "Done"),
        ("1", "An example failed, or `list` found no rule"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
    ),
    examples=(
        ("open-token rules list --level pii", ""),
        ("open-token rules test .open-token.toml", "Test the rules of this project"),
        ("git diff | open-token rules explain -", ""),
    ),
)
_LEVELS = REDACTION_MODES[1:]
_MAX_BYTES = 32 << 20
_COMMANDS = ("list", "show", "test", "explain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand with its words, and the filters."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    group = parser.add_argument_group("Selection")
    group.add_argument(
        "--level",
        metavar="LEVEL",
        help="secrets, pii or strict [default: all; explain: the level of your exports]",
    )
    group.add_argument("--type", metavar="TYPE", help="list: only rules of a type, such as email")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run a subcommand."""
    command = args.words[0] if args.words else ""
    words = args.words[1:]
    if command not in _COMMANDS:
        guess = suggest_match(command, _COMMANDS, "`open-token rules {}`")
        raise UsageError(
            f"rules needs a command: {', '.join(_COMMANDS)}",
            help=f"{guess}see `open-token rules --help`",
        )
    if args.level is not None and args.level not in _LEVELS:
        raise UsageError("unknown level", help=f"--level accepts {', '.join(_LEVELS)}")
    settings = load_settings(console.env, console.cwd)
    for warning in settings.warnings:
        console.warn(escape_controls(warning))
    context = build_context(ExportOptions.of(settings.defaults), settings, console.env)
    if command == "list":
        return _list_rules(words, args, context, console)
    if command == "show":
        return _show_rule(words, args, context, console)
    if command == "test":
        return _test_rules(words, args, context, console)
    return _explain_text(words, args, context, console)


def _list_rules(
    words: list[str], args: argparse.Namespace, context: Context, console: Console
) -> int:
    if words:
        raise UsageError("`rules list` takes no arguments", help="filter with --level and --type")
    rules = list_rules(context.screen.rules)
    wanted = [
        rule
        for rule in rules
        if args.level in (None, rule.level) and args.type in (None, rule.type)
    ]
    if args.json:
        listed = [_rule_to_json(rule) for rule in wanted]
        console.print_json({"schema": "open-token/rules/1", "rules": listed})
        return 0 if wanted else 1
    rows = [(rule.id, rule.type, rule.level, escape_controls(rule.file)) for rule in wanted]
    print_table(("ID", "TYPE", "LEVEL", "FILE"), rows, console)
    hint = "Show one: open-token rules show ID"
    if not wanted:
        guess = suggest_match(args.type or "", sorted({rule.type for rule in rules}))
        hint = f"{guess}List all: open-token rules list"
    console.info(f"{pluralize(len(wanted), 'rule')}.  {hint}")
    return 0 if wanted else 1


def _rule_to_json(rule: CatalogueEntry) -> dict[str, Any]:
    return {"id": rule.id, "type": rule.type, "level": rule.level, "file": rule.file}


def _show_rule(
    words: list[str], args: argparse.Namespace, context: Context, console: Console
) -> int:
    if len(words) != 1:
        raise UsageError(
            "`rules show` needs one rule id", help="list them with `open-token rules list`"
        )
    rules = _find_rules(words[0], list_rules(context.screen.rules))
    if args.json:
        shown = [{**_rule_to_json(rule), "fields": rule.fields} for rule in rules]
        console.print_json({"schema": "open-token/rules/1", "rules": shown})
        return 0
    for rule in rules:
        console.print(f"{rule.id}  ({rule.level}, {escape_controls(rule.file)})")
        for name, value in rule.fields.items():
            if name == "id":
                continue
            is_list = isinstance(value, list | tuple) and name in ("matches", "ignores")
            for line in value if is_list else [value]:
                console.print(f"  {name:10} {escape_controls(_format_value(line))}")
    return 0


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _find_rules(rule_id: str, rules: list[CatalogueEntry]) -> list[CatalogueEntry]:
    """Return the rules with an id; a custom rule may share that of a built-in one."""
    found = [rule for rule in rules if rule.id == rule_id]
    if not found:
        guess = suggest_match(rule_id, [rule.id for rule in rules])
        raise UsageError("no such rule", help=f"{guess}list the rules with `open-token rules list`")
    return found


def _test_rules(
    words: list[str], args: argparse.Namespace, context: Context, console: Console
) -> int:
    rules = _collect_rules(words, context, console)
    failed: list[Failure] = []
    for rule in rules:
        failed += find_failures(rule, context)
    untested = [rule.id for rule in rules if rule.own and not rule.own.matches]
    if args.json:
        console.print_json(
            {
                "schema": "open-token/rules-test/1",
                "rules": len(rules),
                "failures": [failure._asdict() for failure in failed],
                "without_matches": untested,
            }
        )
        return 1 if failed else 0
    for failure in failed:
        if failure.list != "matches":
            problem = "matches, but must not"
        elif failure.why:
            problem = f"does not match ({failure.why})"
        else:
            problem = "does not match"
        example = escape_controls(failure.example)
        console.print(f"FAIL  {failure.id}  {failure.list} {failure.number} {problem}: {example}")
    for name in untested:
        console.info(f"note    {name} has no `matches` to test")
    tested = pluralize(len(rules), "rule")
    console.info(f"{tested} tested, {pluralize(len(failed), 'example')} failed")
    return 1 if failed else 0


def _collect_rules(words: list[str], context: Context, console: Console) -> list[CatalogueEntry]:
    """Return the rules of files, stdin and ids; all rules if none is named."""
    known = list_rules(context.screen.rules)
    if not words:
        return known
    rules: list[CatalogueEntry] = []
    for word in words:
        path = console.cwd / os.path.expanduser(word)
        if word == "-":
            rules += list_user_rules(parse_rules(console.stdin.read(_MAX_BYTES), "<stdin>"))
        elif os.path.isfile(path) or "/" in word or word.endswith(".toml"):
            rules += list_user_rules(read_rules_file(path, word))
        else:
            rules += _find_rules(word, known)
    return rules


def _explain_text(
    words: list[str], args: argparse.Namespace, context: Context, console: Console
) -> int:
    if len(words) != 1:
        raise UsageError(
            "`rules explain` needs one text", help="name a file, use - for stdin, or quote a text"
        )
    name, data = _read_text(words[0], console)
    level = _choose_level(args, context)
    explanation = explain(data, context, level)
    if args.json:
        console.print_json(_explanation_to_json(name, level, explanation, context))
        return 0
    for finding, place in _sort_by_line(explanation.findings):
        _print_finding(finding, place, console)
    for near_miss in explanation.near:
        _print_near_miss(near_miss, console)
    masked = sum(finding.count for finding in explanation.findings)
    allowed = sum(near_miss.is_allowed for near_miss in explanation.near)
    nearly_masked = len(explanation.near) - allowed
    counts = f"{pluralize(masked, 'place')} masked, {allowed} allowed"
    summary = f"level {level}: {counts}, {nearly_masked} nearly masked"
    if not explanation.findings and not explanation.near:
        summary += "; no rule of this level matches"
    console.info(summary)
    return 0


def _choose_level(args: argparse.Namespace, context: Context) -> str:
    level = args.level or context.options.redact
    if level == "none":
        level = "secrets"
    with_policy = replace(context, options=context.options.changed(redact=level))
    return get_text_level(with_policy) or level


def _read_text(word: str, console: Console) -> tuple[str, bytes]:
    """Return the name and content of a file or stdin, or the word itself."""
    path = console.cwd / os.path.expanduser(word)
    if word == "-":
        name = "<stdin>"
        data = console.stdin.read(_MAX_BYTES + 1)
    elif os.path.exists(path):
        name = word
        with Source.of(path, word).opened() as stream:
            data = stream.read(_MAX_BYTES + 1)
    else:
        name = "<words>"
        data = os.fsencode(word)
        console.info("note    no such file: explaining the argument itself")
    if len(data) > _MAX_BYTES:
        raise InputError(
            f"the text is larger than {_MAX_BYTES >> 20} MiB",
            where=name,
            help="explain a part of it, or use `open-token redact --report`",
        )
    return name, b"".join(check_text([data], name))


def _sort_by_line(findings: list[Finding]) -> list[tuple[Finding, Place]]:
    places: list[tuple[Finding, Place]] = []
    for finding in findings:
        for place in finding.places:
            places.append((finding, place))
    return sorted(places, key=lambda item: _parse_line_number(item[1]))


def _parse_line_number(place: Place) -> int:
    return int(place.where.removeprefix("line "))


def _print_finding(finding: Finding, place: Place, console: Console) -> None:
    label = console.style("masked ", "yellow", console.stdout_is_terminal)
    rule = f"(rule {finding.rule}, {finding.level})"
    console.print(f"{label} {place.where}  {finding.type}  {rule}  {finding.shape}")
    # The type stands in brackets in place of the value, behind the indentation.
    taken = len(finding.type) + 12
    columns = shutil.get_terminal_size().columns - taken
    before, after = fit_context(place, max(32, columns))
    console.print(f"          {before}[{finding.type}]{after}")


def _print_near_miss(near_miss: NearMiss, console: Console) -> None:
    label = "allowed" if near_miss.is_allowed else "near   "
    reason = f"{escape_controls(near_miss.why)}; {near_miss.length} characters"
    rule = f"(rule {near_miss.rule})"
    console.print(f"{label} line {near_miss.line}  {near_miss.type}  {rule}  {reason}")


def _explanation_to_json(
    name: str, level: str, explanation: Explanation, context: Context
) -> dict[str, Any]:
    findings = to_json(explanation.findings)
    for item, finding in zip(findings, explanation.findings, strict=True):
        if context.key is not None:
            item["allow"] = compute_allow_hash(finding, context.key)
    return {
        "schema": "open-token/rules-explain/1",
        "source": name,
        "level": level,
        "findings": findings,
        "near": [near_miss._asdict() for near_miss in explanation.near],
    }
