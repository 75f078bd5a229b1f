"""Capacity: what the memory of a device holds, and how settings move it."""
