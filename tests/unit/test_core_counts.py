"""Numbers of cores of ``predict --scaling``."""

import msgspec
import pytest

from convolver.cli.wanted import CoreCounts
from convolver.errors import UsageError
from convolver.machine.catalog import find_machine


def machine(**cpu):
    return msgspec.structs.replace(find_machine("server-hbm"), cpu=cpu)


@pytest.mark.parametrize("text", ["", "0", "1,x", "1,,2", "-1", "4097", "All"])
def test_what_is_no_number_of_cores_is_refused(text):
    with pytest.raises(UsageError, match="is no list of cores"):
        CoreCounts.parse(text)


def test_given_numbers_are_those_of_every_machine():
    counts = CoreCounts.parse("8,2,8")
    assert counts.on(machine(most_cpus=4)) == counts.on(machine(), threads=1) == [8, 2]
    assert not CoreCounts.parse(None).wanted


@pytest.mark.parametrize(
    ("cpu", "threads", "counts"),
    [
        ({"most_cpus": 1}, None, [1]),
        ({"most_cpus": 96}, None, [1, 2, 4, 8, 16, 32, 64, 96]),
        ({"most_cpus": 64}, 200, [1, 2, 4, 8, 16, 32, 64]),
        ({"most_cpus": 96}, 5, [1, 2, 4, 8, 10]),
        ({"cpus": 2, "most_cpus": 96}, None, [1, 2]),
        ({}, 3, [1, 2, 4, 6]),
        ({}, None, [1]),
    ],
)
def test_a_whole_machine_is_doubled_up_to(cpu, threads, counts):
    assert CoreCounts.parse("all").on(machine(**cpu), threads) == counts


def test_a_command_runs_with_each_machines_numbers():
    assert CoreCounts.parse("all").on_any([machine(cpus=6), machine(most_cpus=4)]) == [1, 2, 4, 6]
