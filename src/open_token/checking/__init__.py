"""Does an export keep the rules of the format, and is it unchanged since it was written?"""
