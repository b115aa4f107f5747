"""Redaction: find secrets and personal data in a conversation and replace them with markers."""
