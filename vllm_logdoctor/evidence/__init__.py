"""Read files beside the log: recognize their kind by content, extract their values. Knows no run."""
