"""Read, check and index the hand-written patterns and rule pages."""
