"""What a session is called when nobody named it: the beginning of the first message."""

_LONGEST = 60


def title_of(text: str) -> str:
    """A title of one line from a message; empty when it has no words."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split()).lstrip("#>*- ").strip()
    if len(line) <= _LONGEST:
        return line
    cut = line[:_LONGEST]
    head, _, _ = cut.rpartition(" ")
    return f"{(head if len(head) > _LONGEST // 2 else cut).rstrip(' ,.;:')}..."
