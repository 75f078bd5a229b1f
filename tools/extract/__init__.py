"""What the unpacked sources of a vLLM release say, read from the syntax tree alone; nothing of it is run."""
