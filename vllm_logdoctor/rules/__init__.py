"""Findings room: a run is judged."""
