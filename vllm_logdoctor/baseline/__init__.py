"""The baseline document of a run: every value with its source, every gap with the one command that measures it."""
