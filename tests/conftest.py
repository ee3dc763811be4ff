"""Settings of all tests.

A law holds however long one example takes, so that a busy machine fails no test, and the laws of one commit see the same examples
every time; ``--hypothesis-profile=explore`` looks for new ones, ``quick`` (`make test`) takes a third of them. A shell that
starts the tests in the background lets them ignore Ctrl-C, and nohup the end of the terminal, which the programs they start would
inherit.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("convolver", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("convolver"))
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile("convolver")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_LONGEST_FIRST = ("tests/integration/mpi", "tests/integration", "tests/property", "tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that the workers end together; what builds the sanitized core is slow."""
    if config.getoption("--hypothesis-profile") == "quick":
        for law in {item.obj for item in items if isinstance(item, pytest.Function) and hasattr(item.obj, "hypothesis")}:
            whole = law._hypothesis_internal_use_settings
            law._hypothesis_internal_use_settings = settings(whole, max_examples=-(-whole.max_examples // 3))
    for item in items:
        if isinstance(item, pytest.Function) and "sanitized" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next(at for at, folder in enumerate(_LONGEST_FIRST) if item.nodeid.startswith(folder)))


ROOT = Path(__file__).resolve().parents[1]
_SANITIZED = ("-std=gnu11", "-Og", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fno-strict-aliasing")
_SANITIZED += ("-fsanitize=address,undefined", "-fno-sanitize-recover", "-I", str(ROOT / "csrc" / "include"))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Return a function that has a named folder filled once for all workers: the first one fills it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    shared.mkdir(exist_ok=True)

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, ready = shared / name, shared / f"{name}.ready"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                ready.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def sanitized(made_once) -> Callable[[str], Path]:
    """Return a function that builds tests/c/NAME.c and the C core under the address and undefined-behavior sanitizers.

    Asserts are on.
    """
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")

    def build_core(folder: Path) -> None:
        sources = [path for name in ("common", "core", "replay", "sim", "trace") for path in (ROOT / "csrc" / name).glob("*.c")]

        def compile_one(source: Path) -> Path:
            to = folder / f"{source.parent.name}-{source.stem}.o"
            subprocess.run(["gcc", *_SANITIZED, "-c", source, "-o", to], check=True)
            return to

        with ThreadPoolExecutor(os.cpu_count()) as several:
            objects = list(several.map(compile_one, sources))
        subprocess.run(["ar", "rcs", folder / "libcore.a", *objects], check=True)

    def build(driver: str) -> Path:
        library = made_once("sanitized-core", build_core) / "libcore.a"
        command = ["gcc", *_SANITIZED, ROOT / "tests" / "c" / f"{driver}.c", library, "-lm", "-lpthread", "-o"]
        name = Path(driver).name
        return made_once(name, lambda folder: subprocess.run([*command, folder / name], check=True)) / name

    return build


@contextlib.contextmanager
def _caught_output() -> Iterator[list[io.BufferedRandom]]:
    """Send what this process and those that it starts print to two files."""
    own = sys.stdout, sys.stderr
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        for file in own:
            file.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
        try:
            yield [out, err]
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = own
            for number in (1, 2):
                os.dup2(kept[number - 1], number)
                os.close(kept[number - 1])


@pytest.fixture(scope="session")
def convolver() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs ``convolver WORDS`` in this process: what it prints and its exit status are the program's.

    ``cwd``: the folder; ``code``: the exit status that it must have. Tests of signals, environments and limits start the program.
    """
    from convolver.cli.app import main

    def run(*words: object, cwd: Path | None = None, code: int | None = None) -> subprocess.CompletedProcess[str]:
        arguments, folder, environment = [str(word) for word in words], Path.cwd(), dict(os.environ)
        argv, sys.argv = sys.argv, ["convolver", *arguments]
        handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        os.chdir(cwd or folder)
        status: int | str | None = 0
        with _caught_output() as files, warnings.catch_warnings():
            try:
                main()
            except SystemExit as end:
                status = end.code
            finally:
                sys.argv = argv
                for one, handler in handlers.items():
                    signal.signal(one, handler)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                sys.stdout.flush()
                sys.stderr.flush()
                for file in files:
                    file.seek(0)
                printed = [file.read().decode() for file in files]
        done = subprocess.CompletedProcess(arguments, status if isinstance(status, int) else int(status is not None), *printed)
        assert code in (None, done.returncode), done.stderr
        return done

    return run
