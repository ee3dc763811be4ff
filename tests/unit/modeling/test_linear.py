"""Linear models T(P, L, BW): the paper's printed numbers, and recovery of known scaling by evidence."""

import numpy as np
import pytest

from convolver.errors import ModelError
from convolver.modeling.base import fit
from convolver.modeling.cross_validation import per_group
from convolver.modeling.linear import choose_basis, fit_per_p
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.regress import ols
from convolver.modeling.storm import locality_factors
from convolver.mpi.sweep import Range, SweepPlan
from tests.in_memory_sweep import Platform, platforms_of, sweep

P = np.array([4.0, 9, 16, 25, 36, 49])
ALPHA_PRIME = np.array([14.748, 6.589, 3.734, 2.412, 1.694, 1.261])
LOCALITY = np.array([1.0, 0.986, 0.900, 0.672, 0.575, 0.553])
PRODUCT = np.array([14.748, 6.496, 3.361, 1.620, 0.974, 0.697])
ALPHA = np.array([14.718, 6.585, 3.351, 1.598, 0.964, 0.699])
TABLE_3 = {
    "NAS": (0.062, 58.743, 200.814, 12.240, 0.453, 0),
    "POP": (1.366, 337.444, 14478.395, 0, 2.739, 0),
    "SWEEP": (2.258, 105.007, 1850.302, 21.488, 0, 0.569),
    "RNAfold": (0.411, 91.778, 3528.737, 0, 0.202, 0),
}
VECTORS = {
    "NAS": (3.741934, 0.994231),
    "POP": (22.628424, 6.810736),
    "SWEEP": (8.933919, 4.295150),
    "RNAfold": (6.184432, 1.882339),
}


def paper_model(coefficients):
    names = ("LF", "LF/P", "L", "L*P", "1/BW", "P/BW")
    terms = tuple(Term(expression=n, coefficient=c) for n, c in zip(names, coefficients, strict=True) if c)
    return Model(name="paper", kind="linear", target="T", features=("P", "L", "BW", "LF"), terms=terms)


@pytest.mark.parametrize("app", TABLE_3)
def test_equation_2_with_the_printed_coefficients_gives_the_test_vectors(app):
    values = paper_model(TABLE_3[app]).apply({"P": [16, 64], "L": 1e-5, "BW": 100, "LF": 1})
    assert values == pytest.approx(VECTORS[app], abs=5e-7)


def test_printed_products_are_critical_path_times_locality_factor_within_rounding():
    for alpha, factor, product in zip(ALPHA_PRIME, LOCALITY, PRODUCT, strict=True):
        low, high = (alpha - 5e-4) * (factor - 5e-4), (alpha + 5e-4) * (factor + 5e-4)
        assert low - 5e-4 <= product <= high + 5e-4


def test_table_4_of_the_paper_is_the_error_of_the_critical_path_alone():
    error = 100 * np.abs((0.062 + 58.743 / P) * LOCALITY / ALPHA - 1)
    assert error == pytest.approx([0.20, 1.34, 0.27, 1.42, 1.03, 0.25], abs=0.006)
    assert np.max(np.abs(error - [0.24, 1.39, 0.27, 1.37, 1.13, 0.28])) == pytest.approx(0.10, abs=0.005)


def test_a_locality_factor_of_0_553_is_a_decrease_of_44_7_per_cent_not_55():
    factors = locality_factors({4: 100.0, 49: 55.3})
    assert factors == {4: 1.0, 49: pytest.approx(0.553)}
    assert 1 - factors[49] == pytest.approx(0.447)


def test_printed_latency_coefficients_do_not_give_the_printed_counts_and_ours_differ():
    printed = np.array([321.96, 521.80, 677.55])
    from_table = 200.814 + 12.240 * np.array([9.0, 25, 36])
    assert 100 * (from_table / printed - 1) == pytest.approx([-3.4, -2.9, -5.3], abs=0.06)
    own = ols(printed, np.column_stack([np.ones(3), [9.0, 25, 36]]), ("b0", "b1"))
    assert own.coefficients == pytest.approx([200.95, 13.121], abs=6e-3)


def test_fit_on_the_small_counts_extrapolates_to_36_and_49():
    def errors(count):
        design = np.column_stack([np.ones(count), 1 / P[:count]])
        a = ols(ALPHA[:count] / LOCALITY[:count], design, ("a0", "a1"))
        return 100 * np.abs((a["a0"] + a["a1"] / P[4:]) * LOCALITY[4:] / ALPHA[4:] - 1)

    assert errors(4) == pytest.approx([1.52, 0.44], abs=0.006)
    assert 3.2 < errors(3).min() < errors(3).max() < 4.0


def stand_in(trace, platform: Platform):
    """A program whose coefficients are known: critical path in 1/P times locality, latencies in sqrt(P), bytes in 1/sqrt(P)."""
    p = trace["P"]
    cpu = trace["LF"] * (0.3 + 60 / p) / platform.cpu_ratio
    latencies = -88.9 + 126.9 * np.sqrt(p)
    return cpu + latencies * platform.latency_seconds + 4e7 / np.sqrt(p) / platform.bandwidth_bytes_per_second


TRACES = {int(p): {"P": p, "LF": f} for p, f in zip(P, LOCALITY, strict=True)}
RANGES = {"latency_seconds": Range(1e-6, 1e-4, "log"), "bandwidth_bytes_per_second": Range(2e7, 1e9, "log")}


def platforms(count, seed=0):
    return platforms_of(SweepPlan(RANGES, count, seed, "random"))


@pytest.fixture(scope="module")
def samples():
    return sweep(TRACES, platforms(60), stand_in).observations("time", ["P", "L", "BW"])


def test_sampled_platforms_are_reproducible_and_in_range():
    assert platforms(5, seed=3) == platforms(5, seed=3)
    assert all(1e-6 <= s.latency_seconds <= 1e-4 for s in platforms(50))


def test_each_p_gets_its_own_coefficients(samples):
    nine = fit_per_p(samples)[9]
    assert (nine.alpha, nine.beta, nine.gamma) == pytest.approx((0.986 * (0.3 + 60 / 9), -88.9 + 126.9 * 3, 4e7 / 3), rel=1e-6)
    assert nine.max_relative_error < 1e-9


def test_the_locality_correction_changes_the_critical_path_only(samples):
    corrected = sweep(TRACES, platforms(60), stand_in, locality=dict(zip(P.astype(int), LOCALITY, strict=True)))
    plain, other = fit_per_p(samples), fit_per_p(corrected.observations("time", ["P", "L", "BW"]))
    for count, factor in zip(P.astype(int), LOCALITY, strict=True):
        assert other[count].alpha * factor == pytest.approx(plain[count].alpha, rel=1e-6)
        assert other[count].beta == pytest.approx(plain[count].beta, rel=1e-5)
        assert other[count].gamma == pytest.approx(plain[count].gamma, rel=1e-5)


def test_evidence_finds_the_basis_of_each_coefficient_and_the_model_is_exact(samples):
    table = {"P": samples.x["P"], "L": samples.x["L"], "BW": samples.x["BW"], "time": samples.y}
    factors = dict(zip(P, LOCALITY, strict=True))
    model = fit("linear", table, target="time", features=["P", "L", "BW"], locality=factors)
    found = {term.expression: term.coefficient for term in model.terms}
    assert found["LF*(1/P)"] == pytest.approx(60, rel=1e-6)
    assert found["L*(sqrt(P))"] == pytest.approx(126.9, rel=1e-4)
    assert found["(1/sqrt(P))/BW"] == pytest.approx(4e7, rel=1e-6)
    held_out = sweep(TRACES, platforms(40, seed=9), stand_in).observations("time", ["P", "L", "BW"])
    assert max(row["max"] for row in per_group(held_out.x["P"], held_out.y, model.apply(held_out.x))) < 1e-6


def test_a_sweep_with_corrected_bursts_gives_the_same_model(samples):
    factors = dict(zip(P.astype(int), LOCALITY, strict=True))
    table = sweep(TRACES, platforms(60), stand_in, locality=factors)
    model = fit("linear", table, target="time", features=["P", "L", "BW"], locality=factors, corrected=True)
    assert max(row["max"] for row in per_group(samples.x["P"], samples.y, model.apply(samples.x))) < 1e-6


def test_the_papers_basis_flags_what_is_not_significant(samples):
    table = sweep(TRACES, platforms(60), stand_in)
    factors = dict(zip(P, LOCALITY, strict=True))
    model = fit("linear", table, target="time", features=["P", "L", "BW"], locality=factors, basis="paper")
    assert {t.expression for t in model.terms} >= {"LF", "LF*(1/P)", "L*(P)"}
    assert per_group(samples.x["P"], samples.y, model.apply(samples.x))[0]["max"] > 0.001


def test_intervals_widen_by_what_left_out_process_counts_teach():
    rng = np.random.default_rng(2)
    noise = {count: rng.normal(1, 0.03) for count in TRACES}
    table = sweep(TRACES, platforms(60), lambda t, p: stand_in(t, p) * noise[int(t["P"])])
    model = fit("linear", table, target="time", features=["P", "L", "BW"], locality=dict(zip(P, LOCALITY, strict=True)))
    truth = stand_in({"P": 30.0, "LF": 0.62}, Platform(2e-5, 1e8))
    result = model.predict({"P": 30, "L": 2e-5, "BW": 1e8, "LF": 0.62})
    assert result.low[0] < truth < result.high[0]
    assert 0.005 < model.scatter < 0.2


def test_basis_choice_prefers_one_function_over_two_when_it_explains_the_data():
    rng = np.random.default_rng(0)
    values = 126.0 * np.sqrt(P) * rng.normal(1, 0.002, 6)
    assert choose_basis(P, values, ("1", "sqrt(P)", "P")).names == ("sqrt(P)",)


def test_missing_features_and_factors_are_named(samples):
    with pytest.raises(ModelError, match="BW is missing"):
        fit("linear", {"P": P, "L": P, "time": P}, target="time", features=["P", "L"])
    with pytest.raises(ModelError, match="P = 9"):
        fit(
            "linear",
            {"P": samples.x["P"], "L": samples.x["L"], "BW": samples.x["BW"], "time": samples.y},
            target="time",
            features=["P", "L", "BW"],
            locality={4: 1.0},
        )
