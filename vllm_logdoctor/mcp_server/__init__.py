"""A server of the Model Context Protocol: read-only tools on logs below given folders."""
