"""What is remembered from one session to another."""

from open_token.server._memories import recall as recall
