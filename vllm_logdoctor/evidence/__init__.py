"""Files beside the log: tell their kind by content and read the values that a person would copy from them. Knows no run."""
