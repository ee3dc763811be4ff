"""What each schema's document, or a table's header and columns, must look like before any code sees it (docs/formats).

Fields that are not named here are left alone, so that files of later versions with more fields stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from convolver.artifact_kinds import KINDS
from convolver.errors import SchemaError
from convolver.heavy import pl

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Size = int | float
Ends = tuple[float, float]
Names = dict[str, str | None]


class SamplingShape(msgspec.Struct):
    mode: Literal["counts", "sample", "full"] = "full"
    interval: Count = 0
    sample: Count = 0
    sets: Count = 0
    set_class: Count | None = None
    block_limit: Count = 0
    phase: tuple[Count, Count] | None = None
    blocks: list[tuple[str, int, int]] | None = None
    paths: bool | None = None
    warmup: Count = 0
    start_at: str | None = None
    stop_at: str | None = None
    data_objects: bool = False
    allocators: list[str] = []


class SystemCallShape(msgspec.Struct):
    call: str
    target: str
    calls: Count
    bytes: Count


class SystemShape(msgspec.Struct):
    calls: list[SystemCallShape] = []
    forks: Count = 0
    threads: Count = 0
    page_bytes: Count = 0
    pages: dict[str, Count] | None = None


class TraceShape(msgspec.Struct):
    inputs: Names = {}
    id: str | None = None
    command: list[str] | None = None
    folder: str = ""
    sampling: SamplingShape | None = None
    started: str | None = None
    host: dict[str, str | None] | None = None
    engine: str | None = None
    rank: Count | None = None
    complete: bool = False
    reason: str | None = None
    exit_status: int | None = None
    traced_seconds: float | None = None
    recorded_references: Count = 0
    set_references: Count = 0
    windows: Count = 0
    threads: Count = 1
    system: SystemShape | None = None
    process: dict[str, int | None] | None = None


class DocumentShape(msgspec.Struct):
    """A document; a machine and a model check all their fields themselves when they are read."""

    inputs: dict[str, Any] = {}
    totals: dict[str, Any] = {}


class HeaderShape(DocumentShape, kw_only=True):
    inputs: dict[str, Any]
    id: str


class SignatureShape(HeaderShape, kw_only=True):
    totals: dict[str, Count]
    command: list[str] | None = None
    sampling: SamplingShape | None = None
    exit_status: int | None = None
    complete: bool = True
    measured_seconds: float | None = None
    system: SystemShape | None = None
    origin: dict[str, str] | None = None


class DataObjectShape(msgspec.Struct):
    object: Annotated[int, Meta(ge=0, lt=1 << 32)]
    label: str
    kind: str = ""
    name: str = ""
    function: str = ""
    file: str = ""
    line: Count = 0
    module: str = ""
    offset: Count = 0
    thread: Count = 0
    places: Count = 0
    placed_bytes: Count = 0
    peak_bytes: Count = 0
    size_bytes: Count = 0


class DataObjectsShape(HeaderShape, kw_only=True):
    memops: Count
    objects: list[DataObjectShape]


class SimulatedLevelShape(msgspec.Struct):
    level: str


class SimulatedMachineShape(msgspec.Struct):
    machine: str
    hierarchy: list[SimulatedLevelShape]
    hierarchy_id: str = ""
    samples: list[dict[str, Any]] = []


class HitRatesShape(HeaderShape, kw_only=True):
    machines: list[SimulatedMachineShape]
    references: Count
    sampling: SamplingShape | None


class TraceReferencesShape(msgspec.Struct):
    trace: str
    references: Count
    sampling: SamplingShape | None = None


class ManyHitRatesShape(HeaderShape, kw_only=True):
    machines: list[dict[str, Any]]
    traces: list[TraceReferencesShape]


class SweptRangeShape(msgspec.Struct):
    low: float
    high: float
    scale: str = "uniform"


class SweptShape(msgspec.Struct):
    ranges: dict[str, SweptRangeShape]
    points: Count
    seed: int = 0
    design: str = "lhs"


class NetworkSweepShape(HeaderShape, kw_only=True):
    sweep: SweptShape


class ObjectHitsShape(HeaderShape, kw_only=True):
    machines: list[SimulatedMachineShape]
    objects: list[DataObjectShape]
    sampling: SamplingShape | None = None


class AnalyzedMachineShape(msgspec.Struct):
    machine: str
    levels: list[str]
    hierarchy_id: str = ""
    key: str = ""
    cycle_seconds: float | None = None
    cycle_error: float | None = None


class AnalysisShape(HeaderShape, kw_only=True):
    machines: list[AnalyzedMachineShape]
    sampling: SamplingShape | None


class ElapsedShape(msgspec.Struct):
    """The replay of a program's threads: what is read of it."""

    seconds: Annotated[float, Meta(ge=0)]
    interval_seconds: tuple[float, float]
    draws_seconds: Annotated[list[float], Meta(min_length=1)] | None
    processor_seconds: float
    cores: int
    threads: int
    limit: str


class BlockTimesShape(HeaderShape, kw_only=True):
    machine: str
    levels: list[str]
    seconds: float
    coverage: float
    sampled_share: float
    extrapolated_share: float
    overlap: str
    waiting_seconds: Annotated[float, Meta(ge=0)] | None = None
    method: str | None = None
    command: list[str] | None = None
    assumptions: list[str] | None = None
    projected: bool = False
    draws_seconds: Annotated[list[float], Meta(min_length=1)] | None = None
    draws_blocks: dict[Annotated[str, Meta(pattern="^[0-9]{1,10}$")], list[float]] | None = None
    draws_functions: list[tuple[str | None, str | None, list[float]]] | None = None
    system: dict[str, Any] | None = None
    elapsed: ElapsedShape | None = None


class ShareShape(msgspec.Struct):
    """A machine's time in a ratio or prediction."""

    machine: str
    seconds: float


class RatioBlocksShape(msgspec.Struct):
    """Columns of one length."""

    block: list[Annotated[int, Meta(ge=0, lt=1 << 32)]]
    function: list[str | None]
    module: list[str | None]
    base_seconds: list[float | None]
    target_seconds: list[float | None]
    file: list[str | None] | None = None
    line: list[Annotated[int, Meta(ge=0, lt=1 << 32)] | None] | None = None
    offset: list[Annotated[int, Meta(ge=0)] | None] | None = None
    low: list[float | None] | None = None
    high: list[float | None] | None = None

    def __post_init__(self) -> None:
        columns = (getattr(self, name) for name in self.__struct_fields__)
        if len({len(column) for column in columns if column is not None}) > 1:
            raise ValueError("the columns of its blocks have different lengths")


class RatioFunctionShape(msgspec.Struct):
    function: str | None = None
    module: str | None = None
    low: float | None = None
    high: float | None = None


class CpuRatioShape(DocumentShape, kw_only=True):
    base: ShareShape
    target: ShareShape
    ratio: float
    blocks: RatioBlocksShape
    coverage: float | None = None
    interval: Ends | None = None
    functions: list[RatioFunctionShape] = []


class PredictionShape(DocumentShape, kw_only=True):
    base: ShareShape
    target: ShareShape
    cpu_ratio: float
    measured_seconds: float | None
    error: float | None
    command: list[str] | None = None
    coverage: float = 0.0


class RunPredictionShape(DocumentShape, kw_only=True):
    seconds: float
    base: str
    target: str
    ranks: list[dict[str, Any]] = []
    clusters: list[dict[str, Any]] = []
    modules: list[dict[str, Any]] = []
    replay: dict[str, Any] = {}


class TimelineShape(HeaderShape, kw_only=True):
    notes: dict[str, Any] = {}


class MpiEventsShape(HeaderShape, kw_only=True):
    name: str
    ranks: Annotated[int, Meta(ge=0, le=1 << 24)]
    communicators: dict[Annotated[str, Meta(pattern="^[0-9]{1,9}$")], list[Annotated[int, Meta(ge=0, lt=1 << 31)]]]
    notes: dict[str, Any]


class ValidationShape(HeaderShape, kw_only=True):
    campaign: str
    base: str
    machine: dict[str, Any]
    left_out: dict[str, str]
    refused: dict[str, str]
    conditions: Any = None
    pairs: list[Any] = []


class BundledFileShape(msgspec.Struct):
    name: Annotated[str, Meta(pattern=r"^[^/\\\x00]{1,200}$")]
    bytes: Annotated[int, Meta(ge=0, le=1 << 34)]
    sha256: str
    reveals: list[str]

    def __post_init__(self) -> None:
        if self.name in (".", ".."):
            raise ValueError(f"'{self.name}' is no file")


class BundleShape(DocumentShape, kw_only=True):
    redacted: bool
    program: str
    machines: list[str]
    files: list[BundledFileShape]


SHAPES: dict[str, type[msgspec.Struct]] = {
    "convolver.machine": DocumentShape,
    "convolver.model": DocumentShape,
    "convolver.trace": TraceShape,
    "convolver.signature": SignatureShape,
    "convolver.data_objects": DataObjectsShape,
    "convolver.hit_rates": HitRatesShape,
    "convolver.object_hits": ObjectHitsShape,
    "convolver.analysis": AnalysisShape,
    "convolver.block_times": BlockTimesShape,
    "convolver.cpu_ratio": CpuRatioShape,
    "convolver.prediction": PredictionShape,
    "convolver.run_prediction": RunPredictionShape,
    "convolver.timeline": TimelineShape,
    "convolver.mpi_events": MpiEventsShape,
    "convolver.table": HeaderShape,
    "convolver.many_hit_rates": ManyHitRatesShape,
    "convolver.network_sweep": NetworkSweepShape,
    "convolver.validation": ValidationShape,
    "convolver.bundle": BundleShape,
}


def unlike(where: str, schema: str, what: str) -> SchemaError:
    """Return the error for a file whose content is not that of its schema, with the command that makes it anew."""
    return SchemaError(f"{where} is damaged, was changed or is of an older Convolver: {what}; {KINDS[schema].maker}.")


def check_shape(document: Mapping[str, Any], schema: str, where: str) -> None:
    """Check a document, or a table's header, field by field; raises :class:`SchemaError` that names the first wrong one."""
    try:
        msgspec.convert(document, SHAPES[schema])
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise unlike(where, schema, str(error)) from error


_HITS = "accesses hits misses write_backs"
_NUMBERS: dict[str, str] = {
    "convolver.data_objects": "object block references loads stores bytes set_references memops",
    "convolver.hit_rates": f"block {_HITS}",
    "convolver.many_hit_rates": f"block {_HITS}",
    "convolver.network_sweep": "point predicted_seconds",
    "convolver.object_hits": f"object block {_HITS}",
    "convolver.block_times": "block offset line executions memops memory_seconds floating_point_seconds instruction_seconds "
    "seconds error_seconds",
    "convolver.timeline": "rank seconds",
    "convolver.mpi_events": "rank kind flags op partner tag comm bytes extra seconds",
    "convolver.table": "repetition value",
    "convolver.validation": "predicted_seconds measured_seconds error",
}
_TEXTS: dict[str, str] = {
    "convolver.hit_rates": "machine level",
    "convolver.many_hit_rates": "trace machine level",
    "convolver.object_hits": "machine level",
    "convolver.block_times": "machine module function file",
    "convolver.timeline": "part",
    "convolver.table": "app callpath metric unit machine source",
    "convolver.validation": "program condition mode method",
}
"""Columns that each table must have, as numbers without nulls or as texts; a signature checks its own."""


LARGEST = 1e150
"""No number of a table is larger: sums, and products of two, stay finite."""


def check_columns(table: pl.DataFrame, schema: str, where: str) -> None:
    """Check that a table has its columns; raises :class:`SchemaError` that names the first that is missing or of another type."""
    nulls = schema in ("convolver.timeline", "convolver.validation")
    for name in _NUMBERS.get(schema, "").split():
        column = table.get_column(name) if name in table.columns else None
        if column is None or not column.dtype.is_numeric() or (column.null_count() and not nulls):
            raise unlike(where, schema, f"its column '{name}' is missing or has what is no number")
    for name in _TEXTS.get(schema, "").split():
        if table.schema.get(name) != pl.String:
            raise unlike(where, schema, f"its column '{name}' is missing or has what is no text")
    for column in table.get_columns():
        if column.name.startswith("param.") and not column.dtype.is_numeric():
            raise unlike(where, schema, f"its column '{column.name}' has what is no number")
        if not column.dtype.is_float() or schema == "convolver.analysis":  # its NaN: not known
            continue
        if not column.is_finite().all():
            raise unlike(where, schema, f"its column '{column.name}' has NaN or infinity")
        if (column.abs() > LARGEST).any():
            raise unlike(where, schema, f"its column '{column.name}' has a number above {LARGEST:g}")
