"""Building blocks that several commands share: terminal, source selection, options, signals."""
