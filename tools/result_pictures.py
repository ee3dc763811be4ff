"""Draw the measured pictures of the pages, ``docs/pictures/validation.svg``, from the result files of ``benchmarks/results/``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from convolver.plotting import parity, style  # noqa: E402
from tools.result_tables import load  # noqa: E402

PICTURE = ROOT / "docs" / "pictures" / "validation.svg"


def rows() -> list[dict[str, Any]]:
    """Return the campaign on the machine where its programs were traced as rows of its table (docs/formats/campaign.md)."""
    result = load("campaign-intel")
    found = []
    for cells in result["rows"]:
        row = dict(zip(result["columns"], cells, strict=True))
        low, high = row["interval s"].split(" to ")
        seconds = {"measured": row["measured s"], "predicted": row["predicted s"], "low": low, "high": high}
        words = {"program": row["program"], "input": row["input"], "condition": "quiet", "mode": "hybrid", "method": "model"}
        found.append({**words, **{f"{name}_seconds": float(value) for name, value in seconds.items()}})
    return found


def main() -> None:
    """Write the picture."""
    style.picture(PICTURE, lambda look: parity.draw_campaign(rows(), look))


if __name__ == "__main__":
    main()
