"""Several engines side by side: which figures may be set in relation, and which may not."""
