#!/usr/bin/env python3
"""Train the character model of redaction: src/open_token/redaction/rules/characters.txt.

It separates random strings from words, names and paths by three consecutive characters. Text comes from
the sources and texts of Python's standard library, random strings from a generator with a fixed
seed; no secret is needed. With the same version of Python the file comes out the same.
"""

import math
import random
import re
import string
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from open_token.redaction.validators import character_model as model  # noqa: E402

TOKEN = re.compile(r"[0-9A-Za-z_.~+/=-]{8,80}")
COUNT = 60_000
SMOOTHING = 0.5
ALPHABETS = (
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + "-_",
    string.ascii_letters + string.digits + "+/",
    string.ascii_lowercase + string.digits,
    string.ascii_uppercase + string.digits,
    "0123456789abcdef",
)


def iter_text_tokens() -> Iterator[str]:
    """Yield the long words, names and paths of the standard library, each once."""
    seen = set()
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts or "encodings" in path.parts:
            continue
        for token in TOKEN.findall(path.read_text(encoding="utf-8", errors="replace")):
            if token not in seen:
                seen.add(token)
                yield token


def iter_random_tokens() -> Iterator[str]:
    chance = random.Random(1)
    for _ in range(COUNT):
        alphabet = chance.choice(ALPHABETS)
        yield "".join(chance.choices(alphabet, k=chance.randint(12, 48)))


def count_trigrams(tokens: Iterator[str]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {name: Counter() for name in model.VIEWS}
    for token in tokens:
        for name, view in model.VIEWS.items():
            counts[name].update(model.list_trigrams(view(token)))
    return counts


def compute_log_odds(text: Counter[str], chance: Counter[str], alphabet: str) -> str:
    """Return one character for each trigram of an alphabet, in order."""
    text_total = text.total() + SMOOTHING * len(alphabet) ** 3
    chance_total = chance.total() + SMOOTHING * len(alphabet) ** 3
    levels = []
    for trigram in model.iter_trigrams(alphabet):
        odds = math.log((chance[trigram] + SMOOTHING) / chance_total)
        odds -= math.log((text[trigram] + SMOOTHING) / text_total)
        levels.append(model.encode_level(odds))
    return "".join(levels)


def main() -> None:
    """Write the model."""
    text = count_trigrams(iter_text_tokens())
    chance = count_trigrams(iter_random_tokens())
    lines = [
        compute_log_odds(text[name], chance[name], model.ALPHABETS[name]) for name in model.VIEWS
    ]
    model.PATH.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
