"""Read other engines' logs: SGLang and llama.cpp. Takes lines and knows no run."""
