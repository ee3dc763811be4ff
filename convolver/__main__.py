"""``convolver`` and ``python -m convolver``."""

import sys


def main() -> None:
    """Run the command line and exit; Ctrl-C while it is loaded ends it as later on, without a traceback."""
    try:
        from convolver.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
