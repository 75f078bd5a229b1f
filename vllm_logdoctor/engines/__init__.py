"""Readers of other engines' logs: SGLang and llama.cpp. They take lines and know no run."""
