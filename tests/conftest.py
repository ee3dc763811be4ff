"""Settings of all tests.

A law holds however long one example takes, so that a busy machine fails no test, and the laws of one commit see the same examples
every time; ``--hypothesis-profile=explore`` looks for new ones. A shell that starts the tests in the background lets them ignore
Ctrl-C, which the programs they start would inherit.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("convolver", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile("convolver")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONGEST_FIRST = ("tests/integration/mpi", "tests/integration", "tests/property", "tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that the workers end together."""
    items.sort(key=lambda item: next(at for at, folder in enumerate(_LONGEST_FIRST) if item.nodeid.startswith(folder)))
