"""Gather events into runs, one for each life of a server or engine."""
