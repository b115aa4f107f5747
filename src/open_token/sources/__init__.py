"""Opening input of any kind and cutting it into records."""
