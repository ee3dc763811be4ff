"""The campaign file: which programs with which inputs are predicted and measured under which conditions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from convolver.errors import SchemaError, UsageError
from convolver.foreign_text import decode_toml, readable
from convolver.schema import document_id
from convolver.tracing.native_engine import EngineChoice
from convolver.tracing.sampling import SamplingPlan
from convolver.units import parse_count

Pages = Literal["default", "4k", "thp"]
Mode = Literal["hybrid", "full"]
Effort = Literal["quick", "full"]


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and its inputs.

    ``inputs`` maps a name to the words after ``command``. ``source`` is a C file that is compiled to ``./NAME`` first;
    ``package`` names what to install where the command is missing; ``origin`` says who wrote it. ``quick`` lists the inputs
    of a quick campaign (default: the first), ``full`` those that are traced with every reference, too. Words may hold
    ``{here}`` (the campaign's folder), ``{python}`` and ``{input}``.
    A run that ends with another exit status than ``status`` does not count. With more than one of ``threads`` it has as many
    CPUs, and elapsed times are compared.
    """

    name: str
    command: list[str]
    inputs: dict[str, list[str]] = msgspec.field(default_factory=lambda: {"": []})
    folder: str = "."
    environment: dict[str, str] = {}
    source: str = ""
    flags: tuple[str, ...] = ("-O2",)
    package: str = ""
    origin: str = ""
    status: int = 0
    threads: int = 1
    quick: list[str] | None = None
    full: list[str] = []


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine, or this one in some state.

    ``loaded_cpus`` other CPUs copy memory all the time; ``pages`` are what programs and probe get; ``cpu_quota`` is the CPU share
    that the control group allows. With ``profile`` it is another machine, measured elsewhere: ``times`` is a CSV file with the
    columns program, input, seconds.
    """

    name: str
    loaded_cpus: int = 0
    pages: Pages = "default"
    cpu_quota: float = 1.0
    profile: str = ""
    times: str = ""
    quick: bool = True


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One program with one input, ready to run: words and folder are resolved. ``built``: a hash of the source and the flags that
    its program was compiled from, where it was."""

    program: str
    input: str
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    origin: str
    package: str
    status: int
    threads: int = 1
    full: bool = False
    built: str = ""

    @property
    def name(self) -> str:
        """Program and input in one word, which names files."""
        return f"{self.program}-{self.input}" if self.input else self.program

    @property
    def key(self) -> str:
        """Hash of everything that decides what runs."""
        usual = {"full": self.full, "threads": 1, "built": ""}
        fields = msgspec.to_builtins(self).items()
        return document_id({"job": {name: value for name, value in fields if usual.get(name) != value}})


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A campaign file. ``base`` names the condition from which CPU ratios start (default: the first)."""

    name: str
    program: list[Program]
    condition: tuple[Condition, ...] = (Condition(name="host"),)
    base: str = ""
    runs: int = 5
    quick_runs: int = 3
    prepare: list[list[str]] = []
    modes: tuple[Mode, ...] = ("hybrid",)
    interval: str = "1M"
    sample: str = "30k"
    sets: int = 32
    engine: EngineChoice = "auto"
    probe: Effort = "quick"

    @classmethod
    def load(cls, path: str | Path) -> Campaign:
        """Read and check a campaign file; raises :class:`FormatError` and its kinds."""
        with readable(path):
            document = decode_toml(Path(path).read_bytes(), str(path))
        try:
            return msgspec.convert(document, cls)._checked(str(path))
        except msgspec.ValidationError as error:
            raise SchemaError(f"{path} is no campaign: {error}; docs/formats/campaign.md lists the fields.") from error

    def _checked(self, where: str) -> Campaign:
        for kind, names in (
            ("program", [program.name for program in self.program]),
            ("condition", [condition.name for condition in self.condition]),
        ):
            if not names:
                raise SchemaError(f"{where} has no {kind}; give it at least one [[{kind}]].")
            for name in names:
                if not name or "/" in name or names.count(name) > 1:
                    raise SchemaError(f"The {kind} '{name}' in {where} has an empty or repeated name, or one with '/'.")
        for program in self.program:
            self._check_program(program, where)
        jobs = [job.name for job in self.jobs(Path(), Path())]
        if twice := next((name for name in jobs if jobs.count(name) > 1), None):
            raise SchemaError(f"Two programs in {where} have files named '{twice}', for program and input; rename one of them.")
        if not all(self.prepare):
            raise SchemaError(f"A preparation in {where} has no words; write it as a list of a command and its arguments.")
        try:
            self.sampling.check()
        except UsageError as error:
            raise SchemaError(f"{where} cannot be traced as it says: {error}") from error
        for condition in self.condition:
            self._check_condition(condition, where)
            if condition.cpu_quota < 1 and any(program.threads > 1 for program in self.program):
                raise SchemaError(f"The condition '{condition.name}' in {where} has a cpu_quota, and a program several threads.")
        if self.base and self.base not in [condition.name for condition in self.condition]:
            raise SchemaError(f"The base '{self.base}' of {where} is none of its conditions.")
        if min(self.runs, self.quick_runs) < 1:
            raise SchemaError(f"{where} asks for {min(self.runs, self.quick_runs)} runs; at least one is needed.")
        return self

    @staticmethod
    def _check_program(program: Program, where: str) -> None:
        if not program.command or not program.inputs:
            raise SchemaError(f"The program '{program.name}' in {where} has no command or no input.")
        for name in [*program.inputs, *(program.quick or []), *program.full]:
            if "/" in name or name not in program.inputs:
                raise SchemaError(f"The program '{program.name}' in {where} has no input '{name}', or its name holds a '/'.")
        if program.threads < 1:
            raise SchemaError(f"The program '{program.name}' in {where} has {program.threads} threads; at least one is needed.")

    @staticmethod
    def _check_condition(condition: Condition, where: str) -> None:
        if not 0 < condition.cpu_quota <= 1 or condition.loaded_cpus < 0:
            raise SchemaError(f"The condition '{condition.name}' in {where} needs a cpu_quota in 0..1 and loaded_cpus >= 0.")
        if bool(condition.profile) != bool(condition.times):
            raise SchemaError(f"The condition '{condition.name}' in {where} needs both a profile and times, or neither.")

    @property
    def sampling(self) -> SamplingPlan:
        """How the hybrid traces are sampled; raises :class:`UsageError` for what is no count."""
        return SamplingPlan(interval=parse_count(self.interval), sample=parse_count(self.sample), sets=self.sets)

    @property
    def base_name(self) -> str:
        """Name of the base condition."""
        return self.base or self.condition[0].name

    @property
    def base_condition(self) -> Condition:
        """Return the condition from which CPU ratios start."""
        return next(one for one in self.condition if one.name == self.base_name)

    def quick(self) -> Campaign:
        """Return the quick selection of programs, inputs and conditions, with ``quick_runs`` runs at most.

        Raises :class:`UsageError` where it has no program.
        """
        programs = [
            msgspec.structs.replace(program, inputs={name: program.inputs[name] for name in chosen})
            for program in self.program
            if (chosen := list(program.inputs)[:1] if program.quick is None else program.quick)
        ]
        if not programs:
            raise UsageError("The quick selection has none of these programs; leave out --quick.")
        conditions = tuple(one for one in self.condition if one.quick or one.name == self.base_name)
        runs = min(self.runs, self.quick_runs)
        return msgspec.structs.replace(
            self, program=programs, condition=conditions, base=self.base_name, runs=runs, modes=self.modes[:1]
        )

    def only(self, names: list[str]) -> Campaign:
        """Return the campaign with these programs alone; raises :class:`UsageError` for an unknown one."""
        for name in names:
            if name not in [program.name for program in self.program]:
                raise UsageError(f"The campaign has no program '{name}'; it has {', '.join(one.name for one in self.program)}.")
        kept = [program for program in self.program if program.name in names]
        return msgspec.structs.replace(self, program=kept) if names else self

    def jobs(self, here: Path, folder: Path) -> Iterator[Job]:
        """Yield every program with every input; ``folder`` is where they run."""
        for program in self.program:
            for name, words in program.inputs.items():
                known = {"{here}": str(here), "{python}": sys.executable, "{input}": name}
                yield Job(
                    program=program.name,
                    input=name,
                    command=tuple(fill(word, known) for word in [*program.command, *words]),
                    folder=str(folder / fill(program.folder, known)),
                    environment=program.environment,
                    origin=program.origin,
                    package=program.package,
                    status=program.status,
                    threads=program.threads,
                    full=name in program.full,
                )


def fill(text: str, known: dict[str, str]) -> str:
    """Replace the place holders in a word."""
    for name, value in known.items():
        text = text.replace(name, value)
    return text
