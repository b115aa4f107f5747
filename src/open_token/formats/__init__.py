"""Formats that no single agent owns: provider APIs, exports of chat products, traces, frameworks."""
