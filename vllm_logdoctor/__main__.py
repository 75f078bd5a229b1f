"""`python -m vllm_logdoctor`."""

from vllm_logdoctor.cli import main

if __name__ == "__main__":
    main()
