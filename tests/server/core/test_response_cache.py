"""Answers kept by how far the log had come."""

from open_token.server.core.services import ResponseCache


def test_another_sequence_is_another_answer() -> None:
    recent = ResponseCache()
    recent.put("a", 1, b"one")
    assert recent.get("a", 1) == b"one"
    assert recent.get("a", 2) is None
    recent.put("a", 2, b"two")
    assert (recent.get("a", 1), recent.get("a", 2)) == (None, b"two")
    recent.forget("a")
    recent.forget("a")
    assert recent.get("a", 2) is None


def test_the_longest_unused_go_first() -> None:
    recent = ResponseCache(80)
    for name in "abcdefgh":
        recent.put(name, 1, bytes(10))
    assert recent.get("a", 1)
    recent.put("i", 1, bytes(10))
    assert recent.get("a", 1)
    assert recent.get("b", 1) is None
    recent.put("j", 1, bytes(11))
    assert recent.get("j", 1) is None
