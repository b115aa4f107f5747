"""What all comparisons share: the items of a conversation, those of an export, and the table.

A module of this package folds one format: it reads a source with the standard library alone, by
rules of its own, into the items that an export must hold. It never uses code of the readers, or a
bug would be on both sides and not be seen.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

MAIN = ""
"""The name of the main thread."""
KINDS = ("human", "prompt", "client", "answer", "thought", "call", "result", "missing")
# An export puts a missing result behind its call, and has more words of the runtime than a fold.
_UNORDERED = ("client", "missing")
OPTIONS: dict[str, Any] = {
    "redact": "none",
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
}
_MEDIA = ("image", "document", "audio", "video", "file")
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Item(NamedTuple):
    """One thing that was said or done, in a form that can be compared."""

    kind: str
    """`human`: a person's words; `client`: the runtime's, in the person's place; `prompt`: what one
    agent sent to another; `answer` and `thought`: the model's; `call`, `result`; `missing`: no result."""
    text: str


@dataclass
class Fold:
    """The items of a conversation by thread, in order, and its tokens."""

    threads: dict[str, list[Item]] = field(default_factory=dict)
    tokens: Counter[str] = field(default_factory=Counter)

    def add(self, thread: str, kind: str, text: str) -> None:
        """Add an item to the end of a thread; half characters are not comparable."""
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.threads.setdefault(thread, []).append(Item(kind, text))

    def add_tokens(self, usage: dict[str, int]) -> None:
        """Add token counts; counts of zero are left out."""
        for name in _TOKENS:
            if usage.get(name):
                self.tokens[name] += usage[name]

    def count(self) -> Counter[str]:
        """Count the items of each kind, and the subagents."""
        counts = Counter(item.kind for items in self.threads.values() for item in items)
        counts["threads"] = len(self.threads)
        return counts


def dump(value: Any) -> str:
    """Return JSON in one form, with media reduced to their type."""
    return json.dumps(_reduce(value), ensure_ascii=False, sort_keys=True)


def _reduce(value: Any) -> Any:
    if isinstance(value, list):
        return [_reduce(item) for item in value]
    if isinstance(value, dict):
        if value.get("type") in _MEDIA:
            return {"type": value["type"]}
        return {key: _reduce(item) for key, item in value.items() if key != "cache_control"}
    # A fraction of zero is no difference: 1.0 is written as 1.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def describe_call(call_id: str | None, tool: str, arguments: Any) -> str:
    """Return a call in the form in which calls are compared."""
    if not isinstance(arguments, dict | list):
        arguments = {} if arguments is None else {"raw": arguments}
    return f"{call_id or '-'} {tool} {dump(arguments)}"


def describe_result(call_id: str | None, output: Any) -> str:
    """Return a result in the form in which results are compared."""
    return f"{call_id or '-'} {output if isinstance(output, str) else dump(output)}"


def fold_export(document: dict[str, Any]) -> Fold:
    """Fold an Open-Token document."""
    fold = Fold()
    kinds = {person["actor_id"]: person["kind"] for person in document["participants"]}
    native_ids: dict[str, str] = {}
    threads: dict[str, str] = {}
    unnamed = 0
    for event in document["events"]:
        links = event.get("links", {})
        content = event.get("content", {})
        data = content.get("data")
        span = links.get("span_id")
        if event["type"] == "span_start":
            is_subagent = isinstance(data, dict) and data.get("kind") == "subagent"
            threads[span] = MAIN
            if is_subagent:
                threads[span] = data.get("agent_id")
                if not threads[span]:
                    # Subagents without a name are distinguished by their order.
                    unnamed += 1
                    threads[span] = f"#{unnamed}"
                fold.threads.setdefault(threads[span], [])
        thread = threads.get(span, MAIN) if span else MAIN
        fold.add_tokens(event.get("usage", {}))
        if event["type"] == "message":
            kind = _classify_message(event.get("role"), kinds[event["actor_id"]])
            fold.add(thread, kind, _read_content(content, kind))
        elif event["type"] == "tool_use":
            native_id = data.get("native_call_id")
            native_ids[links["call_id"]] = native_id
            fold.add(thread, "call", describe_call(native_id, data["tool_name"], data["arguments"]))
        elif event["type"] == "tool_result":
            native_id = native_ids.get(links["call_id"])
            if data == {"missing_result": True}:
                fold.add(thread, "missing", str(native_id))
                continue
            output = content.get("text", data)
            fold.add(thread, "result", describe_result(native_id, output))
    return fold


def _classify_message(role: str | None, actor: str) -> str:
    if role == "assistant_thought":
        return "thought"
    if role == "assistant":
        return "answer"
    return {"human": "human", "model": "prompt"}.get(actor, "client")


def _read_content(content: dict[str, Any], kind: str) -> str:
    if "text" in content:
        return str(content["text"])
    data = content.get("data")
    # Reasoning that is encrypted has no text.
    if kind == "thought" and isinstance(data, dict) and data.get("encrypted"):
        return ""
    return dump(data)


@dataclass
class Comparison:
    """How an export differs from the independent fold of its source."""

    source: Fold
    export: Fold
    missing: Counter[Item] = field(default_factory=Counter)
    extra: Counter[Item] = field(default_factory=Counter)
    misordered: list[str] = field(default_factory=list)
    """Threads with the right items in another order."""

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.extra or self.misordered) and self.has_equal_tokens

    @property
    def has_equal_tokens(self) -> bool:
        """Whether both have the same token counts."""
        return self.source.tokens == self.export.tokens


def compare(source: Fold, export: Fold) -> Comparison:
    """Compare thread by thread.

    Words of the runtime may be more in the export, and anywhere: a fold has only those that stand
    in the place of a person's.
    """
    result = Comparison(source, export)
    for thread in source.threads.keys() | export.threads.keys():
        given = source.threads.get(thread, [])
        found = export.threads.get(thread, [])
        given_count = Counter(given)
        found_count = Counter(found)
        result.missing += given_count - found_count
        surplus = found_count - given_count
        result.extra += Counter({item: n for item, n in surplus.items() if item.kind != "client"})
        given_order = [item for item in given if item.kind not in _UNORDERED]
        found_order = [item for item in found if item.kind not in _UNORDERED]
        has_same_items = Counter(given_order) == Counter(found_order)
        if has_same_items and given_order != found_order:
            result.misordered.append(thread or "main")
    return result


def list_files(paths: Iterable[str], is_session: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the given files, and the session files below the given folders."""
    for name in paths:
        path = Path(name)
        if path.is_dir():
            yield from sorted(
                found for found in path.rglob("*") if found.is_file() and is_session(found)
            )
        else:
            yield path


def run(
    fold: Callable[[Path], Fold],
    paths: Iterable[str],
    *,
    reader: str,
    is_session: Callable[[Path], bool],
    show: int = 0,
) -> int:
    """Compare all sessions, print a table, and return the exit status: 1 if any differs.

    `show` is the number of differences to print of each session, shortened.
    """
    from open_token import export
    from open_token.errors import InputError

    totals: Counter[str] = Counter()
    columns = ("threads", *KINDS)
    print("session".ljust(40), *(name.rjust(8) for name in columns), "  result")
    for path in list_files(paths, is_session):
        try:
            source = fold(path)
            found = fold_export(export(path, reader=reader, **OPTIONS))
        except (InputError, ValueError) as error:
            totals["refused"] += 1
            print(path.stem[:40].ljust(40), f"refused: {type(error).__name__}: {error}"[:120])
            continue
        result = compare(source, found)
        counts = source.count()
        totals.update(counts)
        totals["sessions"] += 1
        totals["different"] += not result.is_equal
        print(
            path.stem[:40].ljust(40),
            *(str(counts[name]).rjust(8) for name in columns),
            " ",
            _format_verdict(result),
        )
        _print_differences(result, show)
    print("all".ljust(40), *(str(totals[name]).rjust(8) for name in columns))
    print(
        f"{totals['sessions']} sessions compared, {totals['different']} differ, "
        f"{totals['refused']} refused"
    )
    return 1 if totals["different"] or totals["refused"] else 0


def _format_verdict(result: Comparison) -> str:
    if result.is_equal:
        return "equal"
    parts = []
    for name, items in (("missing", result.missing), ("extra", result.extra)):
        kinds = Counter(item.kind for item in items.elements())
        parts += [f"{count} {name} {kind}" for kind, count in sorted(kinds.items())]
    if result.misordered:
        parts.append(f"other order in {', '.join(result.misordered[:3])}")
    if not result.has_equal_tokens:
        for name in _TOKENS:
            source, export = result.source.tokens[name], result.export.tokens[name]
            if source != export:
                parts.append(f"{name} {export} of {source}")
    return "; ".join(parts)


def _print_differences(result: Comparison, show: int) -> None:
    for sign, items in (("-", result.missing), ("+", result.extra)):
        for item in list(items.elements())[:show]:
            digest = hashlib.sha256(item.text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            print(f"    {sign} {item.kind} {digest} {item.text[:160]!r}")


def read_json_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a file of JSON lines; a half last line is left out.

    Where a line break is missing, the values on one line are separated.
    """
    lines = path.read_text("utf-8", "replace").split("\n")
    decoder = json.JSONDecoder()
    for number, line in enumerate(lines, 1):
        rest = line.strip()
        while rest:
            try:
                value, end = decoder.raw_decode(rest)
            except ValueError:
                if number == len(lines):
                    return
                raise ValueError(f"line {number} is not valid JSON") from None
            yield value
            rest = rest[end:].lstrip()


def parse_arguments(arguments: list[str]) -> tuple[list[str], int]:
    """Return paths and the number of differences to show (`--show N`)."""
    show = 0
    if "--show" in arguments:
        place = arguments.index("--show")
        show = int(arguments[place + 1])
        arguments = arguments[:place] + arguments[place + 2 :]
    if not arguments:
        sys.exit("give files or folders to compare")
    return arguments, show
