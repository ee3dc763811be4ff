"""How long programs of very many blocks take to trace and to predict: ``python tests/bench/many_blocks.py 100000 500000``.

First a compiler, which compiles a file of ours; then generated assembly of so many blocks, functions of twenty each, all run
three times. Processor seconds of whole commands.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from result_file import write_result

from convolver.tracing.reader import Trace

COLUMNS = ["program", "blocks", "trace s", "predict s"]
TARGET = "cloud-server"
CSRC = Path(__file__).resolve().parents[2] / "csrc"


def compiler(folder: Path) -> list[str | Path]:
    """Return the command of a compiler at work."""
    source = folder / "window.i"
    subprocess.run(["gcc", "-E", f"-I{CSRC / 'include'}", CSRC / "core" / "window.c", "-o", source], check=True)
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
    return [found, "-quiet", "-O2", "-fpreprocessed", source, "-o", folder / "window.s"]


def program(blocks: int, folder: Path) -> Path:
    """Build a program that runs so many blocks."""
    lines = [".text", ".globl main", "main:", "push %rbx", "mov $3, %ebx", "1:"]
    lines += [*(f"call f{number}" for number in range(blocks // 21)), "dec %ebx", "jnz 1b", "pop %rbx", "xor %eax, %eax", "ret"]
    for number in range(blocks // 21):
        lines += [f".type f{number}, @function", f"f{number}:"]
        for step in range(20):
            lines += [f"mov {-8 * (step + 1)}(%rsp), %rcx", "add %rcx, %rax", f"cmp ${step}, %ebx", f"jb g{number}", "inc %rdx"]
        lines += [f"g{number}:", "ret"]
    source, built = folder / f"blocks{blocks}.s", folder / f"blocks{blocks}"
    source.write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    subprocess.run(["cc", source, "-o", built], check=True)
    return built


def seconds(*words: object) -> float:
    """Run a command of Convolver; returns its processor seconds, those of its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "convolver", *map(str, words)], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name: str, command: list[str | Path], folder: Path) -> list[object]:
    """Trace and predict one program."""
    trace = folder / f"{name}.cvt"
    took = seconds("trace", "--force", "-o", trace, "--", *command)
    predicted = seconds("predict", trace, "--base", TARGET, "--force", "-o", folder / name)
    return [name, f"{len(Trace.load(trace).blocks):,}", round(took, 1), round(predicted, 1)]


def main() -> None:
    """Measure all programs, and write the result file."""
    with tempfile.TemporaryDirectory(prefix="many-blocks-") as name:
        folder = Path(name)
        found = [row("cc1 -O2", compiler(folder), folder)]
        found += [row("generated", [program(int(word), folder)], folder) for word in sys.argv[1:] or ("100000", "500000")]
    print(*found, sep="\n")
    write_result("many-blocks", COLUMNS, found)


if __name__ == "__main__":
    main()
