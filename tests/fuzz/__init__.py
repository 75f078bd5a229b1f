"""Random logs: composed by grammar and mutated fixtures, held against what must be true of every report."""
