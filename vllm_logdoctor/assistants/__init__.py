"""Write excerpts for somebody who can't read the log, ask a model for a second opinion, and check what it says."""
