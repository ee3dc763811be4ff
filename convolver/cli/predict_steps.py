"""The steps of ``convolver predict``: gather the machines and the trace, predict, keep the artifacts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from convolver.analyzing.analyze import PredictableTrace, analyze, load_program
from convolver.analyzing.program_analysis import Analysis
from convolver.child_processes import signal_name
from convolver.cli.common import existing, new_file, new_folder, pinning, say, say_one_thread, say_what_is_kept, wrote
from convolver.cli.wanted import CoreCounts, Wanted
from convolver.convolution.verdict import beside_measured
from convolver.errors import UnknownMachineError, UsageError
from convolver.machine.catalog import HOST, find_machine, host_name
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.machine.states import SEPARATOR, STATES, both_states
from convolver.pipeline import Prediction, predict_from
from convolver.reporting.console import terminal_progress
from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.units import format_share, listed

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes
    from convolver.convolution.elapsed_replay import ThreadReplay
    from convolver.mpi.timeline import Timeline
    from convolver.tracing.instruction_sets import UsedSets
    from convolver.tracing.measure import Measurement

MOSTLY = 0.5
"""Share of a command's time that goes to processes which it starts, from which on these are what is to be predicted."""
BUSY = 0.05
"""Share of the native runs in which other programs had the processor that is named."""


def say_failed(status: int | None) -> None:
    """Say that the program failed, where it did; ``status`` is the shell's, 128 and the number of a signal that killed it."""
    if status:
        by = f" ({signal_name(status - 128)})" if status > 128 else ""
        say(f"The program ended with status {status}{by}; the prediction is for what it did until then.")


class Chain:
    """One call of ``convolver predict``."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.output, self.force = wanted, wanted.output, wanted.force
        self.scaling, self.pinning = CoreCounts.parse(wanted.scaling), pinning(wanted.pin)
        self.beside: dict[str, MachineProfile] = {}
        self.measured_runs = 0
        self.progress = terminal_progress()
        self.measurement: Measurement | None = None
        self.sources: dict[str, str] = {}
        self._differences: list[str] = []
        self.stem = ""
        self.base: MachineProfile
        self.targets: list[MachineProfile]
        self.signature: Signature
        self.trace: PredictableTrace | None = None
        self.anew: dict[int, Trace] = {}
        """Traces of runs that were asked for other numbers of threads, by these."""
        self.hits: Path | None = None
        self.analysis: Analysis

    def use(self, path: Path, hits: Path | None) -> None:
        """Take a trace, or a signature with its hit rates."""
        existing(path)
        self.find_machines()
        self.stem = path.name.removesuffix(".parquet").removesuffix(".sig").removesuffix(".cvt")
        if hits is None:
            self.trace = load_program(path)
            if isinstance(self.trace, Signature):
                raise UsageError(f"{path} is no trace; give the trace (.cvt), or a signature together with --hits.")
            self.signature = self.trace.signature
            self.sources = {"trace": str(path)}
            self.make_folder(self._names())
            return
        self.signature, self.hits = Signature.load(path), hits
        self.make_folder()
        self.sources = {"signature": str(path), "hit rates": str(hits)}

    def record(
        self, argv: list[str], runs: int, sampling: SamplingPlan, engine: str | None = None, *, follows: bool = False
    ) -> bool:
        """Probe where needed, measure and trace a command; ``engine``: as ``--engine`` names it.

        ``follows``: a command that leaves its work to processes which it starts is measured only, and the result False.
        """
        from convolver.cli.threads_anew import ThreadsAnew
        from convolver.cli.trace_plan import switched
        from convolver.tracing.engine_choice import died_of_valgrind, other_code, too_long, uncounted
        from convolver.tracing.launch import closed_off
        from convolver.tracing.preflight import check_command
        from convolver.tracing.recording import objects_path
        from convolver.tracing.tracer import trace
        from convolver.tracing.writer import signature_path

        check_command(argv, scan=sampling.engine == "valgrind")
        self.make_folder()
        folder = self.output or Path(".")
        self.output = folder
        self.stem = Path(argv[0]).name
        cvt = new_file(folder / f"{self.stem}.cvt", self.force)
        signature = new_file(signature_path(cvt), self.force)
        objects = new_file(objects_path(cvt), self.force) if sampling.data_objects else None
        self.find_machines(probe=True)
        anew = ThreadsAnew(argv, self.scaling.on_any(self.machines))
        argv = anew.words(anew.usual)
        more = anew.paths(folder, self.stem, self.force)
        for name in self._names():
            new_file(folder / name, self.force)
        self.say_how_long(argv, runs)
        if runs:
            measured = self.measure(argv, runs)
            if follows and measured.children_share > MOSTLY:
                self._say_children(argv, measured.children_share)
                return False
            sampling = switched(engine, sampling, too_long(sampling, measured)) or sampling
        seconds = None if self.measurement is None else self.measurement.seconds

        def traced_by(plan: SamplingPlan) -> Trace:
            with closed_off(), say_what_is_kept(cvt):
                return trace(argv, output=cvt, sampling=plan, progress=self.progress)

        traced = traced_by(sampling)
        why = uncounted(argv, sampling, traced, seconds)
        if again := switched(engine, sampling, why, " again"):
            sampling, traced = again, traced_by(again)
        why = died_of_valgrind(sampling, traced.header) or other_code(sampling, traced.signature)
        if again := switched(engine, sampling, why, " again"):
            sampling, traced = again, traced_by(again)
        self.anew = anew.record(traced, more, sampling, self.progress)
        self.trace = traced
        self.signature = traced.signature
        self.sources = {"trace": str(cvt), "signature": str(signature)}
        self.sources |= {f"trace at {count} thread{'s' * (count > 1)}": str(more[count]) for count in self.anew}
        if objects is not None:
            self.sources["data objects"] = str(objects)
        say_failed(self.signature.header.get("exit_status"))
        return True

    def _say_children(self, argv: Sequence[str], share: float) -> None:
        from convolver.mpi.capture import LAUNCHERS

        name = Path(argv[0]).name
        say(f"Processes that {name} starts have {format_share(share)} of its time, so all are traced (--trace-children).")
        if name.split(".")[0] in LAUNCHERS:
            say("For elapsed times of an MPI program record its messages with `convolver mpi trace`.")

    def make_folder(self, names: Sequence[str] = ()) -> None:
        """Make the folder for the artifacts, once it is clear that there will be some; see that these may be written."""
        if self.output is not None:
            new_folder(self.output)
            for name in names:
                new_file(self.output / name, self.force)

    def measure(self, argv: list[str], runs: int) -> Measurement:
        """Run the command natively, so often at least."""
        from convolver.tracing.measure import measure

        self.measured_runs = runs
        self.measurement = measure(argv, runs=runs, progress=self.progress)
        self._differences = self._differences_now()
        return self.measurement

    def say_how_long(self, argv: Sequence[str], runs: int) -> None:
        """Say what is going to run: without a terminal no bar shows it."""
        natively = f"{runs} time{'s' * (runs > 1)}, then " if runs else ""
        say(f"Running {Path(argv[0]).name} {natively}under the tracer, which takes several times as long.")

    def find_machines(self, probe: bool = False) -> None:
        """Look the machines up; ``probe``: this one, where it has no profile."""
        try:
            self.base = find_machine(self.wanted.base)
        except UnknownMachineError:
            if not probe or self.wanted.base != HOST:
                raise
            self.base = self._probe()
        self.base = self._busy(self.base)
        self.targets = [self._busy(self._in_state(name)) for name in self.wanted.target or ()] or [self.base]

    def _in_state(self, name: str) -> MachineProfile:
        """Return a target in the state that is asked for, and keep its other one: the interval then includes both."""
        target = find_machine(name)
        if self.wanted.state is None or name.rpartition(SEPARATOR)[2] in STATES:
            return target
        chosen, other = both_states(target, self.wanted.state)
        if other is not None:
            self.beside[chosen.name] = other
        return chosen

    def _busy(self, machine: MachineProfile) -> MachineProfile:
        """Return the machine as a rank on a busy node sees it, where that is asked for."""
        from convolver.calibration.calibrate import calibrated
        from convolver.machine.contention import contended

        if self.wanted.ranks in (None, 1) and not self.wanted.loaded:
            return machine
        busy = contended(machine, self.wanted.ranks, loaded=self.wanted.loaded)
        return calibrated(busy, progress=self.progress)[0] if machine.calibration else busy

    def _probe(self) -> MachineProfile:
        from convolver.calibration.calibrate import calibrated
        from convolver.probing.machine_probe import probe

        path = (self.output or Path(".")) / f"{host_name()}{SUFFIX}"
        if path.is_file():  # an earlier run's
            return find_machine(path)
        say("This machine has no profile yet: probing it. Keep it quiet meanwhile.")
        profile, _ = calibrated(probe(progress=self.progress), progress=self.progress)
        profile.save(path)
        wrote(path)
        return profile

    def _say_other_code(self) -> None:
        """Warn of targets that lack instruction sets which the program executed, and of code that was not traced."""
        from convolver.machine.processor_sets import processor_sets
        from convolver.tracing.engine_choice import other_code_there
        from convolver.tracing.native_engine import made_code_sentence

        if self.trace is not None and (made := made_code_sentence(self.trace.header)):
            say(f"Note: {made}")
        sets = {target.name: processor_sets(target.cpu) for target in self.targets}
        if isinstance(self.trace, Trace):
            self._say_lacking({name: known.lacks for name, known in sets.items()}, self.trace.instruction_sets)
        has = {name: known.has for name, known in sets.items()}
        other = {} if self.trace is None else other_code_there(self.trace.header, self.signature, has)
        for name, where in other.items():
            say(f"Note: on {name} the program may take another path: {where}")

    def _say_lacking(self, lacks: dict[str, frozenset[str]], used: UsedSets) -> None:
        """Warn of the sets that the program executed and that targets lack: one sentence for all that lack the same."""
        by_missing: dict[tuple[str, ...], list[str]] = {}
        for name, sets in lacks.items():
            by_missing.setdefault(tuple(one for one in used.names if one in sets), []).append(name)
        for missing, names in by_missing.items():
            if missing:
                share = used.share(frozenset(missing))
                part = format_share(share) if share >= 0.01 else "less than 1 %"
                lack = "lacks" if len(names) == 1 else "lack"
                say(
                    f"Note: the program executed {listed(missing)}, which {listed(names)} {lack}, "
                    f"in {part} of its instructions; libraries that choose their code by the processor take another path there."
                )

    def predict(
        self,
        measured: float | None,
        correct: Path | None,
        overlap: str,
        events: Path | None = None,
        method: str = "calibrated",
    ) -> list[Prediction]:
        """Return one prediction a target."""
        self._say_other_code()
        model = None
        if correct is not None:
            from convolver.modeling.model_artifact import Model

            model = Model.load(correct)
        self.analysis = analyze(self.trace or self.signature, self.machines, hits=self.hits, progress=self.progress)
        threads = self._thread_replay()
        predictions = self.on_targets(
            self.analysis,
            events=events,
            correct=model,
            measured_seconds=self.measured_seconds(measured),
            waiting_seconds=self._waiting_seconds(),
            threads=threads,
            cores=self.wanted.cores,
            pinning=self.pinning,
            overlap=overlap,
            method=method,
        )
        self._add_elapsed(predictions, threads)
        return predictions

    @property
    def machines(self) -> list[MachineProfile]:
        """All that a program is analyzed for."""
        return [self.base, *self.targets, *self.beside.values()]

    def measured_seconds(self, given: float | None) -> float | None:
        """Return the native time that is given, else that of the runs."""
        return self.measurement.seconds if given is None and self.measurement is not None else given

    def on_targets(self, analysis: Analysis, **how: Any) -> list[Prediction]:
        """Return one prediction a target; ``how`` is what :func:`convolver.pipeline.predict_from` takes."""
        found: list[Prediction] = []
        for target in self.targets:
            beside, before = self.beside.get(target.name), found[0] if found else None
            found.append(predict_from(analysis, base=self.base, target=target, beside=beside, before=before, **how))
        return found

    def _thread_replay(self) -> ThreadReplay | None:
        """Return the replay of the program's threads where several ran; says why where there is none."""
        if not isinstance(self.trace, Trace):
            return None
        if self.trace.thread_log is None:
            if self._threads_without_log > 1:
                count = self._threads_without_log
                say(
                    f"Elapsed times are not known: the trace does not say what its {count} threads wait for, as none of a "
                    "part of the run does (--attach, --start-at, --stop-at, --bursts-only); trace the whole run for them."
                )
            return None
        from convolver.convolution.elapsed_replay import ThreadReplay

        try:
            return ThreadReplay(self.trace)
        except UsageError as error:
            say(str(error))
            return None

    @property
    def _threads_without_log(self) -> int:
        """How many threads a trace saw of which it does not say what they waited for; 0 where it says so."""
        known = isinstance(self.trace, Trace) and self.trace.thread_log is None
        return int(self.trace.header.get("threads") or 1) if known and self.trace is not None else 0

    @property
    def seen(self) -> list[str]:
        """What of this machine disturbed the native runs, or differed from the profile of it, as phrases."""
        native = self.measurement
        if native is None or native.queued_share <= BUSY:
            return self._differences
        log = self.trace.thread_log if isinstance(self.trace, Trace) else None
        others = "other programs" if log is None or log.threads <= native.cpus else "other programs, or its own threads,"
        queued = f"{others} had the processor for {format_share(native.queued_share)} of the native runs"
        return [queued, *self._differences]

    def _differences_now(self) -> list[str]:
        from convolver.probing.machine_probe import default_cpu
        from convolver.validating.sharing import differences

        return differences(self.base, default_cpu()) if self.base.provenance.get("host") == host_name() else []

    def _waiting_seconds(self) -> float | None:
        """Return what the program waited natively, where it is one process with one thread."""
        system = self.signature.header.get("system") or {}
        alone = not system.get("threads") and not system.get("forks")
        return self.measurement.waiting_seconds if self.measurement is not None and alone else None

    def _add_elapsed(self, predictions: list[Prediction], threads: ThreadReplay | None) -> None:
        """Add the measured elapsed time, and elapsed times on other numbers of cores, where these are asked for."""
        if threads is None and not self.anew:
            if self._threads_without_log <= 1:
                say_one_thread(cores=self.wanted.cores, scaling=self.scaling.wanted, pin=self.pinning)
            return
        from convolver.convolution.scaled_threads import ThreadScaling

        scaling = ThreadScaling(threads, self.anew, [self.base, *self.targets], self.progress)
        fixed = None if self.anew or threads is None else threads.threads
        for one, machine in zip(predictions, self.targets, strict=True):
            for name, profile, times in (("base", self.base, one.base), ("target", machine, one.target)):
                assert times is not None
                how = one.document["method"], one.document["overlap"], self.pinning
                rows = [scaling.on(cores, profile, times, *how) for cores in self.scaling.on(profile, fixed)]
                self._set_beside_measured(one.document[name], rows, self.measurement if name == "base" else None)
            if self.output is not None and one.target is not None and threads is not None:
                one.timeline = self._threads_over_time(threads, machine, one.target)

    def _set_beside_measured(self, side: dict[str, Any], scaling: list[dict[str, Any]], native: Measurement | None) -> None:
        """Add measured elapsed seconds to the prediction for a machine, and to those for other numbers of cores."""
        wall = None if native is None else median(sorted(native.wall_seconds)[: self.measured_runs])
        cpus = 0 if native is None else native.cpus
        # A run that was asked for another number of threads was traced, not measured.
        rows = [beside_measured(row, None if row["cores"] in self.anew else wall, cpus) for row in scaling]
        side |= {"measured_elapsed_seconds": wall, "measured_cpus": cpus or None, "scaling": rows or None}
        if "elapsed" in side:
            side["elapsed"] = beside_measured(side["elapsed"], wall, cpus)

    def _threads_over_time(self, threads: ThreadReplay, machine: MachineProfile, times: BlockTimes) -> Timeline:
        from convolver.mpi.timeline import thread_timeline

        inputs = {"signature": self.signature.id, "machine": machine.id}
        return thread_timeline(
            threads.intervals(machine, times, cores=self.wanted.cores, pinning=self.pinning), machine.name, inputs
        )

    def _names(self) -> list[str]:
        machines = dict.fromkeys(machine.name for machine in [self.base, *self.targets])
        names = [f"{self.stem}.{kind}.parquet" for kind in ("hits", "analysis")]
        names += [f"{self.stem}@{name}.times.parquet" for name in machines]
        for target in self.targets:
            names += [f"{self.stem}@{target.name}.ratio.json", f"{self.stem}@{target.name}.prediction.json"]
        return names

    def artifacts(self, predictions: list[Prediction]) -> dict[str, str]:
        """Write the artifacts where a folder is given, and return where everything lies."""
        found = dict(self.sources)
        if self.output is None:
            return found
        wanted: dict[str, Any] = {f"{self.stem}.analysis.parquet": self.analysis}
        if self.analysis.hit_rates is not None:
            wanted[f"{self.stem}.hits.parquet"] = self.analysis.hit_rates
        signature = self.output / f"{self.stem}.sig.parquet"
        if found.get("signature") != str(signature) and (self.force or not signature.exists()):
            wanted[signature.name] = self.signature  # of a trace elsewhere: what makes the folder whole for a report
        for one in predictions:
            for times in (one.base, one.target):
                assert times is not None
                wanted[f"{self.stem}@{times.machine}.times.parquet"] = times
            target = one.document["target"]["machine"]
            wanted[f"{self.stem}@{target}.ratio.json"] = one.ratio
            wanted[f"{self.stem}@{target}.prediction.json"] = one
            if one.timeline is not None:
                wanted[f"{self.stem}@{target}.timeline.parquet"] = one.timeline
        for name in wanted:
            new_file(self.output / name, self.force)
        for name, artifact in wanted.items():
            path = self.output / name
            artifact.save(path)
            found[name.removeprefix(self.stem).lstrip("@.").rpartition(".")[0].replace(".", " ")] = str(path)
        return found

    def say_wrote(self) -> None:
        """Say in one line which files were written, and in a folder of their own what shows them."""
        if self.output is not None:
            name, own = self.output / self.stem, self.output != Path()
            shown = f"; `convolver report {shlex.quote(str(self.output))}` shows them" if own else ""
            say(f"Wrote {name}.* and {name}@*{shown}.")
