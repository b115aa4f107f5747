"""What a Python program calls to sign an export, and to see who signed one: reads the clock and the
settings."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from open_token.checking.verify import Verdict
from open_token.checking.verify import verify as run_verify
from open_token.errors import InputError, UsageError
from open_token.model import Export
from open_token.settings import load_signing_settings
from open_token.signatures.trust import Signer, Trust, read_signers
from open_token.signing import signed, signer
from open_token.storage.files import read_if_there


def sign(document: Export, key: str | Path | None = None, *, scheme: str = "sshsig") -> Export:
    """The document with one signature more, by the key of a file, else by `sign_key` of the
    settings.

    It must verify; one that this key has signed already stays as it is."""
    return cast(
        Export, signed(cast(dict[str, Any], document), signer(key_file(key, os.environ), scheme))
    )


def key_file(named: str | Path | None, env: Mapping[str, str]) -> Path:
    """The file of the key to sign with: the one named, else that of the settings."""
    if named is not None:
        return _named(named, "key to sign with")
    if (key := load_signing_settings(env).key) is None:
        raise UsageError(
            "no key to sign with was named",
            help='name a private SSH key, or write sign_key = "~/.ssh/id_ed25519" into config.toml of the settings',
        )
    return key


def verify(document: Any, *, trust: str | Path | None = None) -> Verdict:
    """Whether a document is as it was written, and signed by whom.

    `trust` is a file in the form of OpenSSH's allowed_signers, or a public key; without it the list
    of the settings."""
    return run_verify(document, trusted(trust, os.environ))


def trusted(named: str | Path | None, env: Mapping[str, str]) -> Trust | None:
    """Those whom the reader trusts: of the file named, else of the settings; None where nobody is
    listed."""
    path = (
        load_signing_settings(env).signers
        if named is None
        else _named(named, "list of trusted signers")
    )
    if path is None:
        return None
    listed = cache(partial(_listed, path))
    if named is not None:
        listed()  # what was named is read in any case; the settings trouble nobody who looks at an unsigned file
    return Trust(listed, datetime.now(UTC))


def _named(name: str | Path, what: str) -> Path:
    """The file of that name; an empty one, as of a variable that is not set, never means that of
    the settings."""
    if name == "":
        raise UsageError(
            f"the name of the {what} is empty", help="name a file, or leave the option out"
        )
    return Path(name).expanduser()


def _listed(path: Path) -> tuple[Signer, ...]:
    raw = read_if_there(path)
    if raw is None:
        raise InputError(
            "there is no such list of trusted signers",
            where=str(path),
            help="check the path",
            code="sign.trust",
        )
    return read_signers(raw, str(path))
