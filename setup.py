"""The two things pyproject.toml cannot say: the cffi extension and the compiled helper programs."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from csrc.copy_sources import copy_sources  # noqa: E402
from csrc.engine.build_engine import build_engine  # noqa: E402
from csrc.tracer.build_tracer import build_tracer  # noqa: E402
from probes.build_probe import build_probe  # noqa: E402


class BuildExtensionAndPrograms(build_ext):
    """Builds the C core, the probe, the sources of CALL and of the MPI interposer, the engine and, with Valgrind, the tracer."""

    def run(self) -> None:
        folder = (ROOT if self.inplace else Path(self.build_lib)) / "convolver" / "_programs"
        with ThreadPoolExecutor() as several:  # most wait for a compiler
            programs = several.map(lambda build: build(folder), (build_probe, build_tracer, build_engine, copy_sources))
            super().run()
            for said in programs:
                self.announce(said, level=3)


setup(
    cffi_modules=["convolver/_native/build_core.py:ffibuilder"],
    cmdclass={"build_ext": BuildExtensionAndPrograms},
)
