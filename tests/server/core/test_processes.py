"""Processes: followed to their end, and nothing is left of them."""

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.server.core.processes import BoundedOutput, run_to_end
from open_token.server.core.sandbox import CommandLimits, Sandbox

FREE = Sandbox(shell="/bin/bash")


def is_gone(path: Path) -> bool:
    """Whether the process whose number was written down ends; the system may take a moment for
    it."""
    place = Path("/proc") / path.read_text().strip()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            if (place / "stat").read_text().rpartition(") ")[2][0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def command(folder: Path, script: str):
    return FREE.command(folder, script, {}, 30, CommandLimits(disk_bytes=1 << 20))


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_beginning_and_end_are_kept(pieces: list[bytes], most: int) -> None:
    kept = BoundedOutput(most)
    for piece in pieces:
        kept.add(piece)
    whole, half = b"".join(pieces), most // 2
    text = kept.text()
    if len(whole) <= 2 * half:
        assert (text.replace("�", ""), kept.is_truncated) == (
            (
                whole[:half].decode("utf-8", "replace") + whole[half:].decode("utf-8", "replace")
            ).replace("�", ""),
            False,
        )
    else:
        assert kept.is_truncated
        assert f"[... {len(whole) - 2 * half} bytes omitted ...]" in text
        assert text.startswith(whole[:half].decode("utf-8", "replace"))
        assert text.endswith(whole[-half:].decode("utf-8", "replace"))


def test_much_output_takes_little_memory() -> None:
    kept = BoundedOutput(1000)
    for _ in range(1000):
        kept.add(b"x" * 65_536)
    assert len(kept.text()) < 1100


def test_output_and_exit_code(tmp_path: Path) -> None:
    kept = BoundedOutput(1000)
    assert (
        asyncio.run(run_to_end(command(tmp_path, "echo out; echo err >&2; exit 3"), kept.add, 20))
        == 3
    )
    assert kept.text() == "out\nerr\n"


def test_time_is_limited_and_the_whole_group_ends(tmp_path: Path) -> None:
    kept = BoundedOutput(1000)
    script = "sleep 300 & echo $! > pid; trap '' TERM; echo begun; sleep 300"
    assert asyncio.run(run_to_end(command(tmp_path, script), kept.add, 1)) is None
    assert kept.text() == "begun\n"
    assert is_gone(tmp_path / "pid")


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    kept = BoundedOutput(1000)
    assert (
        asyncio.run(run_to_end(command(tmp_path, "sleep 300 & echo $! > pid"), kept.add, 20)) == 0
    )
    assert is_gone(tmp_path / "pid")


def test_whoever_stops_waiting_stops_the_command(tmp_path: Path) -> None:
    async def do() -> None:
        seen = asyncio.Event()
        work = asyncio.create_task(
            run_to_end(
                command(tmp_path, "echo $$ > pid; echo x; sleep 300"), lambda _: seen.set(), 99
            )
        )
        await seen.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(do())
    assert is_gone(tmp_path / "pid")
