"""Compare what traces of both engines predict: ``python tests/bench/engine_predictions.py FOLDER [--only cg] [--store]``.

The quick selection of campaign.toml, traced with each engine (kept in FOLDER), and predicted for the machines measured elsewhere
that the campaign names. A row has the predicted seconds of the first of them; differences are native / Valgrind - 1.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import msgspec
import polars as pl
from result_file import write_result

from convolver.reporting.console import terminal_progress
from convolver.validating.campaign import Campaign
from convolver.validating.run_campaign import validate

HERE = Path(__file__).parent
KEYS = ["program", "input", "condition"]


def predictions(campaign: Campaign, engine: str, folder: Path) -> pl.DataFrame:
    """Trace and predict with an engine; one row for each program, input and machine."""
    chosen = msgspec.structs.replace(campaign, engine=engine)
    result = validate(chosen, HERE, folder / engine, processes=2, progress=terminal_progress())
    assert result is not None
    rows = pl.DataFrame(result.rows).filter(pl.col("method") == "model")
    return rows.select(*KEYS, pl.col("predicted_seconds").alias(engine), pl.col("measured_seconds").alias(f"{engine} measured"))


def error(column: str) -> pl.Expr:
    """Return the relative error of predictions."""
    return (pl.col(column) / pl.col("valgrind measured") - 1).abs()


def main() -> None:
    """Predict and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/engine-predictions.json")
    options = parser.parse_args()
    campaign = Campaign.load(HERE / "campaign.toml").only(options.only).quick()
    elsewhere = tuple(one for one in campaign.condition if one.profile)
    programs = [msgspec.structs.replace(one, full=[]) for one in campaign.program]
    campaign = msgspec.structs.replace(campaign, base=elsewhere[0].name, condition=elsewhere, program=programs)
    both = predictions(campaign, "valgrind", options.folder).join(predictions(campaign, "native", options.folder), on=KEYS)
    both = both.with_columns(difference=pl.col("native") / pl.col("valgrind") - 1)
    rows = []
    for (program, name), group in both.group_by("program", "input", maintain_order=True):
        first = group.row(0, named=True)
        worst = max(group["difference"], key=abs)
        rows.append([f"{program} {name}".strip(), f"{first['valgrind']:.3f}", f"{first['native']:.3f}", f"{worst:+.1%}"])
    for row in rows:
        print("  ".join(f"{cell:>24}" for cell in row))
    apart = both["difference"].abs()
    values = {
        "pairs": len(both),
        "median, %": round(100 * statistics.median(apart), 2),
        "mean, %": round(100 * statistics.mean(apart), 2),
        "within 2 %": int((apart <= 0.02).sum()),
        "error of native, median, %": round(100 * float(both.select(error("native").median()).item()), 1),
        "error of Valgrind, median, %": round(100 * float(both.select(error("valgrind").median()).item()), 1),
    }
    print(values)
    if options.store:
        write_result("engine-predictions", ["program", "Valgrind, s", "native, s", "worst difference"], rows, values)


if __name__ == "__main__":
    main()
