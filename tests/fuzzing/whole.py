"""What else can be done with an input: kept whole and restored, exported one by one, reported on,
followed."""

import io
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzzing.campaign import Violated
from fuzzing.mutate import CANARY
from helpers.restore_check import WHOLE, check_restore
from open_token.context import Context
from open_token.errors import MultipleConversationsError, OpenTokenError
from open_token.library.follow import Follower
from open_token.library.ndjson_stream import FollowStream, read_written_stream
from open_token.native.fidelity import ExportObserver, measure_fidelity
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format, require_one_conversation, select_conversation
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

MOST_CONVERSATIONS = 12
_REFUSED = ("restore.",)


def chosen(source: Source, reader: str, lot: int) -> None:
    """One of several conversations, by the number that a person would type."""
    try:
        require_one_conversation(source, reader)
    except MultipleConversationsError as several:
        names = [item.id for item in several.found]
        if len(set(names)) != len(names):
            raise Violated(f"ids of {reader}: two conversations have the same") from None
        select_conversation(source, reader, str(lot % len(names) + 1))


def check_whole(source: Source, reader: str | None, key: bytes, folder: Path) -> None:
    """With native=full what comes back is what went in, of every conversation that the input
    holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    context = Context(ExportOptions.of(WHOLE | {"exported_at": "omit"}), key=key)
    try:
        reader = reader or detect_format(source)
        require_one_conversation(source, reader)
    except MultipleConversationsError as several:
        if len(several.found) > MOST_CONVERSATIONS:
            return
    except OpenTokenError:
        return
    assert reader
    if reader == "open_token":
        return  # an export is its own source
    try:
        _, wrong = check_restore(source, reader, context, folder)
    except OpenTokenError as problem:
        if problem.code.startswith(_REFUSED):
            raise Violated(
                f"restore {problem.code} {problem.what}: of an export that is whole"
            ) from problem
        return
    if wrong:
        raise Violated(f"restore of {reader}: {wrong[0]} is not what it was")


def check_report(source: Source, reader: str | None, context: Context) -> None:
    """A report can be made of whatever can be exported, and tells nothing of what was said."""
    witness = ExportObserver()
    try:
        reader = reader or detect_format(source)
        chosen(source, reader, 0)
        receipt = export(source, io.BytesIO(), context, reader, witness)
        result = str(measure_fidelity(source, reader, witness, receipt.notes).as_json())
    except OpenTokenError as problem:
        result = str(problem)
    if CANARY in result:
        raise Violated("content in a report: it repeats what was said")


def check_follow(path: Path, reader: str | None, context: Context) -> None:
    """A session that grows while it is followed gives a valid stream, or an error of ours; broken
    off, it goes on."""
    steps = _growth(path)
    context = Context(
        context.options.changed(mode="ndjson", max_bytes=None, native="none"), key=context.key
    )
    try:
        reader = reader or detect_format(Source.of(path))
        require_one_conversation(Source.of(path), reader)
        whole = _followed(b"", path, reader, context, lambda: bool(steps) and steps.pop(0)())
        _check_stream(whole, reader)
        cut = zlib.crc32(whole) % (len(whole) + 1)
        _check_stream(_followed(whole[:cut], path, reader, context, lambda: False), reader)
    except OpenTokenError as problem:
        if CANARY in str(problem):
            raise Violated("content in a message: of a session that is followed") from problem


def _followed(
    before: bytes, path: Path, reader: str, context: Context, idle: Callable[[], bool]
) -> bytes:
    out = io.BytesIO(before)
    growing = FollowStream(out, context, "out", read_written_stream(out, "out") if before else None)
    growing.close(Follower(path, path.name, reader, context, growing, idle).run())
    return out.getvalue()


def _check_stream(stream: bytes, reader: str) -> None:
    if reader == "open_token":
        return  # a bad export stays as bad as it is
    if not stream:
        return  # no event came; the command line reports that, and leaves no file
    wrong = sorted({item.id for item in validate_bytes(stream) if item.severity == "error"})
    if wrong:
        raise Violated(f"followed {' '.join(wrong)}: the stream is not valid")


def _growth(path: Path) -> list[Callable[[], bool]]:
    """The file begins with its first half; the rest comes in two pieces, one of which may be half a
    line."""
    data = path.read_bytes()
    middle = data.find(b"\n", len(data) // 2) + 1 or len(data)
    late = middle + (len(data) - middle) // 2
    path.write_bytes(data[:middle])

    def grow(part: bytes) -> Callable[[], bool]:
        def step() -> bool:
            with path.open("ab") as out:
                out.write(part)
            return True

        return step

    return [grow(data[middle:late]), grow(data[late:])]
