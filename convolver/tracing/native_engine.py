"""The native engine: where it lies, how it is started, and what it cannot do."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from convolver.errors import ToolNotFoundError, UsageError
from convolver.tracing.places import entry_place
from convolver.tracing.sampling import PERIOD_SECONDS, STRETCH, SamplingPlan
from convolver.units import format_share

EngineChoice = Literal["valgrind", "native", "auto"]
PROGRAM = "convolver-engine"
REFUSED = 125
"""Its exit status where the program has not run."""
WENT_NATIVE = "native: "
"""How the lines of its log begin that say why a program ran on without the engine."""
UNTRACED = "untraced: "
"""How the line begins that says how many processes ran without the engine."""
OUTSIDE = re.compile(r"outside: (\d+) entries ([\d.]+) s of ([\d.]+) s$")
"""The line that says how much ran natively in code that the program made itself."""


class Attachment(NamedTuple):
    """A process that runs already, and for how many seconds it is traced; None: until it ends."""

    process: int
    seconds: float | None = None

    def command(self) -> list[str]:
        """Return the process's command line.

        Raises :class:`UsageError` where there is none to read, as of a kernel's thread, and for a process of another user.
        """
        try:
            words = Path(f"/proc/{self.process}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError as error:
            raise UsageError(f"There is no process {self.process} to attach to.") from error
        if not words:
            raise UsageError(f"Process {self.process} belongs to the kernel, or has ended; there is nothing to trace.")
        try:
            os.readlink(f"/proc/{self.process}/exe")
        except PermissionError as error:
            raise UsageError(f"Process {self.process} is not yours to trace; attach as its user, or as root.") from error
        return [word.decode(errors="replace") for word in words]

    @property
    def program(self) -> str:
        """Its executable file."""
        return os.path.realpath(f"/proc/{self.process}/exe")

    def options(self) -> list[str]:
        """Return the engine's options."""
        return [f"--attach={self.process}", *([] if self.seconds is None else [f"--for={self.seconds}"])]


def engine_program() -> Path:
    """Return the program that runs others under the engine; raises ToolNotFoundError where it was not built."""
    program = Path(__file__).resolve().parent.parent / "_programs" / "engine" / PROGRAM
    if not program.is_file():
        raise ToolNotFoundError("the engine was not built with this Convolver; install gcc and Convolver again")
    return program


def _places(option: str, program: str, where: str | None) -> list[str]:
    """Return the engine's options for where tracing starts or stops; it knows no names, so that functions are places in files.

    Raises :class:`UsageError` where neither the program nor its own libraries have the function.
    """
    from convolver.tracing.selection import function_blocks  # only here: it needs what reads object files

    if where is None or where == "marker" or where.startswith("0x"):
        return [] if where is None else [f"{option}={entry_place(program, where)}"]
    return [f"{option}=@{begin:x}:{module}" for module, begin, _ in function_blocks(program, [where])]


def engine_options(plan: SamplingPlan, program: str = "") -> list[str]:
    """Return the engine's options for a plan that it can carry out (see :meth:`SamplingPlan.missing_natively`)."""
    objects = ["--data-objects", f"--allocators={','.join(plan.allocators)}"] if plan.data_objects else []
    return [
        *_recorded(plan),
        *objects,
        *_places("--start-at", program, plan.start_at),
        *_places("--stop-at", program, plan.stop_at),
    ]


def _recorded(plan: SamplingPlan) -> list[str]:
    if plan.mode == "counts":
        return []
    limit = [f"--block-limit={plan.block_limit}"] if plan.block_limit else []
    if plan.mode == "full":
        return ["--full", *(["--paths"] if plan.paths else []), *limit]
    limit += ["--no-paths"] if plan.paths is False else []
    if plan.bursts_only:
        options = [f"--bursts-only={PERIOD_SECONDS}", f"--sample={plan.sample}", f"--warmup={plan.warmup}", *limit]
        return [*options, f"--stretch={STRETCH}"] if plan.kept_bytes else options
    options = [f"--interval={plan.interval}", f"--sample={plan.sample if plan.interval else 0}", f"--warmup={plan.warmup}"]
    options += [f"--sets={plan.sets}", f"--set-class={plan.chosen_class}"] if plan.sets > 1 else []
    return [*options, *limit, *([f"--stretch={STRETCH}"] if plan.kept_bytes else [])]


def check_objects(plan: SamplingPlan, contradiction: str) -> None:
    """Raise :class:`UsageError` where the engine is asked for data objects of what it does not see from its beginning."""
    if plan.engine == "native" and plan.data_objects:
        raise UsageError(f"The native engine cannot tell data objects {contradiction}; leave one of both out.")


def refusal() -> str | None:
    """Return why no program can run under the engine here, as one sentence; None: one can."""
    try:
        tried = subprocess.run([engine_program(), "--", "/bin/true"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired, ToolNotFoundError) as error:
        return str(error)
    if tried.returncode != REFUSED:
        return None
    return tried.stderr.strip().splitlines()[-1] if tried.stderr.strip() else "ptrace is not allowed here"


def checked_engine(wanted: str) -> EngineChoice:
    """Return the name of an engine, or "auto"; raises :class:`UsageError` for another."""
    if wanted not in get_args(EngineChoice):
        raise UsageError(f"There is no engine '{wanted}'; choose valgrind, native or auto.")
    return cast(EngineChoice, wanted)


def _said(log: Path, begin: str) -> list[str]:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line.removeprefix(begin) for line in lines if line.startswith(begin)]


def went_native(log: Path) -> list[str]:
    """Return why the program ran on without the engine, a phrase for each place."""
    return _said(log, WENT_NATIVE)


def made_code(log: Path) -> dict[str, float] | None:
    """Return how often the program went into code that it made itself, for how long, and of how much CPU time; None: never."""
    found = [OUTSIDE.match(line) for line in _said(log, "")]
    entries, seconds, every = next((line.groups() for line in found if line), ("0", "0", "0"))
    return {"entries": int(entries), "seconds": float(seconds), "of_seconds": float(every)} if int(entries) else None


def made_code_share(header: Mapping[str, Any], seconds: float | None = None) -> float:
    """Return the share of the CPU time that went to code that the program made itself, by a trace's header: of the traced run, or
    of the ``seconds`` that the program takes natively."""
    made = header.get("made_code")
    if not made:
        return 0.0
    every = seconds or made["of_seconds"]
    return min(made["seconds"] / every, 1.0) if every else 1.0


def made_code_sentence(header: Mapping[str, Any]) -> str | None:
    """Return what a trace's header says of code that the program made itself, as a sentence; None: nothing."""
    made = header.get("made_code")
    if not made:
        return None
    return (
        f"{format_share(made_code_share(header))} of the CPU time ran natively and is not counted, in code that the program made "
        f"itself ({made['seconds']:.2f} s, entered {made['entries']:,} times)."
    )


def untraced(log: Path) -> int:
    """Return how many processes the program made that ran natively."""
    return sum(int(number) for number in _said(log, UNTRACED))
