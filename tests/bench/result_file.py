"""Result files of benchmarks: what was measured, by which command, on which commit and machine, and when."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def processor() -> str:
    """Return the name of this machine's processor and its number of CPUs."""
    lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{lines[0].partition(':')[2].strip()}, {len(lines)} CPUs"


def write_result(
    name: str, columns: Sequence[str] = (), rows: Sequence[Sequence[Any]] = (), values: dict[str, Any] | None = None
) -> Path:
    """Write ``benchmarks/results/NAME.json``, from which `make tables` writes the pages; return its path.

    ``rows`` hold what a table shows, as text or numbers, in the order of ``columns``; ``values`` are single figures by name.
    """
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    document: dict[str, Any] = {
        "name": name,
        "command": shlex.join(["python", str(Path(sys.argv[0]).resolve().relative_to(ROOT)), *sys.argv[1:]]),
        "commit": commit or "unknown",
        "machine": processor(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    if values:
        document["values"] = values
    if columns:
        document |= {"columns": list(columns), "rows": [list(row) for row in rows]}
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path
