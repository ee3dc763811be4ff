"""What ``convolver check`` counts and predicts for installed programs on this host, kept beside what it did on other hosts.

``python tests/bench/check_hosts.py``: half a minute. Rows of other processors stay in the result file, so one run on a
machine of each vendor shows whether runners differ; the same builds of programs and libraries are compared. Give both hosts one
environment (``env -i PATH=$PATH LANG=C.UTF-8``): its length moves the stack. "Intel Core Processor (Haswell)" is a processor that
QEMU emulates (``-accel tcg -cpu Haswell``, this file system in it).
"""

import json
import tempfile
import zlib
from pathlib import Path

from result_file import RESULTS, write_result

from convolver.checking.limits import Limits
from convolver.checking.observed import observe
from convolver.machine.this_machine import describe_cpu

NAME = "check-hosts"
COLUMNS = ["processor", "program", "builds", "instructions", "memory accesses", "seconds"]
WORDS = 40_000
PROGRAMS = {
    "xz": ["xz", "-k", "-c", "-2", "-T1"],
    "gzip": ["gzip", "-k", "-c"],
    "bzip2": ["bzip2", "-k", "-c"],
    "sort": ["sort", "--parallel=1"],
    "wc": ["wc"],
}


def text() -> str:
    """Return the same words on every machine."""
    state, words = 12345, []
    for number in range(WORDS):
        state = (state * 1664525 + 1013904223) % 2**32
        words.append(f"{state >> 17:x}" + "\n" * (number % 9 == 0))
    return " ".join(words)


def rows(folder: Path) -> list[list[object]]:
    """Return a row for each program on this host."""
    machine, source = Limits().pinned(), folder / "text"
    source.write_text(text())
    processor, found = "{vendor}, {model}".format_map(describe_cpu(0)), []
    for name, words in PROGRAMS.items():
        seen = observe([*words, str(source)], machine)
        builds = f"{zlib.crc32(repr(sorted(seen.modules.items())).encode()):08x}"
        found.append([processor, name, builds, seen.counts["instructions"], seen.counts["memops"], float(f"{seen.seconds:.6g}")])
    return found


def differences(found: list[list[object]]) -> dict[tuple[str, str, str], float]:
    """Return the largest relative difference by program and two processors, for the same builds."""
    result = {}
    for one in found:
        for other in found:
            if one[0] < other[0] and one[1:3] == other[1:3]:
                result[one[1], one[0], other[0]] = max(abs(b / a - 1) for a, b in zip(one[3:], other[3:], strict=True))
    return result


def known() -> list[list[object]]:
    """Return the rows that the result file has."""
    path = RESULTS / f"{NAME}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def main() -> None:
    """Measure, and write the result file."""
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder:
        own = rows(Path(folder))
    print(write_result(NAME, COLUMNS, sorted([row for row in known() if row[0] != own[0][0]] + own)))
    for names, difference in differences(known()).items():
        print(*names, f"{100 * difference:.3f} %")


if __name__ == "__main__":
    main()
