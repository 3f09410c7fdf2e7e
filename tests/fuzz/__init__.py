"""Fuzzing: files and texts that strangers may have made, changed at random. `python -m tests.fuzz --minutes 60`."""
