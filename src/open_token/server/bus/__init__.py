"""How those who watch a session learn that it has grown; the log is the truth, this only points at
it."""
