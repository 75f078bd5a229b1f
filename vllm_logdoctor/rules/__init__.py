"""Judge a run: what broke, what limits it, what to change."""
