"""What the accuracy pages say of a campaign beyond ``convolver validate``: both halves of the programs, and pairs of machines.

    python tests/bench/campaign_results.py run/validate/validation.parquet [--machines NAME] [--store NAME]

Prints errors of all programs, by origin and of both halves, and errors of CPU ratios between machines beside one factor for all
programs. ``--machines NAME`` writes ``campaign-NAME``: times and all ratios between measured machines, of all programs and of the
half held out, beside both baselines, one factor and the paper's lookup. ``--store NAME`` writes ``campaign-NAME`` (each program),
``campaign-NAME-conditions`` and, where there are pairs, ``campaign-NAME-pairs`` into benchmarks/results.
"""

import argparse
import zlib
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from convolver.validating.validation import Validation, coverage, errors, summarize

HALVES = ("half looked at", "half held out")
"""The programs are divided by a hash of their names, so before anything is known of them. Who improves the model by what is seen
of the first half can tell by the second whether that holds for other programs."""
ONE_FACTOR = "one factor"
"""The baseline that gives all programs of a pair of machines the median of their measured ratios."""


def half(program: str) -> str:
    """Return the half of a program."""
    return HALVES[zlib.crc32(program.encode()) & 1]


def statistics(rows: Sequence[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Return what :func:`summarize` does of all programs and by origin, and of both halves."""
    found = summarize(rows, base)
    for name in HALVES:
        of_half = summarize([row for row in rows if half(row["program"]) == name], base)
        found += [{**entry, "origin": name} for entry in of_half if entry["origin"] == "all"]
    return found


def pair_statistics(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return errors of the ratio by pair of machines, mode and method, of all programs, by origin, and of both halves.

    Each entry has ``base``, ``target``, ``mode``, ``method`` (those of the rows, and :data:`ONE_FACTOR`), ``origin``, ``count``,
    ``error`` and, for methods with intervals, ``coverage``. The factor of a group is the median of its own measured ratios, which
    no prediction knows.
    """
    found = []
    names = ["", *dict.fromkeys(row["origin"] for row in rows if row["origin"]), *HALVES]
    for pair in dict.fromkeys((row["base"], row["target"], row["mode"]) for row in rows):
        of_pair = [row for row in rows if (row["base"], row["target"], row["mode"]) == pair]
        for name in names:
            group = [row for row in of_pair if name in ("", row["origin"], half(row["program"]))]
            methods = {method: [row for row in group if row["method"] == method] for method in _methods(group)}
            methods[ONE_FACTOR] = _one_factor(next(iter(methods.values()), []))
            for method, chosen in methods.items():
                if chosen:
                    entry = dict(zip(("base", "target", "mode"), pair, strict=True))
                    found.append({**entry, "method": method, "origin": name or "all", **_summary(chosen)})
    return found


def _methods(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _one_factor(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    factor = median(row["measured"] for row in rows) if rows else 0.0
    return [{**row, "predicted": factor, "low": None, "high": None, "error": factor / row["measured"] - 1} for row in rows]


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    of_ratio = errors(row["error"] for row in rows)
    inside = [row["low"] <= row["measured"] <= row["high"] for row in rows if row["low"] is not None]
    coverage = sum(inside) / len(inside) if inside else None
    return {"count": len(rows), "error": of_ratio._asdict() if of_ratio else None, "coverage": coverage}


def percent(value: float | None) -> str:
    """Return a share as text; nothing where it is unknown."""
    return "" if value is None else f"{100 * value:.1f} %"


def conditions_table(entries: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of errors by condition, trace, method and group of programs."""
    columns = ["condition", "trace", "method", "programs", "count", "median", "mean", "90th percentile", "worst"]
    columns += ["median of user time", "in the 90% interval", "CPU ratio median", "CPU ratio worst"]
    rows = []
    for entry in entries:
        error, ratio, user = entry["error"], entry["cpu_ratio_error"] or {}, entry["error_of_user_time"] or {}
        names = [str(entry[name]) for name in ("condition", "mode", "method", "origin", "count")]
        sizes = [percent(error[name]) for name in ("median", "mean", "ninetieth", "worst")]
        ends = [
            percent(user.get("median")),
            percent(entry["coverage"]),
            percent(ratio.get("median")),
            percent(ratio.get("worst")),
        ]
        rows.append([*names, *sizes, *ends])
    return columns, rows


def pairs_table(entries: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of errors of CPU ratios between machines."""
    columns = ["of", "over", "trace", "method", "programs", "count", "median", "mean", "worst", "in the 90% interval"]
    rows = []
    for entry in entries:
        names = [str(entry[name]) for name in ("base", "target", "mode", "method", "origin", "count")]
        rows.append(
            [*names, *(percent(entry["error"][name]) for name in ("median", "mean", "worst")), percent(entry["coverage"])]
        )
    return columns, rows


def machines_table(result: Validation, pairs: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Return columns, rows and single figures of what the model misses by on measured machines: times, and the CPU ratio of every
    ordered pair beside one factor and the paper's method. Ratios have the share of programs within their 90 % intervals, too."""
    entries = list(pairs)
    own = [row for row in result.rows if row["method"] == "model"]
    rows, values, better = [], {}, 0
    for machine in dict.fromkeys(entry["base"] for entry in entries):
        found = [row for row in own if row["condition"] == machine]
        held_out = [row for row in found if half(row["program"]) == HALVES[1]]
        rows.append(
            [f"time on `{machine}`", *(_three(errors(row["error"] for row in some)) for some in (found, held_out)), "", "", ""]
        )
    for pair in dict.fromkeys((entry["base"], entry["target"]) for entry in entries):
        of_pair = {(one["origin"], one["method"]): one for one in entries if (one["base"], one["target"]) == pair}
        of = {method: one["error"] for (origin, method), one in of_pair.items() if origin == "all"}
        held_out = of_pair.get((HALVES[1], "model"), {}).get("error")
        inside = f"{of_pair['all', 'model']['coverage']:.0%}"
        ratio = " / ".join(name.removeprefix("cloud-") for name in pair)
        rows.append(
            [f"ratio {ratio}", _three(of["model"]), _three(held_out), inside, *map(_three, (of[ONE_FACTOR], of.get("paper")))]
        )
        values["_over_".join(name.removeprefix("cloud-").replace("-", "_") for name in pair)] = _three(of["model"])
        better += of["model"]["median"] < of[ONE_FACTOR]["median"]
    covered = [row["low"] <= row["measured"] <= row["high"] for row in result.pairs if row["low"] is not None]
    columns = ["what, in %", "Convolver: median/mean/worst", "of the half held out", "within 90 %", "one factor", "paper"]
    values |= {"ratios_covered": f"{100 * sum(covered) / len(covered):.0f} %", "ratios_better": str(better)}
    return columns, rows, values


def _three(found: Any) -> str:
    known = found._asdict() if hasattr(found, "_asdict") else found
    return (
        ""
        if not known
        else "/".join(f"{100 * known[name]:.{digits}f}" for name, digits in (("median", 1), ("mean", 1), ("worst", 0)))
    )


def programs_table(result: Validation) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Return columns, rows and single figures of programs under the base condition, predicted from their first kind of trace."""
    columns = [
        "program",
        "input",
        "measured s",
        "predicted s",
        "of it system s",
        "interval s",
        "error",
        "paper's method",
        "coverage",
    ]
    chosen = [row for row in result.rows if row["condition"] == result.base and row["mode"] == result.rows[0]["mode"]]
    of = {(row["program"], row["input"], row["method"]): row for row in chosen}
    rows = []
    for row in (row for row in chosen if row["method"] == "model"):
        system, paper = row["predicted_system_seconds"], of.get((row["program"], row["input"], "paper"))
        seconds = [f"{row[name]:.3f}" for name in ("measured_seconds", "predicted_seconds")]
        interval = f"{row['low_seconds']:.3f} to {row['high_seconds']:.3f}"
        errors_ = ["" if one is None else f"{100 * one['error']:+.0f} %" for one in (row, paper)]
        names = [row["program"], row["input"], *seconds, "" if system is None else f"{system:.3f}", interval]
        rows.append([*names, *errors_, percent(row["coverage"])])
    return columns, rows, _headline(chosen)


def _headline(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    own = [dict(row) for row in rows if row["method"] == "model"]
    values = {"jobs": str(len(own)), "inside": percent(coverage(own))}
    for prefix, method in (("", "model"), ("paper_", "paper")):
        found = errors(row["error"] for row in rows if row["method"] == method)
        if found:
            values |= {f"{prefix}{name}": f"{100 * getattr(found, name):.0f} %" for name in ("median", "mean", "worst")}
    return values


def main() -> None:
    """Print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("validation")
    parser.add_argument("--store", metavar="NAME")
    parser.add_argument("--machines", metavar="NAME")
    options = parser.parse_args()
    result = Validation.load(options.validation)
    pairs = pair_statistics(result.pairs)
    if options.machines:
        from result_file import write_result

        print("Wrote", write_result(f"campaign-{options.machines}", *machines_table(result, pairs)))
    tables: dict[str, tuple[Any, ...]] = {
        "": programs_table(result),
        "-conditions": conditions_table(statistics(result.rows, result.base)),
    }
    if pairs:
        tables["-pairs"] = pairs_table(pairs)
    for suffix, (columns, rows, *values) in tables.items():
        print("\t".join(columns), *("\t".join(row) for row in rows), "", sep="\n")
        if options.store:
            from result_file import write_result

            print("Wrote", write_result(f"campaign-{options.store}{suffix}", columns, rows, *values))


if __name__ == "__main__":
    main()
