"""predict: one call from a trace to a ratio, with a cache by (trace, hierarchy), and a correction applied last."""

import msgspec
import numpy as np
import pytest

from convolver._native.sinks import Decoded
from convolver.analyzing.analyze import analyze
from convolver.analyzing.program_analysis import Analysis
from convolver.convolution.convolve import convolve
from convolver.convolution.cpu_ratio import cpu_ratio
from convolver.errors import FormatError, ProvenanceError, ReplayError, SchemaError, UsageError
from convolver.machine.hierarchy import Level
from convolver.machine.kernel_costs import KernelCost
from convolver.pipeline import Prediction, predict
from convolver.reporting.program_report import no_system_time
from convolver.simulation.hit_rates import HitRates
from tests.synthetic import LEVELS, NS, loads, machine, signature


class ArrayTrace:
    """A trace whose references are an array: two sites that walk 16 KiB again and again, charged to blocks 0 and 1."""

    id = "trace-of-the-test"
    site_blocks = np.array([0, 1], np.uint32)
    thread_log = None

    def __init__(self):
        self.fed = 0
        self.header = {"sampling": None}
        self.signature = signature(loads(60_000), loads(60_000, function="g"), inputs={"trace": self.id}, command=["./app"])

    def feed(self, sinks, progress=None):
        self.fed += 1
        (simulator,) = sinks.windows
        addresses = np.arange(120_000, dtype=np.uint64) * 8 % 16384 + 4096
        owners = (np.arange(120_000) // 1000 % 2).astype(np.uint32)
        simulator.feed(addresses, np.full(120_000, 8, np.uint16), None, owners)
        return Decoded(self.site_blocks)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path / "cache"))
    return ArrayTrace()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_no_clock_measures_is_refused(trace, seconds):
    with pytest.raises(UsageError, match="is no number of measured seconds"):
        predict(trace, base=machine("a"), measured_seconds=seconds)


def test_prediction_names_times_ratio_and_shares(trace):
    prediction = predict(trace, base=machine("a"), target=machine("b", scale=0.5), measured_seconds=2e-4)
    assert prediction.base_seconds == pytest.approx((120_000 * 0.5 + 15_000 * 4) * NS, rel=0.05)
    assert prediction.cpu_ratio == pytest.approx(2)
    document = prediction.document
    assert {name: document[name] for name in ("coverage", "sampled_share", "extrapolated_share")} == {
        "coverage": 1.0,
        "sampled_share": 1.0,
        "extrapolated_share": 0.0,
    }
    assert document["base"]["machine"] == "a"
    assert document["target"]["machine"] == "b"
    assert document["target"]["scaled_seconds"] == pytest.approx(1e-4)
    assert prediction.error == pytest.approx((prediction.base_seconds - 2e-4) / 2e-4)


def test_one_machine_against_itself_has_ratio_one(trace):
    assert predict(trace, base=machine()).cpu_ratio == 1.0


HAD = {
    "page_bytes": 4096,
    "pages": None,
    "forks": 0,
    "threads": 0,
    "calls": [{"call": "getpid", "target": "", "calls": 100, "bytes": 0}],
}


def costs(profile, least):
    known = [KernelCost(name=name, seconds=least, low=least, high=least) for name in ("page.few", "call.least")]
    return msgspec.structs.replace(profile, kernel=tuple(known))


def test_system_time_counts_in_the_total_and_in_the_ratio(trace):
    trace.signature = signature(loads(60_000), loads(60_000, function="g"), inputs={"trace": trace.id}, system=HAD)
    one, two = costs(machine("a"), 1e-6), costs(machine("b", scale=0.5), 1e-6)
    prediction = predict(trace, base=one, target=two, measured_seconds=4e-4)
    base, target = prediction.document["base"], prediction.document["target"]
    assert (base["system_seconds"], target["system_seconds"]) == pytest.approx((1e-4, 1e-4))
    assert base["seconds"] == pytest.approx(base["user_seconds"] + 1e-4)
    assert prediction.error == pytest.approx(base["seconds"] / 4e-4 - 1)
    assert prediction.document["user_cpu_ratio"] == pytest.approx(2)
    assert prediction.cpu_ratio == pytest.approx(base["seconds"] / target["seconds"])
    assert target["scaled_seconds"] == pytest.approx(4e-4 / prediction.cpu_ratio)
    low, high = base["interval_seconds"]
    assert low < base["seconds"] < high


def test_a_machine_without_costs_leaves_system_time_out_of_the_ratio_and_says_so(trace):
    trace.signature = signature(loads(60_000), loads(60_000, function="g"), inputs={"trace": trace.id}, system=HAD)
    prediction = predict(trace, base=costs(machine("a"), 1e-6), target=machine("b", scale=0.5))
    target = prediction.document["target"]
    assert prediction.cpu_ratio == pytest.approx(2)
    assert (target["system_seconds"], target["seconds"]) == (None, target["user_seconds"])
    assert "the profile has no costs of the kernel" in target["system_note"]
    assert prediction.document["base"]["system_note"] is None


def test_an_older_trace_is_predicted_without_system_time(trace):
    base = predict(trace, base=costs(machine("a"), 1e-6)).document["base"]
    assert base["system_seconds"] is None
    assert "the trace does not say" in base["system_note"]
    assert no_system_time([("a", base["system_note"])]) == [f"For a {base['system_note']}."]


def test_hierarchies_that_were_simulated_cost_nothing(trace):
    first = predict(trace, base=machine("a"), target=machine("b", scale=2.0))
    assert trace.fed == 1
    again = predict(trace, base=machine("other name"), target=machine("b", scale=3.0))
    assert trace.fed == 1
    assert again.base_seconds == first.base_seconds
    larger = (LEVELS[0], Level(level="L2", size_bytes=131072, ways=8))
    predict(trace, base=machine("a"), target=machine("c", levels=larger))
    assert trace.fed == 2


def test_a_damaged_cache_is_simulated_anew(trace, tmp_path):
    first = predict(trace, base=machine("a"))
    for path in (tmp_path / "cache").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    assert predict(trace, base=machine("a")).base_seconds == first.base_seconds
    assert trace.fed == 2


def test_a_cache_that_cannot_be_written_is_no_failure(trace, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path / "file"))
    assert predict(trace, base=machine("a")).base_seconds > 0


def test_correction_is_applied_last(trace):
    from convolver.modeling.model_artifact import Model, Term

    model = Model(
        name="c",
        kind="linear",
        target="measured",
        features=("seconds",),
        terms=(Term(expression="seconds", coefficient=3.0),),
        domain={"seconds": (0.0, 1.0)},
    )
    plain = predict(trace, base=machine("a"), target=machine("b", scale=2.0))
    corrected = predict(trace, base=machine("a"), target=machine("b", scale=2.0), correct=model)
    assert corrected.base_seconds == pytest.approx(3 * plain.base_seconds)
    assert corrected.cpu_ratio == pytest.approx(plain.cpu_ratio)
    assert corrected.document["inputs"]["correction"] == model.id


def test_one_name_for_two_hierarchies_is_refused(trace):
    other = machine("a", levels=(LEVELS[0], Level(level="L2", size_bytes=131072, ways=8)))
    with pytest.raises(ProvenanceError, match="rename"):
        predict(trace, base=machine("a"), target=other)


def test_hit_rates_of_two_traces_do_not_join(trace):
    one = analyze(trace, machine("a")).hit_rates
    trace.id = "another"
    with pytest.raises(ProvenanceError, match="one trace"):
        HitRates.joined([one, analyze(trace, machine("b")).hit_rates])


def test_steps_by_hand_equal_predict_to_the_last_bit(trace):
    base, target = machine("a"), machine("b", scale=0.5)
    prediction = predict(trace, base=base, target=target)
    analysis = analyze(trace, [base, target])
    times = [convolve(analysis, one) for one in (base, target)]
    assert [one.seconds for one in times] == [prediction.base.seconds, prediction.target.seconds]
    assert cpu_ratio(*times).document == prediction.ratio.document
    assert times[0].ratio_to(times[1]) == prediction.cpu_ratio


def test_an_analysis_survives_a_file(trace, tmp_path):
    base, target = machine("a"), machine("b", levels=(LEVELS[0], Level(level="LLC", size_bytes=131072, ways=8)))
    analysis = analyze(trace, [base, target])
    analysis.save(tmp_path / "a.analysis.parquet")
    again = Analysis.load(tmp_path / "a.analysis.parquet", trace.signature)
    assert (again.id, again.machines) == (analysis.id, ["a", "b"])
    for one in (base, target):
        assert convolve(again, one).table.equals(convolve(analysis, one).table)
    with pytest.raises(ProvenanceError, match="without its signature"):
        convolve(Analysis.load(tmp_path / "a.analysis.parquet"), base)


@pytest.mark.parametrize("wrong", [42, None, [], b"cg.cvt"])
def test_what_is_no_program_is_refused(wrong):
    with pytest.raises(UsageError):
        analyze(wrong, machine())


@pytest.mark.parametrize("wrong", [42, [], [None]])
def test_what_is_no_machine_is_refused(trace, wrong):
    with pytest.raises(UsageError):
        analyze(trace, wrong)


def test_prediction_survives_a_file(trace, tmp_path):
    prediction = predict(trace, base=machine("a"), target=machine("b", scale=0.5))
    assert prediction.save(tmp_path / "a.prediction.json") == prediction.id
    loaded = Prediction.load(tmp_path / "a.prediction.json")
    assert (loaded.id, loaded.cpu_ratio, loaded.base, loaded.error) == (prediction.id, prediction.cpu_ratio, None, None)
    with pytest.raises(SchemaError):
        Prediction({**prediction.document, "cpu_ratio": "fast"})


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    signature(loads(10)).save(tmp_path / "a.sig.parquet")
    with pytest.raises(UsageError, match="hit rates"):
        predict(tmp_path / "a.sig.parquet", base=machine())
    machine().save(tmp_path / "m.machine.json")
    with pytest.raises(SchemaError, match=r"holds a machine profile"):
        predict(tmp_path / "m.machine.json", base=machine())
    with pytest.raises(FormatError):
        predict(tmp_path / "missing.cvt", base=machine())


def test_mpi_events_are_replayed_with_the_ratio_and_the_network_of_the_target(trace):
    import msgspec

    from convolver.mpi.events import EventsBuilder
    from convolver.mpi.network import network_from_profile
    from convolver.mpi.network_replay import replay

    events = EventsBuilder(2).burst(0, 1.0).send(0, 1, 1000).burst(1, 0.5).receive(1, 0, 1000).burst(1, 1.0).build()
    network = {"latency_seconds": 0.2, "bandwidth_bytes_per_second": 1e4, "tasks_per_node": 1}
    target = msgspec.structs.replace(machine("b", scale=0.5), network=network)
    prediction = predict(trace, base=machine("a"), target=target, events=events)
    alone = replay(events, network_from_profile(network, 2), prediction.cpu_ratio)
    assert prediction.timeline.predicted_seconds == alone.predicted_seconds
    # Rank 1 computes for half of a second after a message that rank 0 sends after half of one.
    assert prediction.timeline.predicted_seconds > 1.0
    assert prediction.document["replay"]["ranks"] == 2
    with pytest.raises(ReplayError, match="no network"):
        predict(trace, base=machine("a"), events=events)
