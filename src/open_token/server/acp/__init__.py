"""The Agent Client Protocol: sessions of this machine for editors, over lines of JSON."""
