"""The exception tree and the exit code of each branch.

::

    ConvolverError                 1
      FormatError                  3   UnsupportedVersionError ChecksumError SchemaError ProvenanceError
      MachineError                 3   UnknownMachineError HierarchyError
      ToolError                    4   ToolNotFoundError TracerError ProbeError ProbeKilledError
      SimulationError              1
      PredictionError              5   CoverageError ReplayError ModelError
        ModelUsageError          2   a UsageError, too
    ConvolverWarning                   ExtrapolationWarning SamplingWarning NoiseWarning

Every message is one sentence: what, where, what to do next.
"""

from __future__ import annotations


class ConvolverError(Exception):
    """Base of all errors that Convolver raises on purpose."""

    exit_code = 1


class UsageError(ConvolverError):
    """The arguments contradict each other or name something that cannot be used."""

    exit_code = 2


class FormatError(ConvolverError):
    """A file is not what it claims to be, or is damaged."""

    exit_code = 3


class UnsupportedVersionError(FormatError):
    """The file's version is newer than this reader."""


class ChecksumError(FormatError):
    """The stored checksum differs from the content."""


class SchemaError(FormatError):
    """A document misses a field, or a field has the wrong type."""


class ProvenanceError(FormatError):
    """Two artifacts do not belong together: their ids disagree."""


class MachineError(ConvolverError):
    """A machine profile cannot be used."""

    exit_code = 3


class UnknownMachineError(MachineError):
    """No machine has this name."""


class HierarchyError(MachineError):
    """A cache hierarchy has an impossible geometry."""


class ToolError(ConvolverError):
    """An external program is missing or failed."""

    exit_code = 4


class ToolNotFoundError(ToolError):
    """An external program or a compiled part is not installed."""


class TracerError(ToolError):
    """The tracer could not run the command or failed while running it."""


class ProbeError(ToolError):
    """The probe binary failed or measured nonsense."""


class ProbeKilledError(ProbeError):
    """A signal ended a process of the probe."""


class SimulationError(ConvolverError):
    """The simulator refused its input."""


class PredictionError(ConvolverError):
    """No prediction is possible from what is given."""

    exit_code = 5


class CoverageError(PredictionError):
    """Too little of the program was traced to predict from it."""


class ReplayError(PredictionError):
    """The communication replay cannot finish, for example because of a deadlock."""


class ModelError(PredictionError):
    """A statistical model cannot be fitted or applied."""


class ModelUsageError(ModelError, UsageError):
    """A kind of model, an option, a metric or a unit that is unknown, or a value that it cannot have."""

    exit_code = UsageError.exit_code


class ConvolverWarning(UserWarning):
    """Base of all warnings."""


class ExtrapolationWarning(ConvolverWarning):
    """A result lies outside the measured range."""


class SamplingWarning(ConvolverWarning):
    """A sample is too small or biased."""


class NoiseWarning(ConvolverWarning):
    """A measurement was disturbed."""
