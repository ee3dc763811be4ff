"""Campaign: a signature on real ranks beside its program and its replay, in turns.

    python tests/bench/models_p3s_signature.py REPEATS PROFILE SIGNATURE... -- LAUNCHER... ./PROGRAM

Each repeat runs the program under the interposer (its measured seconds are AET), each signature on the same launcher (SET, PET);
replays on the profile's network are the same every time. PETE is of the medians.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from convolver.modeling.p3s.executable_signature import phase_times
from convolver.modeling.p3s.scaling_advice import time_error
from convolver.mpi.capture import record
from convolver.mpi.network_replay import Replayer
from convolver.mpi.play import marks_of, play
from convolver.mpi.recorded_ranks import read_recording
from convolver.mpi.sources import load_events, load_network


def measured(argv: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        record(argv, Path(folder) / "run")
        return float(read_recording(Path(folder) / "run").notes["measured_seconds"])


def main(repeats: int, profile: str, signatures: list[str], launcher: list[str], program: str) -> None:
    loaded = {path: load_events(path) for path in signatures}
    real: list[float] = []
    found: dict[str, list[tuple[float, float]]] = {path: [] for path in signatures}
    for _ in range(repeats):
        real.append(measured([*launcher, program]))
        for path, events in loaded.items():
            marks = play(events, launcher)
            found[path].append((marks.total_seconds, phase_times(events.notes["phases"], marks)[1]))
    actual = statistics.median(real)
    print(f"{' '.join(launcher)} {program}: AET {', '.join(f'{s:.4g}' for s in real)}, median {actual:.4g} s")
    for path, times in found.items():
        taken, predicted = (statistics.median(column) for column in zip(*times, strict=True))
        events = loaded[path]
        marks = marks_of(Replayer(events).run(load_network(profile, events.ranks), record=True), events)
        replayed = phase_times(events.notes["phases"], marks)[1]
        print(
            f"  {path}: PET {', '.join(f'{pet:.4g}' for _, pet in times)}, median {predicted:.4g} s, "
            f"PETE {100 * time_error(actual, predicted):.1f} %; SET {taken:.4g} s, {100 * taken / actual:.1f} % of AET; "
            f"replay {replayed:.4g} s, {100 * time_error(actual, replayed):.1f} %"
        )


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--")
    main(int(words[0]), words[1], words[2:at], words[at + 1 : -1], words[-1])
