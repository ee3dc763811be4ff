"""How long programs of very many blocks take to trace and to predict: ``python tests/bench/many_blocks.py 100000 500000``.

Each program is generated assembly: functions of twenty blocks; all run three times. Processor seconds of whole commands.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from result_file import write_result

COLUMNS = ["blocks", "trace s", "predict s"]
TARGET = "cloud-server"


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


def row(blocks: int, folder: Path) -> list[object]:
    """Trace and predict one program."""
    traced, trace = program(blocks, folder), folder / f"{blocks}.cvt"
    took = seconds("trace", "-o", trace, "--", traced)
    predicted = seconds("predict", trace, "--base", TARGET, "-o", folder / f"predicted{blocks}")
    return [f"{blocks:,}", round(took, 1), round(predicted, 1)]


def main() -> None:
    """Measure all programs, and write the result file."""
    with tempfile.TemporaryDirectory(prefix="many-blocks-") as folder:
        found = [row(int(word), Path(folder)) for word in sys.argv[1:] or ("100000", "500000")]
    print(*found, sep="\n")
    write_result("many-blocks", COLUMNS, found)


if __name__ == "__main__":
    main()
