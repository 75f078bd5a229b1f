"""Compare room: what changed between two runs, and whether a plan did what it promised.

Takes runs as the JSON report holds them, so that a log and an earlier report can be on either side.
"""
