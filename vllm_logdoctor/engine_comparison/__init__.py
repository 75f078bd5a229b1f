"""Compare several engines: which figures may be set in relation, and which may not."""
