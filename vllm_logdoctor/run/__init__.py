"""Run room: events become one Run per server life."""
