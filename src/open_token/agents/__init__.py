"""Agents: everything known about each runtime, one package each."""
