"""Campaign files, the statistics over their results, and the page that shows them."""

import contextlib
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import FormatError, PredictionError, SchemaError, UsageError
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import MachineProfile
from convolver.validating import campaign_machines as machines
from convolver.validating.campaign import Campaign, Condition
from convolver.validating.measuring import chosen_runs
from convolver.validating.running import NativeRun
from convolver.validating.validation import Validation, coverage, errors, percentile, ratios, summarize
from convolver.validating.validation_rows import measured_fields, paired_ratios, timed_by, waited_seconds
from tests.bench.campaign_results import HALVES, conditions_table, half, programs_table, statistics
from tests.synthetic import machine

OURS = Path(__file__).parents[1] / "bench" / "campaign.toml"
SMALL = """
name = "small"
[[program]]
name = "echo"
command = ["echo", "{input}"]
inputs = { one = ["1"], two = ["2", "{here}"] }
quick = ["two"]
"""


def campaign(text, folder):
    path = folder / "c.toml"
    path.write_text(text)
    return Campaign.load(path)


def row(program="p", condition="quiet", predicted=1.0, measured=1.0, **fields):
    usual = {
        "input": "",
        "origin": "own",
        "mode": "hybrid",
        "method": "model",
        "low_seconds": 0.9 * predicted,
        "high_seconds": 1.1 * predicted,
        "wall_seconds": 1.5 * measured,
        "user_seconds": 0.75 * measured,
        "system_seconds": 0.25 * measured,
        "timed": "processor",
        "spread": 0.01,
        "runs": 3,
        "others": 0.0,
        "steal": 0.0,
        "covered": True,
        "memops": 1000,
        "coverage": 1.0,
        "sampled_share": 0.1,
        "slowdown": 8.0,
    }
    own = {"program": program, "condition": condition, "predicted_seconds": predicted, "measured_seconds": measured}
    return {**usual, **own, "error": predicted / measured - 1, **fields}


HEADER = {
    "campaign": "small",
    "base": "quiet",
    "created": "2026-01-01T00:00:00+00:00",
    "convolver": "0",
    "runs": 3,
    "machine": {"cpu": "x", "cpus": 2, "system": "Linux", "noise": {"others": 0.5, "steal": 0.0, "busy": True}},
    "left_out": {"hpcc": "'hpcc' is not installed"},
    "refused": {},
}


def test_our_own_campaign_names_twelve_programs_that_nobody_here_wrote():
    ours = Campaign.load(OURS)
    assert len([program for program in ours.program if program.origin == "Debian"]) >= 12
    assert {"busy", "huge pages", "half CPU"} <= {condition.name for condition in ours.condition}
    quick = {program.name for program in ours.quick().program if program.origin == "Debian" and program.inputs}
    assert len(quick) >= 12


def test_jobs_have_their_words_filled_in(tmp_path):
    jobs = list(campaign(SMALL, tmp_path).jobs(Path("/here"), Path("/work")))
    assert [job.command for job in jobs] == [("echo", "one", "1"), ("echo", "two", "2", "/here")]
    assert [job.name for job in jobs] == ["echo-one", "echo-two"]
    assert len({job.key for job in jobs}) == 2


def test_the_quick_selection_keeps_the_quick_inputs_and_as_many_runs_as_asked_for(tmp_path):
    quick = campaign(SMALL, tmp_path).quick()
    assert list(quick.program[0].inputs) == ["two"]
    assert quick.runs == 3
    assert campaign("runs = 9\nquick_runs = 5\n" + SMALL, tmp_path).quick().runs == 5
    assert campaign("runs = 2\nquick_runs = 5\n" + SMALL, tmp_path).quick().runs == 2


def test_an_unknown_program_cannot_be_chosen(tmp_path):
    with pytest.raises(UsageError, match="no program 'cat'"):
        campaign(SMALL, tmp_path).only(["cat"])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("runs = 0\n", "runs"),
        ("quick_runs = 0\n", "runs"),
        ('base = "nowhere"\n', "nowhere"),
        ("color = 1\n", "color"),
        ('modes = ["some"]\n', "modes"),
        ('condition = [{name = "a"}, {name = "a"}]\n', "repeated"),
        ('condition = [{name = "a", cpu_quota = 0.0}]\n', "cpu_quota"),
        ('condition = [{name = "a", profile = "x"}]\n', "times"),
        ("prepare = [[]]\n", "preparation"),
        ('interval = "often"\n', "'often' is not a count"),
        ("sets = 3\n", "power of two"),
        ('sample = "2M"\n', "does not fit in an interval"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_name(tmp_path, change, what):
    with pytest.raises(SchemaError, match=what):
        campaign(change + SMALL, tmp_path)


def test_two_programs_whose_files_have_one_name_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="files named 'echo-one'"):
        campaign(f'{SMALL}[[program]]\nname = "echo-one"\ncommand = ["echo"]\n', tmp_path)


def test_a_quick_selection_of_nothing_is_refused(tmp_path):
    with pytest.raises(UsageError, match="leave out --quick"):
        campaign(SMALL.replace('quick = ["two"]', "quick = []"), tmp_path).quick()


def test_a_condition_that_changed_since_it_was_measured_is_refused(tmp_path):
    first = campaign(f'condition = [{{name = "a"}}]\n{SMALL}', tmp_path)
    machines.check_kept(first, tmp_path)
    machines.check_kept(first, tmp_path)
    machines.check_kept(campaign(f'condition = [{{name = "b", pages = "4k"}}]\n{SMALL}', tmp_path), tmp_path)
    with pytest.raises(UsageError, match=r"'a' was another one .* --fresh"):
        machines.check_kept(campaign(f'condition = [{{name = "a", pages = "4k"}}]\n{SMALL}', tmp_path), tmp_path)


@pytest.mark.parametrize(("quota", "threads"), [(0.5, 2), (1.0, 0)])
def test_threads_under_a_quota_and_no_thread_are_refused(tmp_path, quota, threads):
    with pytest.raises(SchemaError, match="threads"):
        campaign(f'condition = [{{name = "a", cpu_quota = {quota}}}]\n{SMALL}threads = {threads}\n', tmp_path)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_file_at_all_ends_in_anything_but_a_format_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "c.toml"
    path.write_bytes(SMALL.encode()[: len(content)] + content)
    with contextlib.suppress(FormatError):
        Campaign.load(path)


@given(st.lists(st.floats(-1, 10), min_size=1, max_size=50))
def test_error_statistics_are_ordered(signed):
    found = errors(signed)
    assert found is not None
    assert 0 <= found.median <= found.ninetieth <= found.worst
    assert found.worst == max(map(abs, signed))
    assert found.mean == pytest.approx(math.fsum(map(abs, signed)) / len(signed))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_a_percentile_lies_between_the_values_around_it(values, share):
    found = percentile(values, share)
    assert min(values) <= found <= max(values)
    below = sum(value <= found * (1 + 1e-12) for value in values)
    assert below >= math.floor(share * (len(values) - 1)) + 1


def test_coverage_counts_measured_times_inside_the_interval():
    assert coverage([row(measured=1.05), row(measured=1.2), row(measured=0.95), row(measured=0.5)]) == 0.5
    assert coverage([]) is None


def test_a_cpu_ratio_is_the_base_over_the_other_and_its_error_is_relative():
    rows = [row(), row(condition="busy", predicted=1.25, measured=1.6), row("q", "busy")]
    (found,) = ratios(rows, "quiet")
    assert found["predicted"] == pytest.approx(0.8)
    assert found["measured"] == pytest.approx(0.625)
    assert found["error"] == pytest.approx(0.28)


def test_a_condition_timed_by_the_wall_is_compared_with_the_bases_time_on_the_wall():
    (found,) = ratios([row(), row(condition="half", predicted=2.0, measured=3.0, wall_seconds=3.0, timed="wall")], "quiet")
    assert found["measured"] == pytest.approx(0.5)


def test_a_base_under_a_quota_is_compared_by_the_wall_too():
    base = row(predicted=2.0, measured=2.5, wall_seconds=2.5, timed="wall")
    (found,) = ratios([base, row(condition="whole", predicted=1.0, measured=1.2, wall_seconds=1.25)], "quiet")
    assert (found["predicted"], found["measured"]) == (2.0, 2.0)
    assert timed_by(Condition(name="half", cpu_quota=0.5), Condition(name="whole")) == "wall"


def test_what_a_program_waits_for_is_stretched_by_no_quota_and_counts_on_both_sides_of_a_ratio():
    half_cpu = row(condition="half", predicted=2 * 1.0 + 0.5, waited_seconds=0.5, measured=2.5, timed="wall", wall_seconds=2.5)
    (found,) = ratios([row(wall_seconds=1.5), half_cpu], "quiet")
    assert found["predicted"] == found["measured"] == pytest.approx(1.5 / 2.5)


def test_waiting_is_the_median_of_the_runs_that_count_and_never_negative():
    def on_the_wall(wall, others=0.0):
        return msgspec.structs.replace(run(1.0, others), wall_seconds=wall)

    runs = [on_the_wall(1.2), on_the_wall(1.3), on_the_wall(1.6), on_the_wall(9.0, 0.5)]
    assert waited_seconds(chosen_runs(runs)) == pytest.approx(0.3)
    assert waited_seconds([on_the_wall(0.5)]) == 0.0  # threads on several processors
    assert waited_seconds([]) == 0.0


def test_statistics_are_given_by_condition_and_by_origin():
    rows = [row(predicted=1.1), row("q", predicted=1.3, origin="Debian"), row("q", "busy", origin="Debian")]
    found = {(entry["condition"], entry["origin"]): entry for entry in summarize(rows, "quiet")}
    assert found["quiet", "all"]["error"]["median"] == pytest.approx(0.2)
    assert found["quiet", "Debian"]["error"]["worst"] == pytest.approx(0.3)
    assert found["quiet", "Debian"]["error_of_user_time"]["worst"] == pytest.approx(1.3 / 0.75 - 1)
    assert ("busy", "own") not in found
    assert found["busy", "all"]["cpu_ratio_error"]["worst"] == pytest.approx(0.3)


def test_a_result_survives_its_file_and_the_tables_of_pages_show_every_row(tmp_path):
    made = Validation.make([row(), row("xz", "busy", measured=2.0)], inputs={}, **HEADER)
    made.save(tmp_path / "v.parquet")
    read = Validation.load(tmp_path / "v.parquet")
    assert read.rows == made.rows
    made.save_json(tmp_path / "v.json")
    assert msgspec.json.decode((tmp_path / "v.json").read_bytes())["rows"] == made.rows
    columns, (program,), figures = programs_table(read)
    assert dict(zip(columns, program, strict=True))["error"] == "+0 %"
    assert figures["jobs"] == "1"
    assert figures["median"] == figures["worst"] == "0 %"
    columns, conditions = conditions_table(statistics(read.rows, read.base))
    assert {line[0] for line in conditions} == {"quiet", "busy"}
    assert "50.0 %" in next(line for line in conditions if line[0] == "busy")


def test_a_campaign_without_a_result_says_why():
    with pytest.raises(PredictionError, match="hpcc"):
        Validation.make([], inputs={}, **HEADER)


def run(seconds, others=0.0, number=0, cycles=0.0):
    return NativeRun(
        job="j",
        condition="quiet",
        round=number,
        wall_seconds=seconds,
        user_seconds=seconds,
        system_seconds=0.0,
        status=0,
        others=others,
        steal=0.0,
        witness_cycles=cycles,
    )


def test_disturbed_runs_count_only_where_all_are_and_then_the_shortest_of_those_shared_least():
    def measured(*runs, alone=0.0):
        return measured_fields(Condition(name="quiet"), chosen_runs(runs, alone), None)

    assert measured(run(1.0, 0.0), run(9.0, 0.5), run(1.2, 0.05))["measured_seconds"] == pytest.approx(1.1)
    disturbed = measured(run(3.0, 0.5), run(2.0, 0.6))
    assert (disturbed["measured_seconds"], disturbed["runs"]) == (2.0, 1)
    shared = measured(run(3.0, cycles=0.3), run(2.0, cycles=0.4), run(2.5, cycles=0.3), alone=0.27)
    assert (shared["measured_seconds"], shared["runs"]) == (2.5, 1)


def test_programs_with_threads_are_compared_by_elapsed_time():
    quiet = Condition(name="quiet")
    runs = [msgspec.structs.replace(run(1.0), wall_seconds=0.6, user_seconds=1.0)]
    assert measured_fields(quiet, runs, None)["measured_seconds"] == pytest.approx(1.0)
    found = measured_fields(quiet, runs, None, threads=2)
    assert (found["measured_seconds"], found["timed"]) == (pytest.approx(0.6), "wall")
    assert timed_by(quiet, threads=2) == "wall"


def test_the_number_of_threads_changes_a_job_and_one_does_not(tmp_path):
    (one, _), (two, _) = (campaign(text, tmp_path).jobs(Path("/"), Path("/")) for text in (SMALL, SMALL + "threads = 2\n"))
    assert (one.threads, two.threads) == (1, 2)
    assert one.key != two.key
    assert msgspec.structs.replace(two, threads=1).key == one.key


def test_runs_on_a_shared_core_count_only_where_all_are():
    runs = [run(1.0, cycles=0.27), run(1.9, cycles=0.37), run(1.1, cycles=0.275), run(1.2)]
    assert chosen_runs(runs, 0.27) == [runs[0], runs[2], runs[3]]
    assert chosen_runs(runs) == runs
    assert chosen_runs(runs[1:2], 0.27) == runs[1:2]


def shared_runs(alone, shares, factor=1.6):
    """Return runs of a second's work on a core that is shared so much of the time: it goes on at 1 / factor of its speed then."""
    taken = [1 / (1 - share + share / factor) for share in shares]
    return [run(seconds, cycles=alone * (1 + share)) for seconds, share in zip(taken, shares, strict=True)]


@given(st.permutations([0.08 * part for part in range(1, 13)]), st.floats(1.01, 2.2))
def test_runs_on_a_shared_core_tell_the_time_on_a_core_alone(shares, factor):
    found = chosen_runs(shared_runs(2.0, shares, factor), 2.0)
    assert [one.processor_seconds for one in found] == pytest.approx([1.0] * len(shares))


def test_enough_runs_on_a_core_alone_count_as_they_are():
    alone = [run(1.0 + 0.01 * number, cycles=2.0) for number in range(5)]
    assert chosen_runs([*alone, *shared_runs(2.0, [0.1 * part for part in range(1, 9)])], 2.0) == alone


def test_a_core_that_is_never_shared_needs_no_line():
    runs = [run(1.0 + 0.01 * number, cycles=2.0 + 0.001 * number) for number in range(12)]
    assert chosen_runs(runs, 2.0) == runs


def test_cpu_ratios_are_measured_round_by_round_where_both_runs_count():
    base = [run(1.0), run(1.5, number=1), run(1.0, number=2)]
    found = paired_ratios(base, [run(3.0, number=1), run(2.2, number=2), run(9.0, number=7)], "processor")
    assert found == pytest.approx([0.5, 1 / 2.2])


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=8), st.floats(0.1, 10))
def test_a_drift_that_reaches_both_runs_of_a_round_alike_leaves_their_ratio_alone(drift, factor):
    base = [run(speed, number=number) for number, speed in enumerate(drift)]
    other = [run(factor * speed, number=number) for number, speed in enumerate(drift)]
    assert paired_ratios(base, other, "wall") == pytest.approx([1 / factor] * len(drift))


def test_a_ratio_of_rounds_goes_before_the_quotient_of_medians():
    (found,) = ratios([row(), row(condition="busy", predicted=2.0, measured=3.0, measured_ratio=0.5, ratio_spread=0.1)], "quiet")
    assert (found["measured"], found["error"], found["spread"]) == (0.5, 0.0, 0.1)


def test_programs_are_halved_by_their_names_alone():
    rows = [row(name, predicted=2.0) for name in ("xz", "gzip", "zstd", "lua")]
    counts = {entry["origin"]: entry["count"] for entry in statistics(rows, "quiet")}
    assert {half("xz"), half("gzip")} == set(HALVES)
    assert sum(counts[name] for name in HALVES) == counts["all"] == 4


def test_inputs_to_trace_in_full_are_marked_and_do_not_change_what_runs(tmp_path):
    plain, marked = (campaign(text, tmp_path) for text in (SMALL, SMALL + 'full = ["two"]\n'))
    jobs = list(marked.jobs(tmp_path, tmp_path))
    assert [job.full for job in jobs] == [False, True]
    assert [job.key for job in jobs] == [job.key for job in plain.jobs(tmp_path, tmp_path)]


def test_an_older_profile_gets_the_kernels_costs(tmp_path, monkeypatch):
    found = (KernelCost(name="page.few", seconds=1e-6, low=1e-6, high=1e-6),)
    monkeypatch.setattr(machines, "measure_kernel", lambda cpu, progress: found)
    folder = tmp_path / "machines"
    folder.mkdir()
    machine("quiet").save(folder / "quiet.machine.json")
    small = campaign(SMALL + '[[condition]]\nname = "quiet"\n', tmp_path)
    kept, _ = machines.profiles(small, tmp_path, folder, 0, calibrate=False)
    assert kept["quiet"].kernel == found
    assert MachineProfile.load(folder / "quiet.machine.json").kernel == found


def test_user_time_is_compared_with_user_time():
    rows = [row(predicted=1.2, measured=1.0, predicted_system_seconds=0.45)]  # of user time: 0.75 of 0.75
    (summary,) = [one for one in summarize(rows, "quiet") if one["origin"] == "all"]
    assert summary["error"]["median"] == pytest.approx(0.2)
    assert summary["error_of_user_time"]["median"] == pytest.approx(0.0, abs=1e-9)


def test_conditions_with_the_bases_pages_are_calibrated_like_the_base(tmp_path, monkeypatch):
    asked = {}

    def calibrated(profile, like=None, progress=None):
        asked[profile.name] = like and like.name
        return profile, ""

    monkeypatch.setattr(machines, "calibrated", calibrated)
    folder = tmp_path / "machines"
    folder.mkdir()
    cost = (KernelCost(name="page.few", seconds=1e-6, low=1e-6, high=1e-6),)
    for name in ("quiet", "busy", "huge"):
        msgspec.structs.replace(machine(name), kernel=cost).save(folder / f"{name}.machine.json")
    text = SMALL + "".join(f'[[condition]]\nname = "{name}"\n' for name in ("quiet", "busy", "huge")) + 'pages = "thp"\n'
    machines.profiles(campaign(text, tmp_path), tmp_path, folder, 0)
    assert asked == {"quiet": None, "busy": "quiet", "huge": None}
