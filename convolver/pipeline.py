"""The whole chain in one call: analyze, convolve, ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.analyzing.analyze import PredictableTrace, analyze, load_program
from convolver.analyzing.program_analysis import Analysis
from convolver.artifact_kinds import KINDS
from convolver.convolution.block_times import BlockTimes, without_draws
from convolver.convolution.convolve import common_method, paper_seconds
from convolver.convolution.cpu_ratio import CpuRatio, anchored, cpu_ratio
from convolver.convolution.elapsed_replay import ThreadReplay, times_on
from convolver.convolution.limit_shares import grouped
from convolver.convolution.system_time import PARTS, SystemTime, ratio_with_system, with_system
from convolver.errors import SchemaError, UsageError
from convolver.machine.catalog import MachineName, as_machine
from convolver.progress import SILENT, Progress
from convolver.schema import DocumentArtifact
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates

if TYPE_CHECKING:
    from convolver.modeling.model_artifact import Model
    from convolver.mpi.events import Events
    from convolver.mpi.timeline import Timeline

SCHEMA = "convolver.prediction"


class Prediction(DocumentArtifact):
    """Predicted times of one program on a base and a target machine, and what they rest on.

    ``document`` is the JSON artifact; ``base``, ``target`` (:class:`BlockTimes`), ``ratio`` (:class:`CpuRatio`), ``analysis``
    and, with MPI events, ``timeline`` are there on a prediction that was just made and None on one read from a file.
    """

    schema = SCHEMA

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        base: BlockTimes | None = None,
        target: BlockTimes | None = None,
        ratio: CpuRatio | None = None,
        analysis: Analysis | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        """Take a complete document; :func:`predict` makes one."""
        super().__init__(document)
        self.base, self.target, self.ratio, self.analysis = base, target, ratio, analysis
        self.timeline = timeline
        try:
            self.base_seconds = float(document["base"]["seconds"])
            self.target_seconds = float(document["target"]["seconds"])
            self.cpu_ratio = float(document["cpu_ratio"])
            measured = document["measured_seconds"]
            self.measured_seconds = None if measured is None else float(measured)
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"A prediction misses a field or has one of a wrong type: {error}.") from error

    @property
    def error(self) -> float | None:
        """Signed error of the predicted base time: (predicted - measured) / measured, None where nothing was measured."""
        value = self.document["error"]
        return None if value is None else float(value)

    @property
    def table(self) -> Any:
        """Blocks of the base machine with their times, or None on a prediction read from a file."""
        return None if self.base is None else self.base.table


def predict(
    program: PredictableTrace | Signature | str | Path,
    *,
    base: MachineName,
    target: MachineName | None = None,
    hits: HitRates | str | Path | None = None,
    events: Events | str | Path | None = None,
    correct: Model | None = None,
    measured_seconds: float | None = None,
    overlap: str = "norm",
    method: str = "calibrated",
    progress: Progress = SILENT,
) -> Prediction:
    """Predict a traced program's time on ``base`` and ``target`` (default: the base alone) and their CPU ratio.

    ``program`` and ``hits`` are as :func:`convolver.analyzing.analyze.analyze` takes them.
    ``measured_seconds`` is the native run time on the base (default: what the signature knows); with it the target's time is also
    given as measured / CPU ratio, which is how the paper uses the ratio. ``correct`` is a model of measured seconds over features
    of a prediction (docs/formats/prediction.md), applied last. ``events`` are MPI events of the base
    machine, to be replayed with the target's network.

    Raises what :func:`convolver.analyzing.analyze.analyze` and :func:`convolver.convolution.convolve.convolve` raise.
    """
    if isinstance(program, (str, Path)):
        program = load_program(program)
    machines = [as_machine(base), as_machine(target if target is not None else base)]
    analysis = analyze(program, machines, hits=hits, progress=progress)
    return predict_from(
        analysis,
        base=machines[0],
        target=machines[1],
        events=events,
        correct=correct,
        measured_seconds=measured_seconds,
        threads=ThreadReplay.of(program),
        overlap=overlap,
        method=method,
    )


def predict_from(
    analysis: Analysis,
    *,
    base: MachineName,
    target: MachineName,
    events: Events | str | Path | None = None,
    correct: Model | None = None,
    measured_seconds: float | None = None,
    waiting_seconds: float | None = None,
    threads: ThreadReplay | None = None,
    cores: int | None = None,
    pinning: str | None = None,
    overlap: str = "norm",
    method: str = "calibrated",
    beside: MachineName | None = None,
    before: Prediction | None = None,
) -> Prediction:
    """Predict from an analysis of a program on two machines at least, as :func:`predict` does: convolve twice, take the ratio.

    ``waiting_seconds``: what the program was seen to wait on the base; ``threads``: their replay, on so many ``cores``;
    ``beside``: the target in another state, which its interval then includes; ``before``: what the same call said of another
    target, which has the base's times.
    """
    if measured_seconds is not None and not 0 <= measured_seconds < math.inf:
        raise UsageError(f"{measured_seconds} is no number of measured seconds.")
    signature, base, target = analysis.signature, as_machine(base), as_machine(target)
    method = common_method([base, target], method)

    on = partial(times_on, analysis, threads=threads, cores=cores, pinning=pinning, overlap=overlap, method=method)
    if before is not None and before.base is not None and before.document["method"] == method:
        of_base, paper_of_base = before.base, float(before.document["paper"]["base_seconds"])
    else:
        of_base, paper_of_base = on(base, waiting_seconds=waiting_seconds), paper_seconds(analysis, base, overlap)
    same = target.id == base.id
    waited = waiting_seconds if same else None
    of_target = of_base if same and beside is None else on(target, beside=beside, waiting_seconds=waited)
    ratio = cpu_ratio(of_base, of_target)
    papers = (paper_of_base, paper_seconds(analysis, target, overlap))
    known = signature.measured_seconds if measured_seconds is None else measured_seconds
    inputs = {"signature": signature.id, "hit_rates": analysis.inputs.get("hit_rates"), "base": base.id, "target": target.id}
    document = _document(inputs, signature, (of_base, of_target), ratio, correct, known, papers)
    timeline = None
    if events is not None:
        from convolver.mpi.network_replay import replay

        timeline = replay(events, target, document["cpu_ratio"])
        document["replay"] = timeline.summary()
    return Prediction(document, base=of_base, target=of_target, ratio=ratio, analysis=analysis, timeline=timeline)


def _document(
    inputs: Mapping[str, str | None],
    signature: Signature,
    times: Sequence[BlockTimes],
    ratio: CpuRatio,
    correct: Model | None,
    measured: float | None,
    papers: tuple[float, float],
) -> dict[str, Any]:
    """Return what is predicted of a program with these times on base and target; ``papers``: seconds by the paper's own rates."""
    seconds = [_corrected(one, signature, correct) for one in times]
    user = seconds[0] / seconds[1] if correct is not None else ratio.total
    # A correction was fitted to measured times, which hold system time.
    systems = [None if correct is not None else one.system for one in times]
    total = ratio_with_system(user, seconds[1], systems)
    ends = None
    if ratio.interval is not None:
        ends = [ratio_with_system(end * user / ratio.total, seconds[1], systems) for end in ratio.interval]
    sides = [_side(*one) for one in zip(times, seconds, systems, strict=True)]
    return {
        "schema": SCHEMA,
        "version": KINDS[SCHEMA].version,
        "inputs": {**inputs, "correction": None if correct is None else correct.id},
        "command": signature.header.get("command"),
        "base": sides[0],
        "target": {**sides[1], **anchored(measured, total, ends)},
        "cpu_ratio": total,
        "cpu_ratio_interval": ends,
        "user_cpu_ratio": user,
        "measured_seconds": measured,
        "error": None if not measured else (sides[0]["seconds"] - measured) / measured,
        "coverage": times[0].coverage,
        "sampled_share": times[0].sampled_share,
        "extrapolated_share": times[0].extrapolated_share,
        "overlap": times[0].header["overlap"],
        "method": times[0].header["method"],
        "paper": _paper(papers, measured),
        "totals": signature.totals,
        "complete": bool(signature.header.get("complete", True)),
    }


def _paper(seconds: Sequence[float], measured: float | None) -> dict[str, float | None]:
    """Return what the paper's own rates predict, beside the method that is used."""
    base, target = seconds
    error = None if not measured else (base - measured) / measured
    return {"base_seconds": base, "target_seconds": target, "cpu_ratio": base / target if target else None, "error": error}


def _side(times: BlockTimes, user_seconds: float, system: SystemTime | None) -> dict[str, Any]:
    fields = ("projected", "assumptions")
    limits = grouped(times.table, 0.0 if system is None else system.seconds, times.waiting_seconds)
    whole, *ends = with_system(user_seconds, times.interval, system)
    parts = dict.fromkeys(PARTS) if system is None else system.parts
    return {
        "machine": times.machine,
        "seconds": whole,
        "interval_seconds": ends,
        "memory_seconds": float(times.table["memory_seconds"].sum()),
        "floating_point_seconds": float(times.table["floating_point_seconds"].sum()),
        "instruction_seconds": float(times.table["instruction_seconds"].sum()),
        "limits": limits,
        "waiting_seconds": times.header["waiting_seconds"],
        "user_seconds": user_seconds,
        "system_seconds": None if system is None else system.seconds,
        "system_interval_seconds": None if system is None else [system.low, system.high],
        **{f"system_{name}": value for name, value in parts.items()},
        "system_note": (times.header.get("system") or {}).get("note"),
        **{name: times.header[name] for name in fields},
        **({} if times.elapsed is None else _awaited(times)),
    }


def _awaited(times: BlockTimes) -> dict[str, Any]:
    seconds, *ends = times.awaited
    elapsed = without_draws(times.elapsed or {})
    return {"elapsed_seconds": seconds, "elapsed_interval_seconds": ends, "speedup": elapsed["speedup"], "elapsed": elapsed}


def features(times: BlockTimes, signature: Signature) -> dict[str, float]:
    """Return what a correction may use of a prediction: its seconds in total and by part, and the program's totals."""
    parts = ("memory_seconds", "floating_point_seconds", "instruction_seconds")
    sums = {name: float(times.table[name].sum()) for name in parts}
    return {"seconds": times.seconds, **sums, **{name: float(value) for name, value in signature.totals.items()}}


def _corrected(times: BlockTimes, signature: Signature, correct: Model | None) -> float:
    if correct is None:
        return times.seconds
    known = features(times, signature)
    return float(correct.apply({name: [value] for name, value in known.items() if name in correct.features})[0])
