"""Augment: the sessions of its command line are found, but not read yet."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="augment",
    title="Augment (Auggie)",
    checked="",
    includes="",
    omits="",
    unreadable="this version has no reader for them",
    places=(".augment/sessions/*.json",),
)
