"""Counts the words of programs and their documentation for rules/words.txt: words that name nobody
by themselves."""

import re
import sys
from collections import Counter
from pathlib import Path

from open_token.redaction.person_names.name_lists import load_name_lists

OUT = (
    Path(__file__).resolve().parent.parent
    / "src"
    / "open_token"
    / "redaction"
    / "rules"
    / "words.txt"
)
KINDS = {".py", ".md", ".txt", ".rst", ".pod", ".pm", ".h", ""}
LARGEST = 2_000_000
OFTEN = 25
OFTEN_FOR_A_NAME = 12
SMALL = re.compile(r"(?<![\w'’.-])[a-z]{2,16}(?!\w)")
CAPITAL = re.compile(r"(?<![\w'’.-])[A-Z][a-z]{1,16}(?!\w)")


def main(folders: list[str]) -> int:
    """`FOLDER ...`: every text in them is counted, tests aside; the list is written anew."""
    small: Counter[str] = Counter()
    capital: Counter[str] = Counter()
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if (
                path.suffix in KINDS
                and "/test" not in str(path)
                and path.is_file()
                and path.stat().st_size < LARGEST
            ):
                text = path.read_bytes().decode("utf-8", "ignore")
                small.update(SMALL.findall(text))
                capital.update(word.lower() for word in CAPITAL.findall(text))
    names = load_name_lists().given | load_name_lists().family
    words = [word for word, count in small.items() if is_word(count, capital[word], word in names)]
    OUT.write_text("\n".join(sorted(words)) + "\n")
    print(f"{len(words)} words of {sum(small.values())}")
    return 0


def is_word(small: int, capital: int, is_name: bool) -> bool:
    """Frequent in small letters; what is also a name must be seen more often without a capital."""
    return small >= OFTEN_FOR_A_NAME and small >= capital if is_name else small >= OFTEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
