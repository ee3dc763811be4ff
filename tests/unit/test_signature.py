"""A signature is a checked table: what goes in comes out, what contradicts itself stays out."""

import polars as pl
import pytest
from hypothesis import given

from convolver.errors import ChecksumError, SchemaError
from convolver.signature.features import SHARES, pattern_shares, sampled_share
from convolver.signature.signature import Signature
from tests.strategies import block_rows, signature_rows

ROW = {"executions": 10, "instructions": 50, "loads": 20, "stores": 10, "load_bytes": 160, "store_bytes": 80, "flops": 20}


def test_totals_are_the_sums_of_the_columns():
    signature = Signature(block_rows([ROW, ROW]), command=["./app"])
    assert signature.totals == {
        "instructions": 100,
        "loads": 40,
        "stores": 20,
        "memops": 60,
        "flops": 40,
        "bytes": 480,
        "blocks": 2,
    }


def test_file_round_trip_keeps_table_id_and_header(tmp_path):
    signature = Signature(block_rows([ROW]), inputs={"trace": "t"}, command=["./app", "µ"], measured_seconds=1.5, note="kept")
    signature.save(tmp_path / "a.sig.parquet")
    loaded = Signature.load(tmp_path / "a.sig.parquet")
    assert loaded.table.equals(signature.table)
    assert loaded.header == signature.header
    assert loaded.measured_seconds == 1.5
    assert loaded.inputs == {"trace": "t"}


def test_id_depends_on_content_and_header_only():
    one = Signature(block_rows([ROW]))
    assert one.id == Signature(block_rows([ROW])).id
    assert one.id != Signature(block_rows([{**ROW, "flops": 21}])).id
    assert one.id != Signature(block_rows([ROW]), complete=False).id


def test_further_columns_are_kept_after_the_required_ones():
    table = block_rows([ROW]).with_columns(vector_loads=pl.lit(3)).select(pl.col("vector_loads"), pl.exclude("vector_loads"))
    assert Signature(table).table.columns[-1] == "vector_loads"


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop("flops"),
        lambda table: table.with_columns(memops=pl.lit(1, pl.UInt64)),
        lambda table: table.with_columns(bytes=pl.lit(1, pl.UInt64)),
        lambda table: table.with_columns(block=pl.lit(1, pl.UInt32)),
        lambda table: table.with_columns(loads=pl.lit(-1)),
        lambda table: table.with_columns(function=pl.lit(None, pl.String)),
        lambda table: table.with_columns(random_references=pl.lit(5, pl.UInt64)),
        lambda table: table.with_columns(executions=pl.lit("many")),
    ],
)
def test_tables_that_contradict_the_schema_are_refused(change):
    with pytest.raises(SchemaError):
        Signature(change(block_rows([ROW])))


def test_changed_file_is_refused(tmp_path):
    from convolver.schema import save_table

    signature = Signature(block_rows([ROW]))
    save_table(block_rows([{**ROW, "flops": 1}]), signature.header, tmp_path / "a.sig.parquet")
    with pytest.raises(ChecksumError):
        Signature.load(tmp_path / "a.sig.parquet")


def test_blocks_of_two_runs_join_by_identity_not_by_number():
    first = Signature(block_rows([{**ROW, "offset": 0}, {**ROW, "offset": 64}]))
    second = Signature(block_rows([{**ROW, "offset": 64, "flops": 7}]))
    joined = first.join(second)
    assert joined["block"].to_list() == [1]
    assert joined["flops_other"].to_list() == [7]
    assert first.select(second.table)["block"].to_list() == [1]


def test_unsampled_block_has_no_shares():
    shares = block_rows([ROW]).select(pattern_shares())
    assert shares.row(0) == (None, None, None, None)


def test_unclassified_references_count_as_sequential():
    table = block_rows([{**ROW, "sampled_references": 10, "unit_references": 2, "random_references": 4}])
    assert table.select(pattern_shares()).row(0) == pytest.approx((0.6, 0.0, 0.4, 0.0))
    assert sampled_share(table) == pytest.approx(1 / 3)


@given(signature_rows())
def test_shares_of_a_sampled_block_add_up_to_one(rows):
    table = block_rows(rows)
    shares = table.filter(pl.col("sampled_references") > 0).select(pattern_shares()).select(pl.sum_horizontal(SHARES))
    assert all(value == pytest.approx(1) for value in shares.to_series())
    assert 0 <= sampled_share(table) <= 1
