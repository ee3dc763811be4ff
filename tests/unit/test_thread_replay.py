"""The replay of threads: hand-written events whose elapsed time is arithmetic. One instruction takes one second."""

from __future__ import annotations

import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.thread_replay import COSTS, RECORD, TOUCH, Complexes, NearWork, PackedThreads
from convolver.convolution.elapsed import Elapsed
from convolver.convolution.lost_time import lost_seconds
from convolver.convolution.thread_costs import DEFAULT_COSTS, complex_capacity, drawn_costs, thread_costs
from convolver.errors import FormatError
from convolver.machine.catalog import find_machine
from convolver.machine.contention import complex_cpus, placement
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import Neighbour

KINDS = (
    *("progress", "start", "exit", "create", "join", "lock", "unlock", "wait", "woken", "signal", "barrier", "acquire"),
    *("release", "fork", "body", "body_end", "joined", "chunk", "slept", "wake"),
    *("task", "task_begin", "task_end", "task_wait", "depend"),
)
FREE = {**dict.fromkeys(COSTS, 0.0), "spin": 1e9}
TEAM = 1 << 63


def events(*rows):
    """Rows of (thread, kind, work[, object[, argument]])."""
    records = np.zeros(len(rows), RECORD)
    for record, (thread, kind, work, *rest) in zip(records, rows, strict=True):
        record["thread"], record["kind"], record["instructions"] = thread, KINDS.index(kind), work
        record["object"], record["argument"] = [*rest, 0, 0][:2]
    return records


def run(rows, cores=8, memory=0.0, moved=0.0, capacity=(), touches=None, pairs=0, sibling=1.0, **more):
    packed = PackedThreads(rows if isinstance(rows, np.ndarray) else events(*rows))
    known = {name: more.pop(name, None) for name in ("pinning", "least", "complexes", "near", "handed")}
    one = np.ones(1)
    limits, asked = np.array(capacity, float), {**FREE, **more}
    return packed.run(
        *(one, memory * one, moved * one),
        cores=cores,
        capacity=limits,
        costs=asked,
        touches=touches,
        pairs=pairs,
        sibling=sibling,
        **known,
    )


def elapsed(rows, **asked):
    return run(rows, **asked).totals["elapsed"]


def test_runs_at_the_same_time_do_not_mix():
    """Each is long enough for the others to begin before it ends."""
    rows = independent(1, 2, 3) + [(0, kind, 1, 7) for _ in range(20_000) for kind in ("lock", "unlock")]
    packed, paces = PackedThreads(events(*rows)), np.arange(1.0, 9.0)

    def replayed(seconds):
        found = packed.run(np.full(1, seconds), np.zeros(1), np.zeros(1), cores=8, capacity=np.zeros(0), costs=FREE)
        return found.totals["elapsed"], int(found.locks["taken"].sum())

    alone = [replayed(one) for one in paces]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(replayed, paces)) == alone
    assert [seconds for seconds, _ in alone] == pytest.approx(paces * (3 + 40_000))


def started(*threads):
    """The first thread makes others before it does anything else."""
    return [row for one in threads for row in ((one, "start", 0, 0), (0, "create", 0, one))]


def independent(*work):
    """Threads that do so much work each; the first waits for all."""
    rows = started(*range(1, len(work) + 1))
    rows += [(number + 1, "exit", one) for number, one in enumerate(work)]
    return [*rows, *((0, "join", 0, number + 1) for number in range(len(work)))]


def test_threads_of_their_own_end_with_the_longest():
    assert elapsed(independent(3, 5, 4)) == pytest.approx(5)


def test_more_threads_than_cores_share_them_evenly():
    assert elapsed(independent(4, 4, 4, 4), cores=2) == pytest.approx(8)
    assert elapsed(independent(1, 3), cores=1) == pytest.approx(4)


def test_two_threads_of_one_core_slow_each_other_down():
    rows, shared = independent(6, 6), {"pairs": 2, "sibling": 1.5}
    assert elapsed(rows, cores=4, **shared) == pytest.approx(6)  # a core each
    found = run(independent(6, 6, 6, 6), cores=4, **shared)
    assert found.totals["elapsed"] == pytest.approx(9)
    assert found.totals["paired"] == pytest.approx(4 * 3)
    assert found.totals["saturated"] == pytest.approx(0)
    assert elapsed(independent(6, 6, 6), cores=4, **shared) == pytest.approx(6 * (1 + 0.5 * 2 / 3))


def test_pinned_threads_leave_other_processors_idle():
    """Threads 1 and 3 have the second of two processors; the first thread waits on the other one, beside 2."""
    rows = independent(4, 4, 4)
    assert elapsed(rows, cores=2) == pytest.approx(6)
    assert elapsed(rows, cores=2, pinning="scatter") == pytest.approx(8)
    assert run(rows, cores=2, pinning="compact").totals["queued"] == pytest.approx(8)


def test_compact_threads_share_a_core_and_scattered_ones_do_not():
    rows = [(1, "start", 0, 0), (0, "create", 0, 1), (1, "exit", 6), (0, "join", 6, 1)]
    shared = {"cores": 4, "pairs": 2, "sibling": 1.5}
    assert elapsed(rows, pinning="compact", **shared) == pytest.approx(9)
    assert elapsed(rows, pinning="scatter", **shared) == pytest.approx(6)
    assert elapsed(rows, **shared) == pytest.approx(6)


def test_intervals_say_what_threads_do_when():
    found = run(independent(3, 5), least=0.0)
    kept = sorted((one["thread"], one["begin"], one["end"], one["state"]) for one in found.intervals)
    assert kept == [(0, 0, 5, 5), (1, 0, 3, 0), (2, 0, 5, 0)]
    assert len(run(independent(3, 5)).intervals) == 0


def test_short_intervals_count_as_what_takes_most_of_them():
    rows = [(0, kind, work, 7) for _ in range(1000) for kind, work in (("lock", 1), ("unlock", 3))]
    other = [(1, "lock", 0, 7), (1, "unlock", 1000, 7)]
    found = run([*started(1), *other, *rows], least=100.0)
    kept = found.intervals[found.intervals["thread"] == 0]
    assert len(kept) <= 50
    assert (kept["end"][:-1] == kept["begin"][1:]).all()
    assert (kept["begin"][0], kept["end"][-1]) == (0, pytest.approx(found.totals["elapsed"]))
    assert 1 + 2 in kept["state"]


def test_a_lock_goes_to_the_first_that_comes():
    rows = [
        *started(1, 2),
        *[(2, "lock", 1, 77), (2, "unlock", 10, 77), (2, "exit", 1)],
        *[(1, "lock", 2, 77), (1, "unlock", 5, 77), (1, "exit", 1)],
    ]
    found = run(rows)
    assert found.totals["elapsed"] == pytest.approx(17)  # 1 + 10 of the one, then 5 + 1 of the other
    assert found.waited["lock"] == pytest.approx(9)
    (lock,) = found.locks
    assert (lock["object"], lock["taken"], lock["contended"], lock["held"]) == (77, 2, 1, pytest.approx(15))
    assert elapsed([*rows[:4], *rows[7:], *rows[4:7]]) == pytest.approx(17)  # whatever the order of the trace


SPINS, SHARED = 1, 2


def holding(thread, begin, seconds, argument=SHARED):
    """A thread that has lock 7 for a time, alone or as one of several."""
    return [(thread, "lock", begin, 7, argument), (thread, "unlock", seconds, 7), (thread, "exit", 0)]


def test_readers_have_a_lock_together_and_a_writer_has_it_alone():
    found = run([*started(1, 2, 3), *holding(1, 0, 5), *holding(2, 1, 5), *holding(3, 2, 4, 0)])
    assert found.totals["elapsed"] == pytest.approx(6 + 4)
    assert (found.waited["lock"], found.totals["forced"]) == (pytest.approx(4), 0)
    (lock,) = found.locks
    assert (lock["taken"], lock["contended"], lock["held"]) == (3, 1, pytest.approx(10))


def test_a_reader_passes_a_writer_that_waits_for_others():
    found = run([*started(1, 2, 3), *holding(1, 0, 5), *holding(2, 1, 3, 0), *holding(3, 2, 6)])
    assert found.totals["elapsed"] == pytest.approx(8 + 3)


def test_a_writer_leaves_the_lock_to_all_readers_that_wait():
    """The other writer came before them."""
    rows = [*started(1, 2, 3, 4), *holding(1, 0, 5, 0), *holding(2, 1, 1, 0), *holding(3, 2, 6), *holding(4, 3, 4)]
    assert elapsed(rows) == pytest.approx(5 + 6 + 1)
    assert elapsed(rows, wake=1) == pytest.approx(5 + 1 + 6 + 1 + 1)


def test_the_last_reader_leaves_the_lock_to_the_first_writer():
    """A reader that comes while the writer wakes up waits for it."""
    rows = [*started(1, 2, 3, 4), *holding(1, 0, 5), *holding(2, 1, 2, 0), *holding(3, 2, 3, 0), *holding(4, 6, 4)]
    assert elapsed(rows, wake=2) == pytest.approx(5 + 2 + 2 + 2 + 4 + 2 + 3)


def test_who_has_a_lock_may_take_it_again():
    rows = [*started(1, 2), (1, "lock", 0, 7), (1, "lock", 2, 7), (1, "unlock", 3, 7), (1, "unlock", 4, 7), (1, "exit", 0)]
    found = run([*rows, *holding(2, 1, 5, 0)])
    assert found.totals["elapsed"] == pytest.approx(2 + 3 + 4 + 5)
    assert (found.locks["taken"].item(), found.totals["forced"]) == (2, 0)


def test_a_barrier_opens_when_all_have_come_every_time():
    rows = started(1, 2)
    for _ in range(3):
        rows += [(1, "barrier", 2, 5, 2), (2, "barrier", 7, 5, 2)]
    rows += [(1, "exit", 1), (2, "exit", 0)]
    assert elapsed(rows) == pytest.approx(22)
    assert run(rows).waited["barrier"] == pytest.approx(15)


def test_waiting_takes_time_of_cores_where_threads_are_more():
    rows = [*started(1, 2, 3, 4), *((number, "barrier", 2, 5, 4) for number in range(1, 5))]
    rows += [(number, "exit", 0) for number in range(1, 5)]
    assert elapsed(rows, cores=4, asleep=1) == pytest.approx(2)
    assert elapsed(rows, cores=2, asleep=1) == pytest.approx(4 + 3 / 2)  # three had slept
    ends = [*pool(4), *region(1, 2, 2, 2, 2, serial=0), (0, "progress", 1)]
    assert elapsed(ends, cores=4, asleep=1) == pytest.approx(3)
    assert elapsed(ends, cores=2, asleep=1) > 5


def test_a_spinning_lock_takes_a_while_to_pass():
    rows = [*started(1, 2), *((number, "lock", 0, 7, 1) for number in (1, 2)), *((number, "unlock", 3, 7) for number in (1, 2))]
    rows += [(1, "exit", 0), (2, "exit", 0)]
    assert elapsed(rows, **{"pass": 0.5}) == pytest.approx(6.5)


def test_a_free_lock_comes_from_the_core_of_the_last_thread():
    def rows(first):
        taken = [(1, "lock", 1, 5), (1, "unlock", 0, 5), (first, "lock", 4, 5), (first, "unlock", 1, 5)]
        return [*started(1, 2), *taken]

    costs = {"pass": 3, "atomic_243": 2, "shared_243": 2}
    assert elapsed(rows(2)) == pytest.approx(5)
    assert elapsed(rows(2), **costs) == pytest.approx(8)
    assert elapsed(rows(1), **costs) == pytest.approx(6)  # its own
    assert elapsed([*rows(2), (2, "lock", 0, 5)], **costs) == pytest.approx(8)
    assert elapsed(rows(2), cores=1, **costs) == pytest.approx(6)


def test_a_free_lock_costs_what_its_two_lines_do():
    """Nobody looks at it meanwhile, so a core that hides the lines' way pays less than who waits for a lock."""
    free = [(1, "lock", 1, 5, 1), (1, "unlock", 0, 5), (2, "lock", 4, 5, 1), (2, "unlock", 1, 5)]
    assert elapsed([*started(1, 2), *free], **{"pass": 9, "atomic_243": 2, "shared_243": 0.5}) == pytest.approx(5 + 2.5)
    held = [(1, "lock", 1, 5, 1), (1, "unlock", 5, 5), (2, "lock", 4, 5, 1), (2, "unlock", 1, 5)]
    assert elapsed([*started(1, 2), *held], **{"pass": 9, "atomic_243": 2, "shared_243": 0.5}) == pytest.approx(6 + 9 + 1)


def test_a_condition_waits_for_the_signal_that_ended_it():
    rows = [
        *started(1),
        *[(0, "lock", 0, 9), (0, "wait", 1, 8, 9)],
        *[(1, "lock", 20, 9), (1, "signal", 2, 8), (1, "unlock", 3, 9), (1, "exit", 50)],
        *[(0, "woken", 0, 8, 9), (0, "unlock", 4, 9), (0, "progress", 1)],
    ]
    found = run(rows)
    assert found.totals["elapsed"] == pytest.approx(75)
    assert found.totals["forced"] == 0
    assert found.waited["condition"] + found.waited["lock"] == pytest.approx(24)


def test_who_is_woken_has_the_mutex_when_it_comes():
    """The order of the trace holds for locks alone: when a woken thread came there says when the system woke it."""
    rows = [*started(1, 2), (1, "lock", 0, 7), (1, "wait", 0, 5, 7), (0, "lock", 1, 7), (0, "signal", 0, 5), (0, "unlock", 0, 7)]
    rows += [(2, "lock", 10, 7), (2, "unlock", 0, 7), (2, "exit", 0)]
    rows += [(1, "woken", 0, 5, 7), (1, "unlock", 1, 7), (1, "exit", 10)]
    assert elapsed(rows) == pytest.approx(1 + 1 + 10)


def test_a_wait_that_no_signal_ended_waits_for_nobody():
    rows = [(0, "lock", 0, 9), (0, "wait", 1, 8, 9), (0, "woken", 0, 8, 9), (0, "unlock", 2, 9)]
    assert elapsed(rows) == pytest.approx(3)


def test_who_waits_for_its_turn_at_a_free_lock_waits_for_a_thread():
    """The mutex of a condition variable: the trace says that thread 1 has it first."""
    rows = [*started(1, 2), (1, "lock", 5, 7), (1, "unlock", 1, 7), (2, "lock", 1, 7), (2, "unlock", 1, 7)]
    rows += [(2, "wait", 1, 9, 7), (1, "signal", 1, 9), (2, "woken", 0, 9, 7)]
    found = run(rows)
    assert found.waited["condition"] >= 4
    held = run([row for row in rows if row[1] not in ("wait", "signal", "woken")])
    assert held.waited["lock"] == held.waited["condition"] == 0


def test_a_semaphore_begins_with_what_the_trace_took():
    rows = [
        *started(1),
        (0, "acquire", 1, 6),
        (0, "acquire", 1, 6),
        (1, "release", 10, 6),
        (0, "acquire", 1, 6),
        (0, "progress", 5),
    ]
    assert elapsed(rows) == pytest.approx(15)


def region(team, *work, serial=1):
    """A parallel region of the first thread and pool threads."""
    rows = [(0, "fork", serial, team)]
    for number, one in enumerate(work):
        rows += [(number, "body", 0, team), (number, "body_end", one, team)]
    return [*rows, (0, "joined", 0, team)]


def pool(count):
    return [(number, "start", 0, 0, 1) for number in range(1, count)]


def test_regions_end_with_their_longest_thread():
    rows = [*pool(3), *region(1, 2, 3, 4), *region(2, 9, 1, 1), (0, "progress", 1)]
    found = run(rows)
    assert found.totals["elapsed"] == pytest.approx(1 + 4 + 1 + 9 + 1)
    assert found.totals["serial"] == pytest.approx(3 + 1 + 8)
    assert found.regions["seconds"].tolist() == pytest.approx([4, 9])
    assert found.regions["work"].tolist() == pytest.approx([9, 11])
    assert found.regions["threads"].tolist() == [3, 3]


def team_of_tasks(threads, work, runner, barrier=False):
    """The first thread makes tasks, all of which one thread runs in the trace, at a barrier or at the region's end."""
    rows = [*pool(threads), (0, "fork", 0, 1), *((number, "body", 0, 1) for number in range(threads))]
    rows += [(0, "task", 0, 1 + number) for number in range(len(work))]
    done = [(runner, *one) for n, each in enumerate(work) for one in (("task_begin", 0, 1 + n), ("task_end", each, 1 + n))]
    together = [(number, "barrier", 0, TEAM | 1) for number in range(threads)]
    ends = [(number, "body_end", 1, 1) for number in range(threads)]
    rows += [*done, *together, *ends] if barrier else [*ends, *done]
    return [*rows, (0, "joined", 0, 1)]


@pytest.mark.parametrize("runner", [0, 1])
@pytest.mark.parametrize("barrier", [False, True])
def test_tasks_go_to_who_waits_whoever_ran_them(runner, barrier):
    for threads, cores, seconds in ((2, 8, 10), (2, 1, 20), (3, 8, 10), (4, 8, 5)):
        found = run(team_of_tasks(threads, [5, 5, 5, 5], runner, barrier), cores=cores)
        ends = 1 if cores > 1 else threads
        assert found.totals["elapsed"] == pytest.approx(seconds + ends)
        assert found.totals["work"] == pytest.approx(20 + threads)
        assert found.totals["forced"] == 0


def family(runner, after):
    """The first thread makes a task, works for 3, waits for it and works on."""
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (0, "task", 0, 1)]
    rows += [(1, "body_end", 0, 1)] + ([(0, "progress", 3)] if runner else [])
    rows += [(runner, "task_begin", 0 if runner else 3, 1), (runner, "task_end", 8, 1)]
    return [*rows, (0, "task_wait", 0), (0, "body_end", after, 1), (0, "joined", 0, 1)]


@pytest.mark.parametrize("runner", [0, 1])
def test_who_waits_for_its_tasks_goes_on_when_they_have_ended(runner):
    found = run(family(runner, 2))
    assert found.totals["elapsed"] == pytest.approx(8 + 2)
    assert found.waited["condition"] == pytest.approx(8 - 3)
    assert elapsed(family(runner, 2), cores=1) == pytest.approx(3 + 8 + 2)


def test_a_task_that_is_run_at_once_stays_with_its_maker():
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (1, "body_end", 0, 1)]
    rows += [(0, "task", 0, 1), (0, "task_begin", 1, 1, 1), (0, "task", 0, 2), (0, "task_end", 6, 1)]
    rows += [(1, "task_begin", 0, 2), (1, "task_end", 5, 2), (0, "body_end", 0, 1), (0, "joined", 0, 1)]
    found = run(rows)
    assert found.busy == pytest.approx([1 + 6, 5])
    assert found.totals["elapsed"] == pytest.approx(7)


def test_parts_of_a_loop_are_made_before_any_is_done():
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (1, "body_end", 0, 1), (0, "task", 0, 1, 1)]
    rows += [(0, "task_begin", 0, 1), (0, "progress", 3), (0, "task", 0, 2, 1)]  # the other thread begins the second part
    rows += [(1, "task_begin", 0, 2), (1, "task_end", 6, 2), (0, "task_end", 3, 1), (0, "task_wait", 0), (0, "body_end", 0, 1)]
    assert elapsed([*rows, (0, "joined", 0, 1)]) == pytest.approx(6)


@pytest.mark.parametrize(("everything", "seconds"), [(0, 2 + 5 + 5), (1, 2 + 5)])
def test_who_waits_may_do_what_its_tasks_have_made(everything, seconds):
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (1, "body_end", 0, 1), (0, "task", 0, 1)]
    rows += [(1, "task_begin", 0, 1), (1, "task", 1, 2), (1, "task", 1, 3)]
    for number in (2, 3):
        rows += [(1, "task_begin", 0, number), (1, "task_end", 5, number)]
    rows += [(1, "task_wait", 0), (1, "task_end", 0, 1), (0, "task_wait", 1, 0, everything)]
    assert elapsed([*rows, (0, "body_end", 0, 1), (0, "joined", 0, 1)]) == pytest.approx(seconds)


def with_dependences(*tasks, threads=4):
    """The first thread makes tasks, which it runs at the region's end; of each the work and (address, whether it writes)."""
    rows = [*pool(threads), (0, "fork", 0, 1), *((number, "body", 0, 1) for number in range(threads))]
    for number, (_, *pairs) in enumerate(tasks, 1):
        rows += [(0, "task", 0, number), *((0, "depend", 0, address, 2 * number + writes) for address, writes in pairs)]
    rows += [(number, "body_end", 0, 1) for number in range(threads)]
    for number, (work, *_) in enumerate(tasks, 1):
        rows += [(0, "task_begin", 0, number), (0, "task_end", work, number)]
    return [*rows, (0, "joined", 0, 1)]


@pytest.mark.parametrize(
    ("tasks", "seconds"),
    [
        ([(5, (8, 1))] * 4, 20),
        ([(5, (8 + one % 2, 1)) for one in range(4)], 10),
        ([(5, (8, 0))] * 4, 5),
        ([(5, (8, 1)), (1, (8, 0)), (3, (8, 0)), (2, (8, 0)), (5, (8, 1))], 5 + 3 + 5),
        ([(1, (8, 0)), (3, (8, 0)), (5, (8, 1)), (2, (8, 0)), (4, (8, 0))], 3 + 5 + 4),
        ([(5, (8, 1)), (2, (9, 1)), (1, (8, 0), (9, 0)), (3,)], 5 + 1),
        ([(5, (8, 0), (8, 1)), (5, (8, 1), (8, 0)), (5, (8, 0))], 15),
        ([(5, (8, 1)), (1, (8, 0)), (1, (9, 1)), (1, (8, 1), (9, 1))], 7),
    ],
    ids=["chain", "two chains", "readers", "fan", "readers first", "two addresses", "twice the same", "joined"],
)
def test_tasks_begin_when_what_they_depend_on_has_ended(tasks, seconds):
    found = run(with_dependences(*tasks))
    assert found.totals["elapsed"] == pytest.approx(seconds)
    assert found.totals["forced"] == 0
    work = sum(work for work, *_ in tasks)
    assert elapsed(with_dependences(*tasks), cores=1) == elapsed(with_dependences(*tasks, threads=1)) == pytest.approx(work)


def test_tasks_of_different_parents_do_not_depend_on_each_other():
    rows = [*pool(4), (0, "fork", 0, 1), *((number, "body", 0, 1) for number in range(4)), (0, "task", 0, 1), (0, "task", 0, 2)]
    rows += [(number, "body_end", 0, 1) for number in range(4)]
    for parent in (1, 2):
        rows += [(0, "task_begin", 0, parent), (0, "task", 0, 2 + parent), (0, "depend", 0, 8, 2 * (2 + parent) + 1)]
        rows += [(0, "task_end", 0, parent)]
    for number in (3, 4):
        rows += [(0, "task_begin", 0, number), (0, "task_end", 5, number)]
    assert elapsed([*rows, (0, "joined", 0, 1)]) == pytest.approx(5)


def test_a_task_that_is_run_at_once_waits_for_its_dependences():
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (1, "body_end", 0, 1)]
    rows += [(0, "task", 0, 1), (0, "depend", 0, 8, 2 * 1 + 1), (1, "task_begin", 0, 1), (1, "task_end", 5, 1)]
    rows += [(0, "task", 1, 2), (0, "depend", 0, 8, 2 * 2), (0, "task_begin", 0, 2, 1), (0, "task_end", 4, 2)]
    found = run([*rows, (0, "body_end", 0, 1), (0, "joined", 0, 1)])
    assert found.totals["elapsed"] == pytest.approx(5 + 4)
    assert found.waited["condition"] == pytest.approx(4)
    assert found.totals["forced"] == 0


def test_who_waits_for_a_dependence_does_that_task_if_nobody_has():
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1), (0, "task", 0, 1), (0, "depend", 0, 8, 2 * 1 + 1)]
    rows += [(0, "task", 0, 2), (0, "depend", 0, 8, 2 * 2), (0, "task_begin", 0, 1), (0, "task_end", 5, 1)]
    rows += [
        (0, "task_begin", 0, 2, 1),
        (0, "task_end", 4, 2),
        (1, "body_end", 20, 1),
        (0, "body_end", 0, 1),
        (0, "joined", 0, 1),
    ]
    found = run(rows)
    assert found.busy == pytest.approx([9, 20])
    assert found.totals["elapsed"] == pytest.approx(20)


def test_dependences_of_a_trace_that_was_cut_off_hold_nothing_up():
    rows = with_dependences((5, (8, 1)), (5, (8, 0)), (5, (8, 1)))
    for end in range(len(rows)):
        assert run(rows[:end]).totals["work"] == pytest.approx(sum(row[2] for row in rows[:end]))


def test_tasks_of_a_trace_that_was_cut_off_are_done():
    rows = team_of_tasks(2, [5, 5, 5], 1)
    for end in range(len(rows)):
        found = run(rows[:end])
        assert found.totals["work"] == pytest.approx(sum(row[2] for row in rows[:end]))


def test_a_dynamic_loop_deals_its_parts_to_who_asks():
    rows = [*pool(2), (0, "fork", 0, 1), (0, "body", 0, 1), (1, "body", 0, 1)]
    rows += [(0, "chunk", 0, TEAM | 1, 1), *((0, "chunk", 6, TEAM | 1, 1) for _ in range(5)), (0, "chunk", 6, TEAM | 1, 0)]
    rows += [(1, "chunk", 0, TEAM | 1, 0), (1, "body_end", 0, 1), (0, "body_end", 0, 1), (0, "joined", 0, 1)]
    assert elapsed(rows) == pytest.approx(18)  # six parts of 6, which one thread had in the trace


def test_waits_that_nothing_ends_are_counted():
    found = run([(0, "lock", 1, 3), (0, "join", 1, 4), (0, "unlock", 1, 3)])
    assert (found.totals["elapsed"], found.totals["forced"]) == (pytest.approx(3), 1)


def test_costs_come_on_top_of_work():
    assert elapsed(independent(5), create=1, start=2, wake=3) == pytest.approx(2 + 5 + 3)
    assert elapsed([*pool(2), *region(1, 2, 2)], fork=1, barrier=4) == pytest.approx(1 + 1 + 2 + 4)


def test_threads_that_stream_share_what_memory_gives():
    rows = independent(10, 10)
    assert elapsed(rows, memory=1.0, moved=5.0, capacity=(5, 5)) == pytest.approx(20)
    assert elapsed(rows, memory=1.0, moved=5.0, capacity=(5, 8)) == pytest.approx(12.5)
    assert elapsed(rows, memory=0.1, moved=0.1, capacity=(5, 5)) == pytest.approx(10)


def touching(*rows):
    """Rows of (thread, line, loads, atomic operations, stores) of an instruction."""
    return np.array([(0, *row) for row in rows], TOUCH)


LOST = {
    **{"counter": 1, "crowded": 4, "step": 1, "handover": 1e9},
    **{"shared_3": 3, "shared_9": 9, "shared_27": 9, "shared_81": 9, "shared_243": 9},
}
"""Each of two loses 3 where it counts each second or each third one, 1 more a second until the ninth, and then 9."""


def counting(often, other=None, line=0):
    """Two threads load and store so often an instruction."""
    return touching((1, line, often, 0, often), (2, line, other or often, 0, other or often))


def test_two_that_count_in_a_line_lose_by_their_pace():
    rows = independent(10, 10)
    found = run(rows, touches=counting(1), **LOST)
    assert found.totals["elapsed"] == pytest.approx(40)
    assert found.totals["contended"] == pytest.approx(60)
    assert found.lines == pytest.approx([60])
    # Below the pace that was probed as many times longer, above it the same each time.
    for often, each in ((2, 1.5), (1 / 3, 3), (1 / 6, 6), (1 / 9, 9), (1 / 40, 9), (1 / 200, 9)):
        assert elapsed(rows, touches=counting(often), **LOST) == pytest.approx(10 + 10 * often * each)
    assert elapsed(rows, touches=counting(1), cores=1, **LOST) == pytest.approx(20)


def test_who_reads_its_own_stores_slowly_loses_less():
    """A visit took the probe 1 alone, as the core kept the word in a register, and 4 together; after 3 steps, 0.5 more."""
    rows, costs = independent(10, 10), {**LOST, "shared_3": 0.5}
    for often, each in ((2, 1.5), (1, 3), (1 / 2, 2), (2 / 5, 1.5), (1 / 3, 1), (1 / 9, 9)):
        assert elapsed(rows, touches=counting(often), **costs) == pytest.approx(10 + 10 * often * each)
    for often, each in ((1 / 3, 1), (1 / 4, 0), (1 / 5, 0.25), (1 / 6, 0.5)):  # three steps are longer than a visit together
        assert elapsed(rows, touches=counting(often), **{**costs, "step": 2}) == pytest.approx(10 + 10 * often * each)


def test_a_line_is_lost_no_more_often_than_others_store():
    rows, rarely = independent(10, 10), touching((1, 0, 1, 0, 0), (2, 0, 0, 0, 0.1))
    takes = 10 * (1 - 1 / 1.5)  # what the reader lacks when the other has ended
    assert elapsed(rows, touches=rarely, **{**LOST, "handover": 5}) == pytest.approx(10 + takes)
    # One that comes often pays handovers, the other each visit: it ends at 19, when half a second of the first is left.
    assert elapsed(rows, touches=counting(1, 0.1), **{**LOST, "handover": 10}) == pytest.approx(19.5)


def test_who_goes_from_line_to_line_finds_none_of_them():
    rows = independent(10, 10)
    both = np.sort(np.concatenate([counting(0.5), counting(0.5, line=1)]), order=("work_class", "thread", "line"))
    # Every other visit is to the line of the last one: it loses 3 after two seconds, one from the other line 9.
    each = (LOST["shared_3"] + LOST["shared_243"]) / 2
    found = run(rows, touches=both, **LOST)
    assert found.totals["elapsed"] == pytest.approx(10 + 10 * each)
    assert found.lines == pytest.approx([10 * each] * 2)


def test_threads_in_turn_lose_only_to_what_runs_beside_them():
    rows = independent(6, 6, 6, 6)
    pairs = touching((1, 0, 1, 0, 1), (2, 0, 1, 0, 1), (3, 1, 1, 0, 1), (4, 1, 1, 0, 1))
    costs = {"cores": 2, "shared_243": 2, "handover": 1e9}
    assert elapsed(rows, cores=2) == pytest.approx(12)
    # One of the three that may have the other core slows a thread down, to a third: its mean speed is 2/3 + 1/9.
    assert elapsed(rows, touches=pairs, **costs) == pytest.approx(12 / (2 / 3 + 1 / 9))
    one_line = touching(*((number, 0, 1, 0, 1) for number in (1, 2, 3, 4)))
    assert elapsed(rows, touches=one_line, **costs) == pytest.approx(12 * 3)


def probed(cpus, **costs):
    """Return a machine of so many CPUs whose probe measured these costs of threads."""
    kernel = tuple(KernelCost(name=f"thread.{name}", seconds=one, low=0.9 * one, high=1.1 * one) for name, one in costs.items())
    return msgspec.structs.replace(find_machine("cloud-epyc-milan"), kernel=kernel, cpu={"cpus": cpus})


def test_a_barrier_of_all_cpus_says_what_each_further_one_takes():
    assert thread_costs(probed(8, barrier=1e-7, barrier_all=7e-7))[0]["barrier_each"] == pytest.approx(1e-7)
    assert thread_costs(probed(2, barrier=1e-7))[0]["barrier_each"] == DEFAULT_COSTS["barrier_each"]


def test_costs_that_no_probe_knows_are_named_where_others_are_known():
    (whole,), (part,) = thread_costs(probed(8))[1], thread_costs(probed(8, create=1e-5))[1]
    assert whole.startswith("what threads cost each other is that of")
    assert ", barrier, " in part
    assert "create" not in part


def test_forks_take_what_probed_regions_do_beside_their_barrier():
    costs = thread_costs(probed(8, barrier=1e-7, barrier_all=7e-7, region=1e-6, region_all=4e-6))[0]
    assert costs["fork"] == pytest.approx(9e-7)
    assert costs["fork_each"] == pytest.approx((3.3e-6 - 9e-7) / 6)
    takes = {**FREE, **{name: costs[name] for name in ("fork", "fork_each", "barrier", "barrier_each")}}
    for threads, seconds in ((2, 1e-6), (8, 4e-6)):
        rows = [*pool(threads), *region(1, *[1] * threads, serial=0)]
        assert elapsed(rows, **takes) == pytest.approx(1 + seconds, abs=1e-12)


def test_each_thread_beyond_two_takes_some_handovers():
    """16 CPUs of Emerald Rapids were probed with 2 threads and with all: the one says what the other takes."""
    emerald = find_machine("cloud-xeon-emerald")
    measured = thread_costs(emerald)[0]
    two = tuple(one for one in emerald.kernel if not one.name.endswith("_all"))
    costs = thread_costs(msgspec.structs.replace(emerald, kernel=two))[0]
    for name, known in (("barrier", 1.165e-6), ("fork", 3.288e-6 - 1.165e-6)):
        assert costs[name] == measured[name]
        assert measured[name] + 14 * measured[f"{name}_each"] == pytest.approx(known, rel=0.001)
        assert costs[name] + 14 * costs[f"{name}_each"] == pytest.approx(known, rel=0.05)
    assert thread_costs(probed(2, wake=5e-6))[0]["wake_each"] == pytest.approx(
        5e-6 * DEFAULT_COSTS["wake_each"] / DEFAULT_COSTS["wake"]
    )


def test_profiles_without_regions_keep_the_usual_fork():
    costs, notes = thread_costs(probed(8, barrier=1e-7))
    assert (costs["fork"], costs["fork_each"]) == (DEFAULT_COSTS["fork"], DEFAULT_COSTS["fork_each"])
    assert any("fork" in note for note in notes)
    spread = drawn_costs(probed(8, barrier=1e-7), 400)["fork"]
    assert np.quantile(spread, 0.95) == pytest.approx(2 * DEFAULT_COSTS["fork"], rel=0.2)
    assert np.quantile(drawn_costs(probed(8, region=1e-6), 400)["fork"], 0.95) == pytest.approx(1.1e-6, rel=0.05)


def test_costs_near_nothing_are_no_less_certain_than_guesses():
    known = KernelCost(name="thread.pass", seconds=5e-8, low=5e-13, high=7e-8)
    drawn = drawn_costs(msgspec.structs.replace(find_machine("cloud-epyc-milan"), kernel=(known,)), 400)["pass"]
    assert np.quantile(drawn, (0.05, 0.5, 0.95)) == pytest.approx((2.5e-8, 5e-8, 1e-7), rel=0.2)


def test_lines_from_other_threads_take_time_but_are_no_work():
    found = run(independent(3, 5), handed=np.full(1, 0.5))
    assert found.totals["elapsed"] == pytest.approx(7.5)
    assert (found.totals["work"], found.totals["handed"]) == pytest.approx((8, 4))
    lost = lost_seconds(found, 2)
    assert lost["lines from other threads"] == pytest.approx(4)
    assert sum(lost.values()) == pytest.approx(2 * 7.5 - 8)


def test_lines_in_a_row_follow_a_probed_handover():
    costs = thread_costs(probed(2, handover=10 * DEFAULT_COSTS["handover"]))[0]
    assert (costs["given"], costs["taken"]) == pytest.approx((10 * DEFAULT_COSTS["given"], 10 * DEFAULT_COSTS["taken"]))
    assert thread_costs(probed(2, handover=1e-7, given=3e-9))[0]["given"] == 3e-9


def test_who_only_stores_or_has_a_line_alone_loses_nothing():
    rows = independent(10, 10)
    for touches in (touching((1, 0, 0, 0, 1), (2, 0, 0, 0, 1)), touching((1, 0, 1, 0, 1), (2, 1, 1, 0, 1))):
        assert elapsed(rows, touches=touches, **LOST) == pytest.approx(10)


def test_atomic_operations_wait_for_all_that_touch_their_line():
    rows, reader = independent(10, 10), touching((1, 0, 0, 0.5, 0.5), (2, 0, 0.5, 0, 0))
    found = run(rows, touches=reader, atomic_243=1, handover=1e9)
    assert found.busy == pytest.approx([0, 10, 10])
    assert found.totals["elapsed"] == pytest.approx(10 + 10 * (1 - 1 / 1.5))  # the reader ends first


def test_atomic_operations_have_losses_of_their_own():
    both = touching((1, 0, 0, 1, 1), (2, 0, 0, 1, 1))
    assert elapsed(independent(10, 10), touches=both, **LOST, sum=1, crowded_atomic=3) == pytest.approx(30)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_a_line_takes_one_atomic_operation_after_another(threads):
    rows = independent(*[10] * threads)
    adding, both = (touching(*((one + 1, 0, *kinds) for one in range(threads))) for kinds in ((0, 1, 1), (1, 0, 1)))
    costs = {**LOST, "cores": threads, "sum": 1, "crowded_atomic": 3, "atomic_3": 2}
    assert elapsed(rows, touches=adding, **costs) == pytest.approx(threads * 10 * 1.5)
    assert elapsed(rows, touches=both, **costs) == pytest.approx(40)  # stores wait in buffers, and are done together


def test_older_profiles_say_what_is_lost_after_thirty_steps():
    costs = thread_costs(probed(2, counter=1e-9, counters=3e-9, shared=12e-9))[0]
    assert [costs[f"shared_{steps}"] for steps in (3, 9, 27, 81, 243)] == pytest.approx([3e-9, 5e-9, 11e-9, 12e-9, 12e-9])
    costs = thread_costs(probed(2, counter=1e-9, counters=3e-9, shared=12e-9, shared_3=4e-9))[0]
    assert costs["shared_3"] == 4e-9


@pytest.mark.parametrize(
    ("work", "cores", "limit"),
    [
        ([5, 5, 5, 5], 4, "nothing: all cores are busy"),
        ([5, 5, 5, 5], 8, "fewer threads than cores"),
        ([5, 4, 5, 4], 1000, "waits"),
        ([5, 1, 1, 1], 2, "waits"),
        ([5, 1, 1, 1], 8, "waits"),  # more threads would not help
    ],
)
def test_more_threads_help_where_those_there_are_work(work, cores, limit):
    lost = lost_seconds(run(independent(*work), cores=cores), cores)
    seconds = elapsed(independent(*work), cores=cores)
    assert sum(lost.values()) == pytest.approx(cores * seconds - sum(work))
    named = Elapsed("m", cores, 5, 0, seconds, (0, 1), sum(work), None, lost, (), (), (), (), 0, ()).limit
    assert named == limit or (limit == "waits" and named == "serial parts")


def at_barriers(*work, times=20):
    """Threads that meet so often, with so much work before; the first one makes them and waits."""
    rows = started(*range(1, len(work) + 1))
    rows += [(number, "barrier", one, 5, len(work)) for _ in range(times) for number, one in enumerate(work, 1)]
    rows += [(number, "exit", 0) for number in range(1, len(work) + 1)]
    return [*rows, *((0, "join", 0, number) for number in range(1, len(work) + 1))]


@pytest.mark.parametrize(
    ("work", "barriers", "imbalance"),
    [((1, 1), 2 * 20 - 1, 0), ((1, 3), 2 * 20 - 1, 2 * 20), ((1, 1, 1), 3 * 20 - 2, 0)],
)
def test_what_barriers_take_is_no_imbalance(work, barriers, imbalance):
    found = run(at_barriers(*work), barrier=1)  # of the last one, for whom the others wait from the second time on
    assert (found.totals["barriers"], found.waited["barrier"]) == pytest.approx((barriers, imbalance))
    lost = lost_seconds(found, len(work))
    assert (lost["barriers"], lost["imbalance"]) == pytest.approx((barriers, imbalance))
    assert lost["serial parts"] == pytest.approx(len(work) - 1)  # the end of the last one, not all that the first thread waits


def test_who_comes_late_from_a_barrier_lets_others_wait_for_that():
    found = run(at_barriers(1, 1), wake=4)  # the last one goes on at once, and waits for the other at the next
    assert found.totals["barriers"] == pytest.approx((20 + 19) * 4)
    assert found.waited["barrier"] == 0


def test_sleepers_that_one_call_wakes_go_on_one_after_another():
    """Threads 1 to 3 sleep at a barrier until the fourth comes."""
    teams = [*started(1, 2, 3, 4), *((number, "barrier", number, 5, 4) for number in (1, 2, 3, 4))]
    for thread, seconds in ((1, 4 + 10), (2, 4 + 10 + 2), (3, 4 + 10 + 2 + 2), (4, 4 + 2 + 2)):  # it wakes two more than one
        assert elapsed([*teams, (thread, "exit", 50)], wake=10, wake_each=2) == pytest.approx(seconds + 50)
    assert elapsed([*teams, (3, "exit", 50)], cores=2, wake=10, wake_each=2, asleep=0) == pytest.approx(
        elapsed([*teams, (3, "exit", 50)], cores=2)
    ), "where they are more than the cores, `asleep` is all that they take"


def test_a_broadcast_wakes_those_that_wait_one_after_another():
    waits = [(1, "lock", 0, 7), (1, "wait", 0, 5, 7), (2, "lock", 0, 7), (2, "wait", 0, 5, 7)]
    calls = [(0, "lock", 20, 7), (0, "signal", 0, 5), (0, "unlock", 0, 7)]
    woken = [(1, "woken", 0, 5, 7), (1, "unlock", 0, 7), (2, "woken", 0, 5, 7), (2, "unlock", 0, 7)]
    for thread, seconds in ((1, 20 + 10), (2, 20 + 10 + 3), (0, 20 + 3)):
        last = [(thread, "progress" if thread == 0 else "exit", 50)]
        assert elapsed([*started(1, 2), *waits, *calls, *woken, *last], wake=10, wake_each=3) == pytest.approx(seconds + 50)


def complexes(many, adjacent, through=(), near=()):
    return Complexes(many, adjacent, np.array(through, float), np.array(near, float))


def test_complexes_have_a_way_to_memory_each():
    streams, one = independent(6, 6, 6), {"memory": 1.0, "moved": 1.0, "capacity": [1, 2, 3]}
    assert elapsed(streams, **one) == pytest.approx(6)
    # Threads 1 to 3; the first thread waits. Two of them have 1.5 bytes a second through their complex.
    assert elapsed(streams, complexes=complexes(1, 4, [1, 1.5, 1.5]), **one) == pytest.approx(12)
    assert elapsed(streams, complexes=complexes(3, 1, [1, 1.5, 1.5]), **one) == pytest.approx(6)
    pair = independent(6, 6)
    assert elapsed(pair, complexes=complexes(2, 1, [1, 1.5]), **one) == pytest.approx(6)
    assert elapsed(pair, complexes=complexes(2, 4, [1, 1.5]), **one) == pytest.approx(8)
    # The node's limit holds for all complexes together.
    assert elapsed(pair, complexes=complexes(2, 1, [1, 1.5]), **{**one, "capacity": [1, 1.2]}) == pytest.approx(10)


def test_a_last_level_shares_its_bandwidth_among_its_own_cores():
    near, limits = NearWork(np.array([0.5]), np.ones(1)), [1, 1]
    assert elapsed(independent(6), near=near, complexes=complexes(1, 1, near=limits)) == pytest.approx(6)
    one = run(independent(6, 6), near=near, complexes=complexes(1, 1, near=limits))
    assert one.totals["elapsed"] == pytest.approx(12)
    assert (one.totals["near"], one.totals["saturated"]) == pytest.approx((12, 0))
    assert elapsed(independent(6, 6), near=near, complexes=complexes(2, 1, near=limits)) == pytest.approx(6)
    # A core that computes for half of its time leaves the other half to others.
    half = NearWork(np.array([0.5]), np.array([0.5]))
    assert elapsed(independent(6, 6), near=half, complexes=complexes(1, 1, near=limits)) == pytest.approx(6)


def test_complexes_follow_the_core_and_what_the_system_shows():
    milan, intel = find_machine("cloud-epyc-milan"), find_machine("cloud-server")
    assert [complex_cpus(one) for one in (milan, intel)] == [8, 0]
    seen = msgspec.structs.replace(milan, cpu={**milan.cpu, "cpus": 32, "last_level_cpus": 16})
    assert complex_cpus(seen) == 16
    pairs = msgspec.structs.replace(milan, neighbours=(Neighbour(cpu=1, slowdown=1.6),))
    assert complex_cpus(pairs) == 16
    assert placement(milan, 8, compact=True) == placement(intel, 64, compact=True) == (1, 1, 0)
    assert placement(milan, 20, compact=True) == (3, 8, 0)
    assert placement(milan, 20, compact=False) == (3, 1, 0)


def test_bandwidth_of_more_cores_saturates():
    machine = find_machine("cloud-epyc-milan")
    known = msgspec.structs.replace(
        machine, cpu={**machine.cpu, "memory_bandwidths": {"2": 30e9, "4": 36e9}}, maps=single(machine)
    )
    through = complex_capacity(known, 8)
    assert through[[1, 3, 7]] == pytest.approx([30e9, 36e9, 36e9 * 1.1])
    assert np.all(np.diff(through) >= 0)
    assert len(complex_capacity(msgspec.structs.replace(machine, maps=()), 8)) == 0


def single(machine):
    return tuple(one for one in machine.maps if one.threads == 1)


def test_an_interrupt_ends_a_long_replay():
    """The handler of the signal is called long before all events are replayed."""
    packed = PackedThreads(np.repeat(events((0, "progress", 1)), 4_000_000))
    one = np.ones(1)

    def stop(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    whole = time.process_time()
    packed.run(one, one, one, cores=1, capacity=np.zeros(0), costs=FREE)
    whole = time.process_time() - whole
    try:
        signal.setitimer(signal.ITIMER_PROF, whole / 4)
        began = time.process_time()
        with pytest.raises(TimeoutError):
            packed.run(one, one, one, cores=1, capacity=np.zeros(0), costs=FREE)
        assert time.process_time() - began < 0.75 * whole
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_an_unknown_event_is_refused():
    records = events((0, "progress", 1))
    records["kind"] = 25
    with pytest.raises(FormatError):
        PackedThreads(records)


@st.composite
def programs(draw):
    """Rounds of work, a lock and a barrier on several threads."""
    threads, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rows = started(*range(1, threads + 1))
    for _ in range(rounds):
        for one in draw(st.permutations(range(1, threads + 1))):
            work, held, shared = draw(st.integers(0, 50)), draw(st.integers(0, 9)), draw(st.sampled_from([0, SHARED]))
            rows += [(one, "lock", work, 3, shared), (one, "unlock", held, 3)]
        rows += [(one, "barrier", draw(st.integers(0, 5)), 4, threads) for one in range(1, threads + 1)]
    return [*rows, *((one, "exit", 0) for one in range(1, threads + 1)), *((0, "join", 0, one) for one in range(1, threads + 1))]


@given(programs(), st.integers(1, 6))
def test_elapsed_lies_between_its_bounds(rows, cores):
    found = run(rows, cores=cores)
    work = sum(row[2] for row in rows)
    longest = max(sum(row[2] for row in rows if row[0] == one) for one in {row[0] for row in rows})
    assert found.totals["work"] == pytest.approx(work)
    assert found.busy.sum() == pytest.approx(work)
    assert max(longest, work / cores) * (1 - 1e-9) <= found.totals["elapsed"] <= work * (1 + 1e-9) + 1e-9
    assert found.totals["forced"] == 0


@given(programs(), st.sampled_from(["create", "start", "wake", "join"]))
def test_costs_take_no_more_than_their_sum(rows, name):
    """Waiting longer for one lock may let another thread pass, so elapsed time need not grow with a cost."""
    assert elapsed(rows, **{name: 0.5}) <= elapsed(rows) + 0.5 * len(rows) * 2 + sum(row[2] for row in rows)


def test_the_replay_of_threads_is_clean_under_the_sanitizers(sanitized):
    done = subprocess.run([sanitized("thread_driver")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {name: values for name, *values in (line.split() for line in done.stdout.splitlines())}
    assert rows["unknown"] == ["3"]
    assert rows["empty"] == ["0", "0.000"]
    assert all(values[0] == "0" for name, values in rows.items() if name.startswith("random"))
