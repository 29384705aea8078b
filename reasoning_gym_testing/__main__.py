"""Run the inference server: `python -m reasoning_gym_testing`."""

from .inference_server import main

if __name__ == "__main__":
    raise SystemExit(main())
