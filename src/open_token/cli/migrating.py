"""`open-token server migrate`: a server's data from the data folder to PostgreSQL, or back into a
new folder."""

import asyncio
from pathlib import Path

from open_token.cli.console import Console, visible
from open_token.errors import UsageError
from open_token.server.store.choosing import mover

USAGE = (
    "write: open-token server migrate to URL --data DIR, or: migrate from URL NEW_DIR --data DIR"
)


def migrate(words: list[str], data: Path, console: Console, *, is_json: bool = False) -> int:
    """Move the data: `to URL` from the data folder, `from URL NEW_DIR` with the pepper of the data
    folder."""
    way, rest = (words[0], words[1:]) if words else ("", [])
    moving = mover()
    if way == "to" and len(rest) == 1:
        moved = asyncio.run(moving.to_postgres(data, rest[0]))
        told = "the database holds all data now; the folder is as it was: keep its file `pepper`, every node needs it"
    elif way == "from" and len(rest) == 2:
        target = console.cwd / Path(rest[1]).expanduser()
        moved = asyncio.run(moving.to_folder(rest[0], target, data / "pepper"))
        told = f"{visible(rest[1])} holds all data now; the database is as it was"
    else:
        raise UsageError("where is it to be moved?", help=USAGE)
    if is_json:
        facts = {"rows": moved.rows, "hashes": moved.hashes, "blobs": moved.blobs}
        console.json({"schema": "open-token/server-migrate/1", **facts})
    else:
        for name, count in moved.rows.items():
            console.out(f"{name}\t{count}\t{moved.hashes[name]}")
    console.say(told)
    return 0
