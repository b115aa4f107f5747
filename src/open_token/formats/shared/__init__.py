"""Shapes that several agents and formats share, such as the content blocks of a provider API."""
