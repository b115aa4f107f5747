"""Chatbot UI: the export of its history, with the conversations of a browser."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="chatbot_ui",
    title="Chatbot UI export",
    checked="a public export file of version 4",
    includes="messages, the system prompt and the model of each conversation, settings",
    omits="folders and saved prompts",
    holds_several=True,
    signatures=(b'"history"',),
)
