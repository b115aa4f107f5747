"""What an agent receives before the session begins."""

from open_token.server.agent.prompt import build_memory_ref, build_schema_retry, build_system_prompt


def test_the_text_says_what_holds() -> None:
    plain = build_system_prompt("executing")
    assert "planning mode" not in plain
    assert "planning mode" in build_system_prompt("planning")
    assert build_system_prompt("executing", depth=1) != plain
    assert "- likes tea" in build_system_prompt("executing", memories=["likes tea"])
    assert '{"type":"object"}' in build_system_prompt("executing", schema={"type": "object"})


def test_small_words() -> None:
    assert "it is not valid JSON" in build_schema_retry("it is not valid JSON")
    assert (
        build_memory_ref("x" * 300, 7).id,
        len(build_memory_ref("x" * 300, 7).content_preview),
    ) == (7, 200)
