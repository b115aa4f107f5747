"""Default titles of sessions: the beginning of the first message."""

_MAX_LENGTH = 60


def build_title(text: str) -> str:
    """Return a title of one line for a message; empty when the message has no words."""
    lines = (line.strip() for line in text.splitlines())
    line = next((line for line in lines if line), "")
    title = " ".join(line.split()).lstrip("#>*- ").strip()
    if len(title) <= _MAX_LENGTH:
        return title
    title = title[:_MAX_LENGTH]
    whole_words, _, _ = title.rpartition(" ")
    if len(whole_words) > _MAX_LENGTH // 2:
        title = whole_words
    return f"{title.rstrip(' ,.;:')}..."
