"""Compare two runs, and check a plan against the log that came after it.

Takes runs as the JSON report holds them, so that a log and an earlier report can be on either side.
"""
