"""The pages of the formats name every field and column that the tool writes, and their tables name nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from convolver.machine.calibration import Calibration
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import MachineProfile
from convolver.modeling.table import Table
from convolver.mpi.events import EventsBuilder
from convolver.schema import PARQUET_KEY
from convolver.tracing.sampling import SamplingPlan
from convolver.validating.validation import Validation
from tests.artifact_chain import make_model, make_timeline
from tools.docs_pages import DOCS, ROOT

FORMATS = DOCS / "formats"
OPEN = {
    "provenance",
    "cpu",
    "intervals",
    "notes",
    "tables",
    "samples_seconds",
    "draws_blocks",
    "draws_functions",
    "baselines",
    "limits",
    "quality",
    "domain",
}
"""Fields whose own keys are names of things, or said in a sentence."""

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory, convolver) -> Path:
    """A folder with what the tool writes of a small program, and of a replay and a fit."""
    folder = tmp_path_factory.mktemp("formats")
    subprocess.run(["gcc", "-g", "-O2", "-o", folder / "cg", ROOT / "examples" / "cg.c", "-lm"], check=True)
    machines = ("--base", "server-hbm", "--target", "desktop-32m")
    convolver("predict", *machines, "--data-objects", "-o", ".", "--", "./cg", "8", cwd=folder, code=0)
    options = str(ROOT / "examples" / "options.machine.json")
    convolver("simulate", "cg.cvt", "-m", options, "--causes", "--by", "object", "--force", cwd=folder, code=0)
    make_timeline(folder / "ring.timeline.parquet")
    make_model(folder / "time.model.json")
    EventsBuilder(2).send(0, 1, 1000).receive(1, 0, 1000).build().save(folder / "ring.events.parquet")
    Table.of_columns({"time": [8.0, 4.1]}, "time").save(folder / "time.parquet")
    row = {"condition": "quiet", "mode": "hybrid", "method": "model"}
    Validation.make([row], inputs={}).save(folder / "validation.parquet")
    return folder


def text(name: str, depth: int = 2) -> str:
    """Return a page with the pages of the formats that it links to, and those that these link to."""
    own = (FORMATS / f"{name}.md").read_text()
    linked = sorted(set(re.findall(r"\]\(([a-z_]+)\.md[)#]", own))) if depth else []
    return "\n".join([own, *(text(one, depth - 1) for one in linked)])


def fields(value: Any) -> Iterator[str]:
    """Yield the names of all fields of a document, nested ones included."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            if name not in OPEN:
                yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def names(file: Path) -> set[str]:
    """Return the fields of a file's header, or of the whole document, and its columns."""
    if file.suffix == ".json":
        return set(fields(json.loads(file.read_text())))
    header = json.loads(pl.read_parquet_metadata(file)[PARQUET_KEY])
    return {*fields(header), *pl.read_parquet_schema(file)}


def unnamed(page: str, found: set[str]) -> list[str]:
    return sorted(name for name in found if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", page))


PER_LEVEL = r"^(hit_rate|served|written_back|error|brought|scattered)_(L\d|memory)|^pages_|^(limit|near_cycles|waiting_cycles)_"
"""Columns that there is one of for each level, pattern or cause."""
SOMETIMES = {"replay", "burst_interval", "set_share", "elapsed"}
"""Of a prediction with MPI events, of a trace with a budget, and of a program with threads."""
WRITTEN = {
    "signature": "cg.sig.parquet",
    "hit_rates": "cg.hits.parquet",
    "analysis": "cg.analysis.parquet",
    "data_objects": "cg.objects.parquet",
    "object_hits": "cg.object-hits.parquet",
    "block_times": "cg@server-hbm.times.parquet",
    "cpu_ratio": "cg@desktop-32m.ratio.json",
    "prediction": "cg@desktop-32m.prediction.json",
    "timeline": "ring.timeline.parquet",
    "model": "time.model.json",
    "mpi_events": "ring.events.parquet",
    "table": "time.parquet",
    "campaign": "validation.parquet",
}


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_names_all_fields_and_columns_of_a_file(page, written):
    found = {name for name in names(written / WRITTEN[page]) if not re.search(PER_LEVEL, name)}
    assert not unnamed(text(page), found)


@pytest.mark.parametrize("page", [page for page in list(WRITTEN)[:8] if page != "analysis"])
def test_the_tables_of_a_page_name_nothing_that_is_not_there(page, written):
    own = (FORMATS / f"{page}.md").read_text()
    tables = re.findall(r"^(?:field|column)\b[^\n]*\|[^\n]*\n[-|]+\n((?:[^\n]+\|[^\n]*\n)+)", own, re.MULTILINE)
    cells = [row.split("|")[0] for table in tables for row in table.splitlines()]
    listed = {
        word
        for cell in cells
        for word in re.findall(r"[a-z][a-z_]+", re.sub(r"\([^)]*\)", "", cell))
        if not re.search("LEVEL|CAUSE", cell)
    }
    assert listed
    assert not listed - names(written / WRITTEN[page]) - SOMETIMES


@pytest.mark.parametrize("part", [MachineProfile, Level, Curve, Point, Calibration])
def test_the_machine_profiles_page_names_all_fields_of_its_parts(part):
    page = (FORMATS / "machine.md").read_text()
    assert not unnamed(page, {field.encode_name for field in msgspec.structs.fields(part)})


def test_the_signatures_page_names_all_fields_of_a_sampling_plan():
    page = (FORMATS / "signature.md").read_text()
    assert not unnamed(page, {field.encode_name for field in msgspec.structs.fields(SamplingPlan)})
