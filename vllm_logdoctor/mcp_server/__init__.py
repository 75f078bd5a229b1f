"""Serve read-only tools on logs below given folders, over the Model Context Protocol."""
