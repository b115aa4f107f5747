"""Domain services of the session server: sessions, their logs, chat, runs and everything around them."""
