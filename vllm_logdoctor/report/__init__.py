"""Write an analysis in every format; nothing is computed here."""
