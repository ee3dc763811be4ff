"""No reader ends in a traceback, whatever the file: some hundred mutated files each time, many by ``make fuzz MINUTES=n``."""

import pytest

from tests.robust.fuzz_readers import one_case
from tests.robust.readers import make_readers

CASES = 20
READERS = make_readers()


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_real_files_are_read(reader, tmp_path):
    for number, seed in enumerate(reader.seeds):
        path = tmp_path / f"seed{number}{reader.suffix}"
        path.write_bytes(seed)
        reader.read(path)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_mutated_files_are_read_or_refused(reader, tmp_path):
    for seed in range(CASES):
        data, found = one_case(reader, seed, tmp_path)
        assert not found, f"seed {seed}: {found}\n{data[:300]!r}"
