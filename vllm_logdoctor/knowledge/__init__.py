"""Dated, sourced facts of the outside world: vLLM per release, and data sheets of cards.

Nothing here reads a log. Every module is imported by name (``knowledge.flags``, ``knowledge.cards`` ...);
the package data behind them is read on the first question, never at import.
"""
