"""`open-token server`: manage users, API keys and data of a session server."""

import argparse
import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from open_token.cli.shared.console import Console, escape_controls
from open_token.cli.shared.help import Help, Section
from open_token.errors import UsageError
from open_token.server.clock import Clock, format_timestamp
from open_token.server.config import ServerConfig
from open_token.server.config_loader import load_config
from open_token.server.store import backup as copies
from open_token.server.store.factory import open_shared_user_admin
from open_token.server.store.rows import KeyRow, User
from open_token.server.store.sqlite.user_admin import UserAdmin, open_user_admin

MIGRATE_USAGE = "use `migrate to URL --data DIR`, or `migrate from URL NEW_DIR --data DIR`"
HELP = Help(
    summary="Manage the users, API keys and data of a session server, also while it runs.",
    usage=("server COMMAND [OPTIONS]",),
    sections=(
        Section(
            "Users and keys",
            (
                ("user add NAME", "Add a user and print an API key, which is shown once"),
                ("user list", "List users"),
                ("user disable NAME", "Disable a user, with immediate effect"),
                ("user enable NAME", "Enable a user"),
                ("key add [USER]", "Add an API key [default user: the owner]"),
                ("key list [USER]", "List API keys"),
                ("key revoke KEY_ID", "Revoke an API key, with immediate effect"),
            ),
        ),
        Section(
            "Data",
            (
                ("backup TARGET", "Write a consistent copy of all data to a new folder"),
                ("restore BACKUP", "Create the data folder --data from a backup"),
                ("check", "Check the data for damage"),
                ("migrate to URL", "Copy the data to an empty PostgreSQL database"),
                ("migrate from URL DIR", "Copy the data from PostgreSQL to a new folder"),
            ),
        ),
    ),
    exit_codes=(
        ("0", "Done"),
        ("1", "check: damage found"),
        ("2", "Invalid usage"),
        ("3", "Cannot read or write data"),
    ),
    examples=(
        ("open-token server user add ben", ""),
        ("open-token server key add --name viewer --read", "Add a read-only key"),
        ("open-token server backup ~/backups/monday", ""),
    ),
)
_USER_USAGE = "user add NAME, user list, user disable NAME, user enable NAME"
_KEY_USAGE = "key add [USER], key list [USER], key revoke KEY_ID"
_MAX_NAME_LENGTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand with its words, and the location of the data."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    storage = parser.add_argument_group("Storage")
    storage.add_argument("--data", metavar="DIR", help="Data folder, as for `open-token serve`")
    storage.add_argument(
        "--database", metavar="URL", help="PostgreSQL database, as for `open-token serve`"
    )
    keys = parser.add_argument_group("New keys")
    keys.add_argument("--name", metavar="NAME", help="Name of the key")
    keys.add_argument("--read", action="store_true", help="Create a read-only key")
    check = parser.add_argument_group("Check")
    check.add_argument("--deep", action="store_true", help="Read every stored tool result too")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run a subcommand."""
    config = load_config({"data": args.data, "database": args.database}, console.env)
    command = args.words[0] if args.words else ""
    words = args.words[1:]
    if command in ("user", "key"):
        return _run_people_command(command, words, args, config, console)
    if command == "migrate":
        return migrate_data(words, config.data, console, is_json=args.json)
    if command not in ("backup", "restore", "check"):
        raise UsageError(
            "server needs a command: user, key, backup, restore, migrate or check",
            help="see `open-token server --help`",
        )
    # The commands below copy and check files; PostgreSQL has its own tools for that.
    if config.database is not None:
        raise UsageError(
            f"`server {command}` does not support PostgreSQL",
            help="use pg_dump, pg_restore and pg_amcheck, "
            "or copy the data to a folder with `server migrate from`",
        )
    if command == "backup":
        return _backup(words, config, console)
    if command == "restore":
        return _restore(words, args, config, console)
    return _check(words, args, config, console)


PeopleCommand = Callable[[UserAdmin, list[str], argparse.Namespace, Console], int]


def _run_people_command(
    noun: str, words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    commands: dict[tuple[str, str], PeopleCommand] = {
        ("user", "add"): _add_user,
        ("user", "list"): _list_users,
        ("user", "disable"): _disable_user,
        ("user", "enable"): _enable_user,
        ("key", "add"): _add_key,
        ("key", "list"): _list_keys,
        ("key", "revoke"): _revoke_key,
    }
    action = words[0] if words else ""
    command = commands.get((noun, action))
    if command is None:
        usage = _USER_USAGE if noun == "user" else _KEY_USAGE
        raise UsageError(f"`server {noun}` needs a command", help=f"use {usage}")
    if config.database:
        store = open_shared_user_admin(config.data, config.database)
    else:
        store = open_user_admin(config.data)
    with store as people:
        return command(people, words[1:], args, console)


def _add_user(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    (name,) = _expect_words(words, 1, "user add NAME")
    if not name.strip() or len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise UsageError(
            f"a user name must have 1 to {_MAX_NAME_LENGTH} printable characters",
            help="for example: open-token server user add ben",
        )
    now = _now()
    user = people.add_user(User(id=Clock().name("user"), name=name, role="user", created_at=now))
    return _create_key(people, user, args.name or "first key", args, console)


def _list_users(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    _expect_words(words, 0, "user list")
    users = people.users()
    if args.json:
        listed = [_user_to_json(user) for user in users]
        console.print_json({"schema": "open-token/server-users/1", "users": listed})
        return 0
    for user in users:
        state = f"disabled {user.disabled_at}" if user.disabled_at else "active"
        name = escape_controls(user.name)
        console.print(f"{user.id}\t{name}\t{user.role}\t{user.created_at}\t{state}")
    return 0


def _disable_user(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    return _set_disabled(people, words, console, _now(), "disable")


def _enable_user(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    return _set_disabled(people, words, console, None, "enable")


def _set_disabled(
    people: UserAdmin, words: list[str], console: Console, disabled_at: str | None, verb: str
) -> int:
    (name,) = _expect_words(words, 1, f"user {verb} NAME")
    user = _find_user(people, name)
    if not people.disable_user(user.id, disabled_at):
        raise UsageError("the owner cannot be disabled", help="revoke the owner's keys instead")
    console.info(f"{verb}d {escape_controls(user.name)}")
    return 0


def _add_key(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    user = _find_user(people, _expect_optional_word(words, "key add [USER]"))
    return _create_key(people, user, args.name or "made on the command line", args, console)


def _create_key(
    people: UserAdmin, user: User, name: str, args: argparse.Namespace, console: Console
) -> int:
    scope: Literal["read", "full"] = "read" if args.read else "full"
    key, plaintext = people.add_key(user.id, name, scope, _now())
    if args.json:
        message = {"schema": "open-token/server-key/1", **_key_to_json(key)}
        console.print_json({**message, "plaintext": plaintext})
    else:
        console.print(plaintext)
    rights = "can read" if key.scope == "read" else "can read and change"
    console.info(f"This key is shown only once. Its id is {key.id}; it {rights} its user's data.")
    return 0


def _list_keys(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    user = _find_user(people, _expect_optional_word(words, "key list [USER]"))
    keys = people.keys(user.id)
    if args.json:
        listed = [_key_to_json(key) for key in keys]
        console.print_json({"schema": "open-token/server-keys/1", "user": user.id, "keys": listed})
        return 0
    for key in keys:
        name = escape_controls(key.name)
        used = key.last_used_at or "never used"
        console.print(f"{key.id}\t{key.masked}\t{key.scope}\t{name}\t{key.created_at}\t{used}")
    return 0


def _revoke_key(
    people: UserAdmin, words: list[str], args: argparse.Namespace, console: Console
) -> int:
    (key_id,) = _expect_words(words, 1, "key revoke KEY_ID")
    if not any(people.revoke_key(user.id, key_id, _now()) for user in people.users()):
        raise UsageError("no such key", help="list the ids with `open-token server key list USER`")
    console.info("revoked")
    return 0


def _backup(words: list[str], config: ServerConfig, console: Console) -> int:
    (name,) = _expect_words(words, 1, "backup TARGET")
    target = Path(name).expanduser()
    copies.backup(config.data, console.cwd / target)
    console.info(f"copied to {escape_controls(str(target))}")
    return 0


def _restore(
    words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    (source,) = _expect_words(words, 1, "restore BACKUP --data DIR")
    if args.data is None:
        raise UsageError("`server restore` needs --data DIR", help="name a new folder")
    copies.restore(console.cwd / Path(source).expanduser(), config.data)
    console.info(f"restored to {escape_controls(str(config.data))}")
    return 0


def _check(
    words: list[str], args: argparse.Namespace, config: ServerConfig, console: Console
) -> int:
    _expect_words(words, 0, "check")
    faults = copies.check(config.data, is_deep=args.deep)
    if args.json:
        console.print_json(
            {"schema": "open-token/server-check/1", "sound": not faults, "found": faults}
        )
        return 1 if faults else 0
    for fault in faults:
        console.print(escape_controls(fault))
    if faults:
        console.info("damaged: restore the last backup to a new folder")
        return 1
    console.info("no damage found")
    return 0


def migrate_data(words: list[str], data: Path, console: Console, *, is_json: bool = False) -> int:
    """Copy the data: `to URL` from the data folder, or `from URL NEW_DIR`."""
    from open_token.server.store.factory import load_migration

    direction = words[0] if words else ""
    arguments = words[1:]
    if direction == "to" and len(arguments) == 1:
        moved = asyncio.run(load_migration().to_postgres(data, arguments[0]))
        message = (
            "copied to the database; the folder is unchanged. "
            "Keep its file `pepper`: every node needs it"
        )
    elif direction == "from" and len(arguments) == 2:
        target = console.cwd / Path(arguments[1]).expanduser()
        moved = asyncio.run(load_migration().to_folder(arguments[0], target, data / "pepper"))
        message = f"copied to {escape_controls(arguments[1])}; the database is unchanged"
    else:
        raise UsageError("`server migrate` needs a direction", help=MIGRATE_USAGE)
    if is_json:
        counts = {"rows": moved.rows, "hashes": moved.hashes, "blobs": moved.blobs}
        console.print_json({"schema": "open-token/server-migrate/1", **counts})
    else:
        for name, count in moved.rows.items():
            console.print(f"{name}\t{count}\t{moved.hashes[name]}")
    console.info(message)
    return 0


def _find_user(people: UserAdmin, name: str | None) -> User:
    """Find a user by name or id; None means the owner."""
    for user in people.users():
        if name is None and user.role == "owner":
            return user
        if name is not None and name in (user.name, user.id):
            return user
    raise UsageError("no such user", help="list the users with `open-token server user list`")


def _user_to_json(user: User) -> dict[str, Any]:
    names = ("id", "name", "role", "created_at", "disabled_at")
    return {name: getattr(user, name) for name in names}


def _key_to_json(key: KeyRow) -> dict[str, Any]:
    names = ("id", "user_id", "name", "scope", "masked", "created_at", "last_used_at")
    return {name: getattr(key, name) for name in names}


def _expect_words(words: list[str], count: int, usage: str) -> list[str]:
    if len(words) != count:
        raise UsageError("wrong number of arguments", help=f"use `open-token server {usage}`")
    return words


def _expect_optional_word(words: list[str], usage: str) -> str | None:
    if words:
        return _expect_words(words, 1, usage)[0]
    return None


def _now() -> str:
    return format_timestamp(datetime.now(UTC))
