"""A worker that has a run and writes for it until it learns that it no longer has it; for tests
that stop and wake it.

python tests/helpers/server/paused_worker.py FOLDER TOKEN"""

import asyncio
import sys
from pathlib import Path

from helpers.server.stores import ANNA, at, open_test_postgres
from open_token.server.store.interface import FencedError
from open_token.server.store.rows import Fence, NewEntry, SessionWrite


async def work(folder: Path, token: int) -> None:
    store, number = open_test_postgres(folder), 0
    try:
        while True:
            entry = NewEntry(kind="noted", at=at(0), data={"token": token, "number": number})
            fence = Fence(run_id="run_1", token=token)
            result = await store.append(
                SessionWrite(owner=ANNA, session_id="sess_1", entries=[entry], fence=fence)
            )
            print("wrote", number, result.first, flush=True)
            number += 1
    except FencedError:
        print("fenced", number, 0, flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
