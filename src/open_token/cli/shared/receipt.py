"""Status lines about a finished export: what was read, masked and written."""

from open_token.cli.shared.console import Console, escape_controls, format_size, pluralize
from open_token.cli.shared.source_selection import SelectedSource
from open_token.model.omissions import Note, summarize_omissions
from open_token.pipeline import Receipt

_MAX_SIGNATURES = 8


def print_receipt(
    receipt: Receipt,
    selected: SelectedSource,
    output: str | None,
    seconds: float,
    console: Console,
    form: str | None = None,
) -> None:
    """Report an export; `form` is its format where that is not Open-Token."""
    counts = [pluralize(receipt.events, "event"), pluralize(receipt.calls, "call")]
    if receipt.missing_results:
        counts.append(pluralize(receipt.missing_results, "missing result"))
    name = escape_controls(selected.source.name)
    console.info(f"read    {receipt.reader}  {name}  {', '.join(counts)}")
    print_notes(receipt.notes, console)
    for line in receipt.redaction:
        console.info(f"redact  {escape_controls(line)}")
    if receipt.integrity:
        console.info(f"hash    sha256:{receipt.integrity['events_hash'][:16]}")
        for entry in receipt.integrity.get("signatures", [])[:_MAX_SIGNATURES]:
            console.info(f"sign    {escape_controls(str(entry.get('keyid'))[:60])}")
    if output:
        size = format_size(receipt.bytes)
        console.info(f"wrote   {escape_controls(output)}  {size}  {seconds:.1f} s")
        _print_next_step(output, form, console)


def _print_next_step(output: str, form: str | None, console: Console) -> None:
    import shlex

    quoted = shlex.quote(escape_controls(output))
    if form is None:
        console.info(f"next    open-token verify {quoted}")
    elif form == "html":
        console.info(f"next    open {quoted} in a browser; the file is self-contained")


def print_notes(notes: list[Note], console: Console) -> None:
    """Report what the export does not include: in sum, then each with its first position."""
    summary = summarize_omissions(notes)
    if summary:
        console.info(f"omits   {summary}")
    for note in notes:
        console.info(f"note    {format_note(note)}")


def format_note(note: Note) -> str:
    """Format a note with its count and first position."""
    where = note.place
    if note.count > 1:
        where = f"{note.count:,} times, first at {note.place}"
    return f"{note.code}: {escape_controls(note.detail)} ({where})"
