"""Write the baseline document of a run: every value with its source, every gap with the command that measures it."""
