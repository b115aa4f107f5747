"""`open-token search`: find what was said in all sessions on this machine."""

import argparse
import re
import time
from pathlib import Path

from open_token.cli.sessions import count_id_columns, parse_time
from open_token.cli.shared.console import (
    Console,
    escape_controls,
    format_age,
    pluralize,
    truncate_to_columns,
)
from open_token.cli.shared.help import Help
from open_token.cli.shared.indexing import open_index
from open_token.cli.shared.source_selection import check_reader_name
from open_token.errors import UsageError
from open_token.jsontools.timestamps import from_epoch
from open_token.library.index import ROLES, Filters, FoundSession, Hit, SearchResult
from open_token.library.index.query import Query, parse_query
from open_token.library.index.text import fold

HELP = Help(
    summary="Search the text of all sessions on this machine.",
    usage=("search WORDS... [OPTIONS]",),
    notes=(
        "An event matches if it contains all words. Case and accents do not matter. "
        '"two words" in quotes must follow each other; pre* matches every word that begins '
        "with pre; -word excludes events with the word. A role is person, agent, command (a "
        "tool call), output (its result), thinking or system. TIME is an age (12h, 2d, 3w), a "
        "day or an RFC 3339 time.",
        "The index is updated first. It holds redacted text, so that secrets cannot be searched "
        "for. In a pipe, the output is tab-separated, one event a line.",
    ),
    exit_codes=(("0", "Found"), ("1", "Nothing found"), ("2", "Invalid usage")),
    examples=(
        ("open-token search parser timeout", ""),
        ('open-token search "permission denied" --role output --since 2w', ""),
        ("open-token search migrat* -test --here", ""),
    ),
)
_DEFAULT_LIMIT = 20
_HITS_PER_SESSION = 3
_MAX_HITS_IN_A_PIPE = 1000


def prepare_words(words: list[str]) -> list[str]:
    """Turn `-word`, which the parser would take for an option, into `--not=word`."""
    prepared = []
    for word in words:
        is_excluded = re.match(r"-[^-]", word) and word not in ("-q", "-h")
        prepared.append(f"--not={word[1:]}" if is_excluded else word)
    return prepared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words and the filters."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    text = parser.add_argument_group("Text")
    text.add_argument(
        "--not", action="append", default=[], metavar="WORD", dest="excluded",
        help="Exclude events with the word; same as -WORD",
    )  # fmt: skip
    text.add_argument(
        "--regex", metavar="PATTERN", default="", help="The text must match PATTERN (RE2)"
    )
    selection = parser.add_argument_group("Selection")
    selection.add_argument("--agent", metavar="READER", help="Only sessions of an agent")
    selection.add_argument("--here", action="store_true", help="Only sessions of this folder")
    selection.add_argument(
        "--project", metavar="NAME", default="", help="Only sessions with NAME in their folder"
    )
    selection.add_argument("--since", metavar="TIME", help="Only events since TIME")
    selection.add_argument("--until", metavar="TIME", help="Only events until TIME")
    selection.add_argument("--role", metavar="ROLE", default="", help="Only what ROLE said")
    selection.add_argument(
        "--tool", metavar="NAME", default="", help="Only calls and results of a tool"
    )
    selection.add_argument(
        "--path", metavar="PART", default="", help="Only calls on a file with PART in its path"
    )
    display = parser.add_argument_group("Display")
    display.add_argument(
        "--limit", metavar="N", help=f"Show at most N sessions [default: {_DEFAULT_LIMIT}]"
    )
    display.add_argument("--all", action="store_true", help="Show every event that matches")
    display.add_argument(
        "--no-update", action="store_true", help="Search the index as it is, without updating it"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Search, and print the events by session."""
    text = _build_query(args)
    filters = _build_filters(args, console)
    if not text and filters == Filters():
        raise UsageError(
            "nothing to search for", help="give words, for example open-token search parser bug"
        )
    query = parse_query(text)
    is_plain = not args.json and console.stdout_is_terminal
    has_all_hits = args.all or not is_plain
    max_hits = _MAX_HITS_IN_A_PIPE if has_all_hits else _HITS_PER_SESSION
    with open_index(console, update=not args.no_update) as index:
        result = index.search(text, filters, max_sessions=_parse_limit(args), max_hits=max_hits)
    if args.json:
        console.print_json(_result_to_json(result))
    elif is_plain:
        _print_sessions(result, query, console)
    else:
        _print_rows(result, console)
    _print_summary(result, console)
    return 0 if result.sessions else 1


def _build_query(args: argparse.Namespace) -> str:
    """Join the words; a word with spaces was quoted in the shell and is a phrase."""
    parts = []
    for word in args.words:
        is_phrase = " " in word.strip() and '"' not in word
        parts.append(f'"{word}"' if is_phrase else word)
    for word in args.excluded:
        parts.append(f'-"{word}"' if " " in word else f"-{word}")
    return " ".join(parts)


def _build_filters(args: argparse.Namespace, console: Console) -> Filters:
    if args.agent:
        check_reader_name(args.agent)
    if args.role and args.role not in ROLES:
        raise UsageError(
            f"unknown role '{args.role[:40]}'", help=f"the roles are {', '.join(ROLES)}"
        )
    return Filters(
        agent=str(args.agent or "").replace("-", "_"),
        folder=str(console.cwd) if args.here else "",
        project=args.project,
        since=parse_time(args.since, "--since"),
        until=parse_time(args.until, "--until", is_end=True),
        role=args.role,
        tool=args.tool,
        path=args.path,
        pattern=args.regex,
    )


def _parse_limit(args: argparse.Namespace) -> int:
    if args.limit is None:
        return _DEFAULT_LIMIT
    if not re.fullmatch("[0-9]{1,6}", args.limit) or int(args.limit) == 0:
        raise UsageError("--limit must be a positive number", help="for example --limit 100")
    return int(args.limit)


def _print_sessions(result: SearchResult, query: Query, console: Console) -> None:
    now = time.time()
    id_columns = count_id_columns([session.id for session in result.sessions])
    for number, session in enumerate(result.sessions):
        if number:
            console.print("")
        title = truncate_to_columns(escape_controls(session.title), console.width())
        console.print(console.style(title, "bold", True))
        facts = [
            session.id[:id_columns],
            session.reader.replace("_", "-"),
            f"{format_age(now - session.modified)} ago",
            session.branch,
            _shorten_home(session.cwd, console),
        ]
        line = "  ".join(escape_controls(fact) for fact in facts if fact)
        console.print(console.style(truncate_to_columns(line, console.width()), "dim", True))
        for hit in session.hits:
            _print_hit(hit, query, console)
        if session.more:
            console.print(f"  and {session.more:,} more: --all")


def _print_hit(hit: Hit, query: Query, console: Console) -> None:
    who = hit.tool if hit.role in ("command", "output") and hit.tool else hit.role
    label = f"  #{hit.seq:<5} {hit.role:8} "
    if who != hit.role:
        label += f"{escape_controls(who)}: "
    snippet = _center_snippet(escape_controls(hit.snippet), query, console.width() - len(label))
    line = truncate_to_columns(label + snippet, console.width())
    console.print(line[: len(label)] + _highlight(line[len(label) :], query, console))


def _center_snippet(snippet: str, query: Query, width: int) -> str:
    """Return a snippet that begins so late that its match fits on the screen."""
    folded = fold(snippet)
    matches = [term.pattern.search(folded) for term in query.wanted]
    start = min((match.start() for match in matches if match), default=0)
    if start < width // 2:
        return snippet
    return "..." + snippet[start - width // 4 :]


def _highlight(text: str, query: Query, console: Console) -> str:
    """Color the words of the query in a line."""
    folded = fold(text)
    ranges = []
    for term in query.wanted:
        ranges += [match.span() for match in term.pattern.finditer(folded)]
    result = ""
    position = 0
    for start, end in sorted(ranges):
        if start < position:
            continue
        result += text[position:start] + console.style(text[start:end], "yellow", True)
        position = end
    return result + text[position:]


def _shorten_home(folder: str, console: Console) -> str:
    try:
        return str(Path("~") / Path(folder).relative_to(console.home)) if folder else ""
    except ValueError:
        return folder


def _print_rows(result: SearchResult, console: Console) -> None:
    for session in result.sessions:
        for hit in session.hits:
            cells = [
                session.id,
                str(hit.seq),
                hit.role,
                hit.tool,
                _format_time(hit.ts),
                hit.snippet,
            ]
            console.print("\t".join(escape_controls(cell) for cell in cells))


def _print_summary(result: SearchResult, console: Console) -> None:
    if not result.sessions:
        console.info("nothing found; words match as a whole, and pre* also finds `prefix`")
        return
    first = result.sessions[0]
    count = pluralize(len(result.sessions), "session")
    more = "" if result.is_complete else " (there are more: --limit)"
    id_columns = count_id_columns([session.id for session in result.sessions])
    hint = f"open-token show {first.id[:id_columns]} --at {first.hits[0].seq}"
    console.info(f"{count}{more}.  Read one: {escape_controls(hint)}")


def _result_to_json(result: SearchResult) -> dict[str, object]:
    return {
        "schema": "open-token/search/1",
        "is_complete": result.is_complete,
        "sessions": [_session_to_json(session) for session in result.sessions],
    }


def _session_to_json(session: FoundSession) -> dict[str, object]:
    return {
        "id": session.id,
        "reader": session.reader,
        "title": session.title,
        "cwd": session.cwd,
        "branch": session.branch,
        "modified": _format_time(session.modified),
        "path": session.path,
        "conversation": session.conversation or None,
        "more": session.more,
        "hits": [
            {
                "seq": hit.seq,
                "event_id": hit.event_id,
                "role": hit.role,
                "tool": hit.tool or None,
                "path": hit.path or None,
                "ts": _format_time(hit.ts) or None,
                "snippet": hit.snippet,
            }
            for hit in session.hits
        ],
    }


def _format_time(moment: float | None) -> str:
    return (from_epoch(int(moment)) or "") if moment is not None else ""
