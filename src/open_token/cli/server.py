"""`open-token server`: the people, keys and data of a session server, also while it runs."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from open_token.cli.console import Console, visible
from open_token.cli.migrating import migrate
from open_token.errors import UsageError
from open_token.server.clock import Clock, iso
from open_token.server.config import ServerConfig
from open_token.server.loading import load_config
from open_token.server.store import backup as copies
from open_token.server.store.beside import People, people_of
from open_token.server.store.rows import KeyRow, User
from open_token.server.store.shared_people import shared_people

HELP = """Manage the people, the keys and the data of a session server, also while it runs.

usage: open-token server WHAT [WORDS] [--data DIR]

  open-token server user add ben              a person, and one key for them, shown once
  open-token server key add --name viewer --read
  open-token server backup ~/backups/monday

  user add NAME | list | disable NAME | enable NAME
  key add [USER] [--name NAME] [--read] | list [USER] | revoke KEY_ID
                         without USER the owner; a key made with --read changes nothing
  backup TARGET          copy all data as they are at one moment into a new folder
  restore BACKUP --data DIR   make a data folder of a backup, which must be sound
  migrate to URL | from URL NEW_DIR   copy the data into an empty PostgreSQL database, or back
  check [--deep]         look for damage; --deep reads every stored result too
  --data DIR, --database URL   where the server has its data, as for `open-token serve`
A key that is revoked and a person who is disabled are out at once.
Exit: 0 done  1 check found damage  2 usage  3 data cannot be read or written
"""

_USERS, _KEYS = (
    "user add NAME, user list, user disable NAME, user enable NAME",
    "key add, key list, key revoke KEY_ID",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Words, and where the data are."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--data")
    parser.add_argument("--database")
    parser.add_argument("--name")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--deep", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Do what the first words say."""
    config = load_config({"data": args.data, "database": args.database}, console.env)
    what, rest = (args.words[0], args.words[1:]) if args.words else ("", [])
    if what in ("user", "key"):
        return _people(what, rest, args, config, console)
    if what == "migrate":
        return migrate(rest, config.data, console, is_json=args.json)
    doing: dict[str, Callable[..., int]] = {"backup": _backup, "restore": _restore, "check": _check}
    if what not in doing:
        raise UsageError(
            "what is to be done?",
            help="user, key, backup, restore, migrate or check: see `open-token server --help`",
        )
    if config.database is not None:
        raise UsageError(
            "the data are in PostgreSQL",
            help="pg_dump, pg_restore and pg_amcheck copy and check them; `server migrate from` makes a folder of them",
        )
    return doing[what](rest, args, config, console)


def _people(
    what: str, words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    table = {
        ("user", "add"): _add_user,
        ("user", "list"): _list_users,
        ("user", "disable"): _disable_user,
        ("user", "enable"): _enable_user,
        ("key", "add"): _add_key,
        ("key", "list"): _list_keys,
        ("key", "revoke"): _revoke_key,
    }
    done = table.get((what, words[0] if words else ""))
    if done is None:
        raise UsageError(
            f"what is to be done with a {what}?", help=_USERS if what == "user" else _KEYS
        )
    there = (
        shared_people(config.data, config.database) if config.database else people_of(config.data)
    )
    with there as people:
        return done(people, words[1:], args, console)


def _add_user(people: People, words: list[str], args: argparse.Namespace, console: Console) -> int:
    (name,) = _exactly(words, 1, "user add NAME")
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise UsageError(
            "a name has 1 to 100 letters", help="as in: open-token server user add ben"
        )
    now = _now()
    user = people.add_user(User(id=Clock().name("user"), name=name, role="user", created_at=now))
    return _tell_key(
        *people.add_key(user.id, args.name or "first key", "read" if args.read else "full", now),
        args,
        console,
    )


def _list_users(
    people: People, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    _exactly(words, 0, "user list")
    users = people.users()
    if args.json:
        console.json(
            {"schema": "open-token/server-users/1", "users": [_user(user) for user in users]}
        )
        return 0
    for user in users:
        state = f"disabled {user.disabled_at}" if user.disabled_at else "active"
        console.out(f"{user.id}\t{visible(user.name)}\t{user.role}\t{user.created_at}\t{state}")
    return 0


def _disable_user(
    people: People, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    return _switch(people, words, console, _now(), "disable")


def _enable_user(
    people: People, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    return _switch(people, words, console, None, "enable")


def _switch(people: People, words: list[str], console: Console, at: str | None, verb: str) -> int:
    user = _found(people, _exactly(words, 1, f"user {verb} NAME")[0])
    if not people.disable_user(user.id, at):
        raise UsageError("the owner cannot be locked out", help="revoke the owner's keys instead")
    console.say(f"{visible(user.name)} is {verb}d")
    return 0


def _add_key(people: People, words: list[str], args: argparse.Namespace, console: Console) -> int:
    user = _found(people, words[0] if _at_most_one(words, "key add [USER]") else None)
    made = people.add_key(
        user.id, args.name or "made on the command line", "read" if args.read else "full", _now()
    )
    return _tell_key(*made, args, console)


def _list_keys(people: People, words: list[str], args: argparse.Namespace, console: Console) -> int:
    user = _found(people, words[0] if _at_most_one(words, "key list [USER]") else None)
    keys = people.keys(user.id)
    if args.json:
        console.json(
            {
                "schema": "open-token/server-keys/1",
                "user": user.id,
                "keys": [_key(key) for key in keys],
            }
        )
        return 0
    for key in keys:
        used = key.last_used_at or "never used"
        console.out(
            f"{key.id}\t{key.masked}\t{key.scope}\t{visible(key.name)}\t{key.created_at}\t{used}"
        )
    return 0


def _revoke_key(
    people: People, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    (key_id,) = _exactly(words, 1, "key revoke KEY_ID")
    if not any(people.revoke_key(user.id, key_id, _now()) for user in people.users()):
        raise UsageError(
            "there is no such key", help="`open-token server key list USER` tells the ids"
        )
    console.say("revoked")
    return 0


def _backup(
    words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    target = Path(_exactly(words, 1, "backup TARGET")[0]).expanduser()
    copies.backup(config.data, console.cwd / target)
    console.say(f"copied to {visible(str(target))}")
    return 0


def _restore(
    words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    (source,) = _exactly(words, 1, "restore BACKUP --data DIR")
    if args.data is None:
        raise UsageError("where to?", help="name a new folder: restore BACKUP --data DIR")
    copies.restore(console.cwd / Path(source).expanduser(), config.data)
    console.say(f"restored to {visible(str(config.data))}")
    return 0


def _check(
    words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    _exactly(words, 0, "check")
    found = copies.check(config.data, is_deep=args.deep)
    if args.json:
        console.json({"schema": "open-token/server-check/1", "sound": not found, "found": found})
        return int(bool(found))
    for fault in found:
        console.out(visible(fault))
    console.say("damaged: restore the last backup into a new folder" if found else "sound")
    return int(bool(found))


def _found(people: People, name: str | None) -> User:
    users = people.users()
    for user in users:
        if user.role == "owner" if name is None else name in (user.name, user.id):
            return user
    raise UsageError(
        "there is no such user", help="`open-token server user list` tells who there is"
    )


def _tell_key(key: KeyRow, plaintext: str, args: argparse.Namespace, console: Console) -> int:
    if args.json:
        console.json({"schema": "open-token/server-key/1", **_key(key), "plaintext": plaintext})
    else:
        console.out(plaintext)
    may = "may only read" if key.scope == "read" else "may read and change"
    console.say(f"This key is shown once. Its id is {key.id}, and it {may} what is its user's.")
    return 0


def _user(user: User) -> dict[str, Any]:
    return {
        name: getattr(user, name) for name in ("id", "name", "role", "created_at", "disabled_at")
    }


def _key(key: KeyRow) -> dict[str, Any]:
    names = ("id", "user_id", "name", "scope", "masked", "created_at", "last_used_at")
    return {name: getattr(key, name) for name in names}


def _exactly(words: list[str], count: int, usage: str) -> list[str]:
    if len(words) != count:
        raise UsageError(
            "these are too many or too few words", help=f"write: open-token server {usage}"
        )
    return words


def _at_most_one(words: list[str], usage: str) -> bool:
    return bool(_exactly(words, 1, usage)) if words else False


def _now() -> str:
    return iso(datetime.now(UTC))
