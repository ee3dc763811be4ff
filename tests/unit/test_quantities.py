"""Quantities that users write: numbers that no computer holds are refused in one sentence."""

import pytest

from convolver.errors import UsageError
from convolver.units import parse_bytes, parse_count, parse_seconds


@pytest.mark.parametrize("parse", [parse_bytes, parse_count, parse_seconds])
@pytest.mark.parametrize("text", ["9" * 5000, "1e999", "", "-1", "1 x"])
def test_what_is_no_quantity_is_refused(parse, text):
    with pytest.raises(UsageError, match="is not a"):
        parse(text)
