"""What was read of an object file is kept while the file stays as it is."""

import shutil

import pytest

from convolver.tracing import lines, symbols
from convolver.tracing.symbols import known_object
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool


@pytest.fixture
def looked_up(monkeypatch):
    """Addresses that were looked up in line tables, a list for each table."""
    asked = []

    class Counting(lines.LineTable):
        def find(self, addresses):
            asked.append(addresses.tolist())
            return super().find(addresses)

    monkeypatch.setattr(symbols, "LineTable", Counting)
    return asked


def begin_of_main(known):
    return int(known.functions.start[known.functions.names.index("main")])


def test_an_object_file_is_read_once(build):
    assert known_object(build("loop")) is known_object(build("loop"))


def test_an_object_file_that_changed_is_read_again(build, tmp_path):
    path = tmp_path / "program"
    shutil.copy(build("loop"), path)
    before = known_object(path)
    shutil.copy(build("family"), path)
    assert known_object(path).identity != before.identity
    assert known_object(path).identity == known_object(build("family")).identity


def test_each_address_is_looked_up_once(build, tmp_path, looked_up):
    path = tmp_path / "program"
    shutil.copy(build("loop"), path)
    known = known_object(path)
    main = begin_of_main(known)
    first = known.lines([main, 1, main])
    assert first[0] == first[2]
    assert first[0][1] > 0
    assert first[1] == ("", 0)
    assert known.lines([main, 1]) == first[:2]
    assert looked_up == [[main, 1]]


def test_lines_not_found_in_time_are_looked_up_again(build, tmp_path, looked_up, monkeypatch):
    path = tmp_path / "program"
    shutil.copy(build("loop"), path)
    known = known_object(path)
    main = begin_of_main(known)
    with monkeypatch.context() as patch:
        patch.setattr(lines, "BUDGET_SECONDS", 0.0)
        assert known.lines([main]) == [("", 0)]
    assert known.lines([main])[0][1] > 0
    assert looked_up == [[main], [main]]
