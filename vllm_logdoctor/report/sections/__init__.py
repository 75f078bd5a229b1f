"""Sections of the report: each module turns one run into the lines of one section, or into nothing."""
