"""The JSON document: its parts as records, each with the function that fills it from an analysis."""
