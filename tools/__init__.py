"""Tools of the developers: they read the sources of vLLM and make the data that the package ships; no part of the wheel."""
