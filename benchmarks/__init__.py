"""Speed, memory and growth of the whole command line, each as a ratio that holds on any machine."""
