"""Runs ssh-keygen: a fixed list of words, data by pipes alone, a time limit, and nothing of what it
says passed on."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from open_token.errors import SigningError
from open_token.signatures.trust import NAMESPACE, Signer

LONGEST = 16384
"""The largest signature that is looked at; it fits into a pipe that nobody reads yet."""

_COMMAND = "ssh-keygen"
_TO_SIGN, _TO_CHECK = 180, 60


class NoKeygen(Exception):
    """There is no ssh-keygen that can be run."""


def must_be_there() -> None:
    """Refuse to begin where there is no ssh-keygen."""
    if shutil.which(_COMMAND) is None:
        raise _missing()


def _missing() -> SigningError:
    return SigningError(
        "ssh-keygen is not installed",
        help="install OpenSSH, or sign with an Ed25519 key by the scheme dsse-ed25519",
        code="sign.tool",
    )


def made_with(key: str, statement: bytes, *, is_alone: bool = False) -> str:
    """The armoured signature of a statement; the key is a private one, or a public one that an
    agent holds.

    Where a process is alone, nobody is asked for a passphrase: a key that needs one cannot sign.
    """
    try:
        done = _run(["sign", "-n", NAMESPACE, "-f", key], statement, (), _TO_SIGN, is_alone)
    except NoKeygen:
        raise _missing() from None
    except subprocess.TimeoutExpired:
        raise SigningError(
            "the key did not answer in time",
            where=key,
            help="unlock it, or touch it when it asks for that; nothing was written",
            code="sign.key",
        ) from None
    if done.returncode and b"UNPROTECTED PRIVATE KEY" in done.stderr:
        raise SigningError(
            "others can read this key file, and ssh-keygen does not use such a key",
            where=key,
            help="let it be yours alone (chmod 600), and ask yourself who has read it",
            code="sign.key",
        )
    if done.returncode:
        raise SigningError(
            f"this key cannot sign: {_last_line(done.stderr)}",
            where=key,
            help="name a private SSH key, or the .pub of a key that ssh-agent holds",
            code="sign.key",
        )
    return done.stdout.decode("ascii", "replace")


def holds(armoured: str, statement: bytes) -> bool:
    """Whether a signature is one of the statement, by whatever key it names."""
    with _piped(armoured.encode()) as (signature,):
        return _says_yes(
            ["check-novalidate", "-n", NAMESPACE, "-s", _name(signature)], statement, (signature,)
        )


def accepts(signer: Signer, armoured: str, statement: bytes) -> bool:
    """Whether ssh-keygen takes a signature for the signer's, under one of the first names of the
    line."""
    for name in signer.names[:8]:
        with _piped(armoured.encode(), signer.line.encode()) as (signature, line):
            words = [
                "verify",
                "-n",
                NAMESPACE,
                "-s",
                _name(signature),
                "-f",
                _name(line),
                "-I",
                name,
            ]
            if _says_yes(words, statement, (signature, line)):
                return True
    return False


def _says_yes(words: list[str], statement: bytes, pipes: Iterable[int]) -> bool:
    try:
        return _run(words, statement, pipes, _TO_CHECK).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _run(
    words: list[str], data: bytes, pipes: Iterable[int], seconds: int, is_alone: bool = True
) -> subprocess.CompletedProcess[bytes]:
    command = [_COMMAND, "-Y", *words]
    try:
        return subprocess.run(
            command,
            input=data,
            capture_output=True,
            pass_fds=tuple(pipes),
            timeout=seconds,
            start_new_session=is_alone,  # which has no terminal on which to ask
        )
    except OSError:
        raise NoKeygen from None


@contextmanager
def _piped(*texts: bytes) -> Iterator[list[int]]:
    """Descriptors from which the texts can be read, so that none of them has to lie on the disk."""
    with ExitStack() as stack:
        readers = []
        for text in texts:
            reader, writer = os.pipe()
            stack.callback(os.close, reader)
            with os.fdopen(writer, "wb") as out:
                out.write(text)
            readers.append(reader)
        yield readers


def _name(descriptor: int) -> str:
    return f"/dev/fd/{descriptor}"


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines() or ["ssh-keygen gives no reason"]
    return lines[-1][:200]
