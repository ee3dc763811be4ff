"""``pytest-convolver``: ``@pytest.mark.convolver(limit="20 ms")`` fails a test that takes longer on the pinned machine.

With ``--convolver`` a marked test that passed runs again in a process of its own under the tracer, which records the test's call
alone; what that takes on the pinned machine is held against the mark's limit and, with ``--convolver-limits``, the baseline.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from convolver.checking.comparison import Checked

TRACED = "CONVOLVER_PYTEST"
"""Environment variable of the process that is traced: the id of its test."""
_FAST = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-q", "--no-header", "-o", "addopts=")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("convolver")
    group.addoption("--convolver", action="store_true", help="Check the predicted time of tests marked with convolver.")
    group.addoption("--convolver-limits", type=Path, help="TOML as `convolver check --limits` takes it.")
    group.addoption("--convolver-update", action="store_true", help="Keep the times of marked tests as the new baseline.")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "convolver(limit): predicted time on the pinned machine, in seconds or like '20 ms'")


def _limit(item: pytest.Item) -> float | None:
    from convolver.units import parse_seconds

    mark = item.get_closest_marker("convolver")
    assert mark is not None
    if mark.args or mark.kwargs.keys() - {"limit"}:
        raise pytest.UsageError(f"{item.nodeid}: the mark convolver takes limit=SECONDS only.")
    limit = mark.kwargs.get("limit")
    return None if limit is None else parse_seconds(str(limit))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Mark the call of a traced test; check a marked one that passed."""
    if os.environ.get(TRACED) == pyfuncitem.nodeid:
        from convolver.tracing.marked import marked

        with marked():
            return (yield)
    result = yield
    if pyfuncitem.config.getoption("--convolver") and pyfuncitem.get_closest_marker("convolver"):
        found = _check(pyfuncitem)
        pyfuncitem.add_report_section("call", "convolver", found.sentence)
        pyfuncitem.user_properties.append(("convolver_seconds", found.now.seconds))
        if not found.passed and not pyfuncitem.config.getoption("--convolver-update"):
            pytest.fail(found.sentence, pytrace=False)
    return result


def _check(item: pytest.Function) -> Checked:
    from convolver.checking.comparison import compare
    from convolver.checking.limits import Limits
    from convolver.checking.observed import CheckBaseline, observe

    file = item.config.getoption("--convolver-limits")
    update = item.config.getoption("--convolver-update")
    limits = Limits() if file is None else Limits.load(file)
    machine = limits.pinned()
    baseline = CheckBaseline.load(limits.baseline, machine, anew=update)
    own = limits.of(item.nodeid)
    marked = _limit(item)
    own = own if marked is None else own._replace(seconds=marked)
    command = [sys.executable, "-m", "pytest", *_FAST, f"--rootdir={item.config.rootpath}", item.nodeid]
    environment = {TRACED: item.nodeid, "PYTHONHASHSEED": "0"}
    kept, folder = {name: os.environ.get(name) for name in environment}, Path.cwd()
    os.environ.update(environment)
    os.chdir(item.config.rootpath)
    try:
        now = observe(command, machine, marked=True)
    finally:
        os.chdir(folder)
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    found = compare(item.nodeid, machine.name, baseline.programs.get(item.nodeid), now, own)
    if update:
        baseline.programs[item.nodeid] = now
        baseline.save(limits.baseline)
    return found
