"""Campaign: signatures replayed: the whole from the phases (PET) beside the replay of the whole, and what it costs (SET).

    python tests/bench/models_p3s_phases.py SIZE TRACE... -- COUNT...

TRACE are counted traces (`convolver mpi count`); where one has as many ranks as a count, its replay is the actual time (PETE).
A nanosecond an instruction, 5 us and 1 GB/s, so that no clock is in these figures.
"""

import sys

from convolver.modeling.p3s.executable_signature import phase_times, signature
from convolver.modeling.p3s.p3s_traces import read_trace
from convolver.modeling.p3s.slt import build
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.play import marks_of
from convolver.mpi.time_independent import to_events


def main(size: int, paths: list[str], counts: list[int]) -> None:
    traces = {len(trace): trace for trace in map(read_trace, paths)}
    scalable = build(traces, sizes_to_try=(size,))
    for count in counts:
        network = flat_configuration(count, latency_seconds=5e-6, bandwidth_bytes_per_second=1e9)
        whole = float(Replayer(to_events(scalable.at(count), seconds_per_work=1e-9)).seconds(network).max())
        events = signature(scalable, count)
        marks = marks_of(Replayer(events).run(network, record=True), events)
        rows, predicted = phase_times(events.notes["phases"], marks)
        actual = ""
        if count in traces:
            seconds = float(Replayer(to_events(traces[count], seconds_per_work=1e-9)).seconds(network).max())
            actual = f", PETE {100 * (predicted / seconds - 1):+.2f} %"
        share = 100 * marks.total_seconds / whole
        print(
            f"P {count:3}: {len(rows)} phases, PET {100 * (predicted / whole - 1):+.2f} % of the whole, SET {share:.1f} %{actual}"
        )


if __name__ == "__main__":
    words = sys.argv[1:]
    at = words.index("--")
    main(int(words[0]), words[1:at], [int(word) for word in words[at + 1 :]])
