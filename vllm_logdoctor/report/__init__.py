"""Report room: words and pictures; computes nothing."""
