"""``python -m convolver``."""

from convolver.cli.app import main

main()
