"""Run the inference server: `python -m testing`, or `python -m reasoning_gym_testing` where it is installed."""

from .inference_server import main

if __name__ == "__main__":
    raise SystemExit(main())
