"""What leaves for an assistant, and what comes back: excerpts, second opinions and the checks on them."""
