"""What an agent is told before the talk begins."""

from open_token.server.agent.prompt import preview, refitted, system_text


def test_the_text_says_what_holds() -> None:
    plain = system_text("executing")
    assert "planning mode" not in plain
    assert "planning mode" in system_text("planning")
    assert system_text("executing", depth=1) != plain
    assert "- likes tea" in system_text("executing", memories=["likes tea"])
    assert '{"type":"object"}' in system_text("executing", schema={"type": "object"})


def test_small_words() -> None:
    assert "it is no JSON" in refitted("it is no JSON")
    assert (preview("x" * 300, 7).id, len(preview("x" * 300, 7).content_preview)) == (7, 200)
