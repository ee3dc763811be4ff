"""Every kind of artifact: its version, what it is in words, the command that makes one, and its reader."""

from __future__ import annotations

from typing import NamedTuple


class ArtifactKind(NamedTuple):
    """``what`` and ``maker``: the next step when something else was given. ``meaning`` is for `convolver info`. ``reader`` is
    ``module:class`` with ``load(path)``, ``id`` and ``summary()``. ``version``: the newest that is read, and the one written."""

    what: str
    maker: str
    meaning: str
    reader: str
    version: int = 1


KINDS = {
    "convolver.machine": ArtifactKind(
        "a machine profile (name or .machine.json)",
        "`convolver probe` measures one, `convolver machine list` names those here",
        "machine profile: cache hierarchy and measured or projected rates",
        "convolver.machine.profile:MachineProfile",
        version=2,
    ),
    "convolver.trace": ArtifactKind(
        "a trace (.cvt)",
        "`convolver trace -- COMMAND` records one",
        "trace: sampled addresses and exact counts of one run",
        "convolver.tracing.reader:Trace",
    ),
    "convolver.signature": ArtifactKind(
        "a signature (.sig.parquet)",
        "`convolver trace -- COMMAND` writes one beside the trace",
        "signature: exact counts and sampled features per basic block",
        "convolver.signature.signature:Signature",
    ),
    "convolver.data_objects": ArtifactKind(
        "data objects (.objects.parquet)",
        "`convolver trace --data-objects -- COMMAND` writes them",
        "data objects: recorded references per block to allocation sites, variables, stacks and mappings",
        "convolver.signature.data_objects:DataObjects",
    ),
    "convolver.hit_rates": ArtifactKind(
        "hit rates (.hits.parquet)",
        "`convolver simulate TRACE -m MACHINE` writes them",
        "hit rates: simulated accesses, hits and misses per block, machine and level",
        "convolver.simulation.hit_rates:HitRates",
    ),
    "convolver.object_hits": ArtifactKind(
        "hits by data object (.object-hits.parquet)",
        "`convolver simulate TRACE -m MACHINE --by object` writes them",
        "hits by data object: simulated accesses and misses per data object, block, machine and level",
        "convolver.simulation.object_hits:ObjectHits",
    ),
    "convolver.analysis": ArtifactKind(
        "an analysis (.analysis.parquet)",
        "`convolver predict TRACE -o FOLDER` writes one",
        "analysis: where references fall and core cycles, per block and machine",
        "convolver.analyzing.program_analysis:Analysis",
    ),
    "convolver.block_times": ArtifactKind(
        "block times (.times.parquet)",
        "`convolver predict TRACE -o FOLDER` writes them",
        "block times: seconds per block on one machine",
        "convolver.convolution.block_times:BlockTimes",
    ),
    "convolver.cpu_ratio": ArtifactKind(
        "a CPU ratio (.ratio.json)",
        "`convolver diff BASE TARGET -o FILE` writes one",
        "CPU ratio: base time / target time; above 1 the target is faster",
        "convolver.convolution.cpu_ratio:CpuRatio",
    ),
    "convolver.prediction": ArtifactKind(
        "a prediction (.prediction.json)",
        "`convolver predict TRACE -o FOLDER` writes one",
        "prediction: times on a base and a target machine",
        "convolver.pipeline:Prediction",
    ),
    "convolver.run_prediction": ArtifactKind(
        "a prediction of a run (.run.json)",
        "`convolver predict --mpi RECORDING -o FOLDER` writes one",
        "prediction of a parallel run: CPU ratios by rank, burst and module, replayed communication",
        "convolver.mpi.prediction:ParallelPrediction",
    ),
    "convolver.timeline": ArtifactKind(
        "a timeline (.timeline.parquet)",
        "`convolver replay TRACE --config NETWORK -o FILE` writes one",
        "timeline: replayed MPI run",
        "convolver.mpi.timeline:Timeline",
    ),
    "convolver.mpi_events": ArtifactKind(
        "MPI events (.parquet)",
        "`convolver mpi trace -o FILE -- mpirun ...` records them",
        "MPI events of one run",
        "convolver.mpi.events:Events",
    ),
    "convolver.model": ArtifactKind(
        "a model (.model.json)",
        "`convolver model fit TABLE ...` makes one",
        "model: fitted equation with its errors and domain",
        "convolver.modeling.model_artifact:Model",
    ),
    "convolver.table": ArtifactKind(
        "a table of measurements",
        "`convolver model convert` and `collect` make one",
        "table of measurements",
        "convolver.modeling.table:Table",
    ),
    "convolver.many_hit_rates": ArtifactKind(
        "hit rates of several traces (.parquet)",
        "`convolver simulate FOLDER -m MACHINE` writes them",
        "hit rates of several traces: simulated accesses, hits and misses per trace, block, machine and level",
        "convolver.simulation.many:ManyHitRates",
    ),
    "convolver.network_sweep": ArtifactKind(
        "a sweep over networks (.parquet)",
        "`convolver replay sweep` writes one",
        "sweep over networks: one replay a row",
        "convolver.mpi.sweep:NetworkSweep",
    ),
    "convolver.validation": ArtifactKind(
        "a validation (.parquet)",
        "`convolver validate CAMPAIGN.toml` makes one",
        "validation: predicted and measured times of a campaign",
        "convolver.validating.validation:Validation",
    ),
    "convolver.bundle": ArtifactKind(
        "a bundle (.bundle.zip)",
        "`convolver bundle TRACE --machines BASE,TARGET` makes one",
        "bundle: a trace, profiles, predictions and a report in one file",
        "convolver.reporting.bundle_file:PackedBundle",
    ),
}
