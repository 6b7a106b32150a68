"""Run ``wlk-core`` as ``python -m wlk_core``."""

from wlk_core.cli.main import run_program as run

if __name__ == "__main__":
    run()
