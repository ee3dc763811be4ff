"""Our .prv files in Paraver's own batch program: ``python tests/bench/paraver.py PARAMEDIR TRACE --config NET``.

TRACE is replayed on NET and written as .prv; paramedir reads that and prints its timeline of states and of bytes in transit.
Compared with ours: the nanoseconds of each rank in each state, and bytes times nanoseconds between send and receive.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from convolver.mpi.network_replay import Replayer
from convolver.mpi.prv import PRV_STATES, write_prv
from convolver.mpi.sources import load_events, load_network
from convolver.mpi.timeline import Timeline

FUNCTIONS = {
    "cpu": "Active Thd",
    **dict.fromkeys(("appl", "task", "node", "system", "workload"), "Adding"),
    **dict.fromkeys(("from_obj", "to_obj", "tag_msg", "size_msg", "bw_msg", "evt_type", "evt_value"), "All"),
}
LEVELS = ("cpu", "appl", "task", "thread", "node", "system", "workload")
COMPOSE = {**{f"compose_{level}": "As Is" for level in LEVELS}, "topcompose1": "As Is", "topcompose2": "As Is"}
WINDOW = """#ParaverCFG
ConfigFile.Version: 3.4
ConfigFile.NumWindows: 1

window_name timeline
window_type single
window_id 1
window_width 600
window_height 115
window_logical_filtered true
window_physical_filtered false
window_units Nanoseconds
window_level thread
window_scale_relative 1.000000000000
window_end_time_relative 1.000000000000
window_object appl { 1, { All } }
window_begin_time_relative 0.000000000000
window_open true
"""


def window(function: str) -> str:
    """Return Paraver's configuration of a timeline of all threads."""
    lists = {"selected": {**FUNCTIONS, "thread": function}, "compose": COMPOSE}
    rows = (
        (name, len(chosen), ", ".join(f"{{{key}, {value}}}" for key, value in chosen.items())) for name, chosen in lists.items()
    )
    return WINDOW + "".join(f"window_{name}_functions {{ {count}, {{ {words} }} }}\n" for name, count, words in rows)


def theirs(paramedir: Path, trace: Path, function: str) -> list[tuple[int, int, float]]:
    """Return (rank, nanoseconds, value) of each piece of a timeline."""
    config, output = trace.with_suffix(".cfg"), trace.with_suffix(".csv")
    config.write_text(window(function))
    subprocess.run([paramedir, trace, config, output], check=True, stdout=subprocess.DEVNULL)
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    return [(int(name.split(".")[1]) - 1, round(float(length)), float(value)) for name, _, length, value in rows]


def ours(timeline: Timeline) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """Return nanoseconds by rank and state, and bytes times nanoseconds by sender."""
    whole = {name: (timeline.intervals[name] * 1e9).round().cast(int).to_list() for name in ("begin", "end")}
    states: Counter[tuple[int, int]] = Counter()
    for rank, state, begin, end in zip(timeline.intervals["rank"], timeline.intervals["state"], *whole.values(), strict=True):
        states[rank, PRV_STATES[state]] += end - begin
    last = (timeline.ranks["seconds"] * 1e9).round().cast(int).to_list()
    for rank, end in enumerate(last):
        states[rank, 0] += max(last) - end
    flight: Counter[int] = Counter()
    times = [
        (timeline.messages[f"{name}"] * 1e9).round().cast(int) for name in ("logical_send", "logical_receive", "physical_receive")
    ]
    for source, size, sent, *received in zip(timeline.messages["source"], timeline.messages["bytes"], *times, strict=True):
        flight[source] += size * (max(received) - sent)
    return +states, +flight


def main() -> None:
    """Replay, write, let paramedir read, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paramedir", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--config", type=Path, required=True)
    given = parser.parse_args()
    events = load_events(given.trace)
    timeline = Replayer(events).run(load_network(given.config, events.ranks), record=True)
    states, flight = ours(timeline)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "replay.prv"
        write_prv(timeline, path)
        found: Counter[tuple[int, int]] = Counter()
        for rank, length, state in theirs(given.paramedir, path, "State As Is"):
            found[rank, int(state)] += length
        transit: Counter[int] = Counter()
        for rank, length, size in theirs(given.paramedir, path, "Send Bytes in Transit"):
            transit[rank] += round(length * size)
    wrong = [key for key in states.keys() | found.keys() if states[key] != found[key]]
    print(f"{len(states)} totals of states, {sum(states.values())} ns: {'all equal' if not wrong else f'{wrong} differ'}.")
    equal = +transit == flight
    print(
        f"Bytes in transit of {len(flight)} senders, {sum(flight.values())} B ns: {'equal' if equal else f'differ: {transit}'}."
    )


if __name__ == "__main__":
    main()
