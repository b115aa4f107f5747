"""Find the answers of the model that are summaries for a compaction."""

from collections.abc import Iterable, Iterator

from open_token.agents.codex.duplicates import WINDOW, get_texts
from open_token.agents.codex.records import Line


def mark_summaries(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield all lines; mark answers that only serve as summary of the compaction after them.

    Newer versions (seen in 0.169) store the summary that the model wrote as an item before the
    compaction. No event shows it: the person never saw it.
    """
    held: list[Line] = []
    for line in lines:
        if held and (line.kind in ("response_item", "compacted") or len(held) == WINDOW):
            held[0].is_summary = _is_summary(held[0], line)
            yield from held
            held = []
        if held or _is_answer(line):
            held.append(line)
        else:
            yield line
    yield from held


def _is_answer(line: Line) -> bool:
    payload = line.payload
    return (
        line.kind == "response_item"
        and payload.get("type") == "message"
        and payload.get("role") == "assistant"
    )


def _is_summary(answer: Line, following: Line) -> bool:
    if following.kind != "compacted" or answer.is_shown:
        return False
    text = "".join(get_texts(answer.payload.get("content")))
    summary = following.payload.get("message")
    if not text or not isinstance(summary, str):
        return False
    # The client puts a line of its own before the summary.
    return summary == text or summary.endswith("\n" + text)
