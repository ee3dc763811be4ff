"""Pictures: what they show, in every format, and what is refused."""

import json
import math

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'convolver[plot]'")
from convolver.errors import PredictionError, UsageError
from convolver.machine.hierarchy import Level
from convolver.modeling.model_artifact import Model
from convolver.mpi.timeline import Timeline
from convolver.pipeline import Prediction
from convolver.plotting import compared_blocks as blocks
from convolver.plotting import elapsed_curves as threads
from convolver.plotting import maps_picture as maps
from convolver.plotting import miss_ratios as misses
from convolver.plotting import parity, roofline, style
from convolver.plotting import rank_timeline as ranks
from convolver.plotting import scaling_curve as scaling
from convolver.plotting.views import VIEWS
from tests import synthetic
from tests.artifact_chain import CALLS, make_chain, make_model, make_timeline


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    make_timeline(folder / "ring.timeline.parquet")
    make_model(folder / "time.model.json")
    made = make_chain(folder)
    scaled().save(folder / "app@scaled.prediction.json")
    return made


def scaled(**rows):
    """A prediction of 1 s on one core, 0.6 s on two, 0.5 s on four, measured on two; ``rows``: of the target."""

    def row(cores, seconds, measured=None):
        return {
            "cores": cores,
            "seconds": seconds,
            "interval_seconds": [0.8 * seconds, 1.3 * seconds],
            "measured_seconds": measured,
        }

    base = {"machine": "base", "seconds": 1.0, "projected": False, "scaling": [row(4, 0.5), row(1, 1.0), row(2, 0.6, 0.7)]}
    target = {"machine": "target", "seconds": 1.0, "projected": True, "scaling": rows.get("target")}
    about = {"schema": "convolver.prediction", "version": 1, "inputs": {}, "command": ["app"]}
    return Prediction({**about, "base": base, "target": target, "cpu_ratio": 1.0, "measured_seconds": None, "error": None})


BASE, TIMES, OTHER = "base.machine.json", "app@base.times.parquet", "app@target.times.parquet"
INPUTS = {
    "maps": [BASE, TIMES],
    "roofline": [BASE, "app.sig.parquet", TIMES],
    "blocks": [TIMES, OTHER],
    "parity": ["app@target.prediction.json"],
    "ranks": ["ring.timeline.parquet"],
    "scaling": ["time.model.json"],
    "threads": ["app@scaled.prediction.json"],
    "misses": ["app.hits.parquet"],
}
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture
def draw(chain, convolver):
    return lambda view, path, *more: convolver("plot", view, *map(chain.path, INPUTS[view]), "-o", path, *more)


def test_every_view_has_an_example_here():
    assert set(INPUTS) == set(VIEWS)


@pytest.mark.parametrize(
    ("view", "suffix"), [*((view, ".png") for view in sorted(INPUTS)), ("ranks", ".svg"), ("maps", ".pdf"), ("blocks", ".pdf")]
)
def test_every_view_is_drawn_and_every_format_written(chain, tmp_path, view, suffix, draw):
    path = tmp_path / f"picture{suffix}"
    result = draw(view, path)
    assert result.returncode == 0, result.stderr
    assert path.read_bytes().startswith(STARTS[suffix])


def test_the_same_input_gives_the_same_bytes_and_dark_differs_from_light(chain, tmp_path, draw):
    pictures = []
    for name, more in (("a", []), ("b", []), ("c", ["--dark"])):
        draw("maps", tmp_path / f"{name}.svg", *more)
        pictures.append((tmp_path / f"{name}.svg").read_bytes())
    assert pictures[0] == pictures[1] != pictures[2]


@pytest.mark.parametrize("look", [style.LIGHT, style.DARK])
def test_adjacent_series_differ_in_gray_and_all_stand_out_from_the_paper(look):
    def gray(color):
        return sum(w * int(color[i : i + 2], 16) for w, i in ((0.299, 1), (0.587, 3), (0.114, 5)))

    for one, other in zip(look.series, look.series[1:], strict=False):
        assert abs(gray(one) - gray(other)) > 12, (one, other)
    assert min(abs(gray(color) - gray(look.paper)) for color in look.series) > 70


def test_circles_on_the_maps_have_areas_in_the_ratio_of_the_blocks_times(chain):
    with style.drawing(style.LIGHT):
        axes = maps.draw(chain.base, chain.prediction.base, style.LIGHT).axes[0]
    sizes = axes.collections[0].get_sizes()
    shares = [point["share"] for point in maps.block_points(chain.base, chain.prediction.base)]
    assert np.allclose(sizes / sizes[0], np.array(shares) / shares[0])
    assert 0.9 < sum(shares) <= 1


def test_bars_of_blocks_are_said_to_be_user_time_also_where_system_time_is_known(tmp_path):
    chain = make_chain(tmp_path, call_seconds=(2e-5, 2e-5), system=CALLS)
    base, target = chain.prediction.base, chain.prediction.target
    assert chain.prediction.cpu_ratio < 1.99  # that of user time is 2
    with style.drawing(style.LIGHT):
        axes = blocks.draw(base, target, style.LIGHT).axes[0]
    assert axes.get_title(loc="left").endswith("user time, base / target = 2")
    assert axes.get_xlabel() == "predicted user time"


def test_a_block_lies_where_the_curves_give_its_rate(chain):
    for point in maps.block_points(chain.base, chain.prediction.base):
        wild = point["random_share"]
        size = maps.equivalent_working_set(chain.base, wild, point["memory_rate"])
        unit, random = (chain.base.curve(kind).at(size).seconds_per_reference for kind in ("unit", "random"))
        ends = [chain.base.curve("unit").points[index].working_set_bytes for index in (0, -1)]
        if ends[0] * 1.01 < size < ends[1] * 0.99:
            assert 1 / ((1 - wild) * unit + wild * random) == pytest.approx(point["memory_rate"], rel=1e-6)


def test_a_block_is_drawn_inside_the_level_of_its_lines(chain):
    import polars as pl

    from convolver.convolution.block_times import BlockTimes

    first, *farther = [level.size_bytes for level in chain.base.hierarchy]
    second = farther[0] if farther else math.inf
    rows = chain.prediction.base.table.with_columns(data_set_location=pl.lit("L2"))
    points = maps.block_points(chain.base, BlockTimes(rows, chain.prediction.base.header))
    assert points
    assert all(first < point["working_set_bytes"] < second for point in points)


def test_rooflines_fall_with_distance_and_no_block_beats_the_flat_roof(chain):
    rates = list(roofline.bandwidths(chain.base).values())
    assert rates == sorted(rates, reverse=True)
    points = roofline.block_points(chain.signature, chain.prediction.base)
    assert points
    assert max(point["flop_rate"] for point in points) <= max(roofline.peaks(chain.base).values()) * 1.001


def test_bars_are_ordered_by_what_decides_the_ratio_and_add_up_to_the_whole(chain):
    table = blocks.compared(chain.prediction.base, chain.prediction.target)
    changes = table["change_seconds"].abs().to_list()
    assert changes == sorted(changes, reverse=True)
    assert table["base_seconds"].sum() == pytest.approx(chain.prediction.base.seconds)
    assert table["target_seconds"].sum() == pytest.approx(chain.prediction.target.seconds)


def test_miss_ratios_fall_from_level_to_level(chain):
    for rows in misses.points(chain.hits).values():
        ratios = [row["miss_ratio"] for row in rows]
        assert ratios == sorted(ratios, reverse=True)
        assert 0 < ratios[0] <= 1


def test_variants_of_one_level_make_a_curve_by_ways_and_policy():
    sides = [
        synthetic.machine(f"m: L2 {size} {ways}", levels=(synthetic.LEVELS[0], Level(level="L2", size_bytes=size, ways=ways)))
        for ways in (8, 16)
        for size in (1 << 18, 1 << 16, 1 << 17)
    ]
    rates = synthetic.hit_rates([(0, 1000, 200, 100)], *sides)
    assert misses.varied_level(rates) == "L2"
    curves = misses.variants(rates, "L2")
    assert set(curves) == {"8 ways, lru", "16 ways, lru"}
    assert [row["size_bytes"] for row in curves["8 ways, lru"]] == [1 << 16, 1 << 17, 1 << 18]
    assert curves["8 ways, lru"][0]["miss_ratio"] == pytest.approx(0.1)


def test_parity_needs_a_measured_time(chain, tmp_path):
    unmeasured = make_chain(tmp_path, measured_seconds=None)
    with pytest.raises(PredictionError, match="--measured"):
        parity.draw([unmeasured.prediction], style.LIGHT)
    with style.drawing(style.LIGHT):
        drawn = parity.draw([chain.prediction], style.LIGHT)
    assert "1 prediction: " in drawn.axes[0].get_title(loc="left")


def test_a_timeline_without_intervals_says_how_to_record_them(chain):
    timeline = Timeline.load(chain.path("ring.timeline.parquet"))
    with pytest.raises(PredictionError, match="replay with"):
        ranks.draw(Timeline(timeline.ranks, timeline.intervals.clear(), timeline.messages.clear()), style.LIGHT)


def test_a_rank_timeline_draws_every_interval_and_message(chain):
    timeline = Timeline.load(chain.path("ring.timeline.parquet"))
    with style.drawing(style.LIGHT):
        axes = ranks.draw(timeline, style.LIGHT).axes[0]
    lengths = (timeline.intervals["end"] - timeline.intervals["begin"]).to_list()
    assert len(axes.patches) == sum(length > 0 for length in lengths)
    assert len(axes.collections[0].get_segments()) == timeline.messages.height


def test_a_scaling_curve_runs_beyond_the_data_and_wants_one_free_feature(chain):
    model = Model.load(chain.path("time.model.json"))
    grid = scaling.points(model, "p", {}, None)
    assert grid["p"][-1] == pytest.approx(2 * model.domain["p"][1])
    with style.drawing(style.LIGHT):
        lines = {line.get_label(): line for line in scaling.draw(model, style.LIGHT).axes[0].lines}
    inside, beyond = lines[f"{model.kind} model"], lines["extrapolated"]
    assert inside.get_xdata()[-1] == beyond.get_xdata()[0] <= model.domain["p"][1] < beyond.get_xdata()[1]
    assert beyond.is_dashed()
    with pytest.raises(UsageError, match="leave one of them out"):
        scaling.axis_of(model, {"p": 2.0})


def test_elapsed_time_over_cores_stands_beside_its_ideal_and_measured():
    with style.drawing(style.LIGHT):
        axes = threads.draw([scaled()], style.LIGHT).axes[0]
    curve, ideal, measured = (dict(zip(*line.get_data(), strict=True)) for line in axes.lines)
    assert curve == {1: 1.0, 2: 0.6, 4: 0.5}
    assert ideal == {1: 1.0, 2: 0.5, 4: 0.25}
    assert measured == {2: 0.7}
    (band,) = axes.collections
    assert band.get_datalim(axes.transData).get_points()[:, 1] == pytest.approx([0.4, 1.3])
    with pytest.raises(PredictionError, match="--scaling"):
        threads.draw([Prediction({**scaled().document, "base": {"machine": "base", "seconds": 1.0}})], style.LIGHT)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mops", "x"], "choose one of"),
        (["maps", TIMES], "this view takes"),
        (["maps", BASE, "app.hits.parquet"], "this view takes"),
        (["blocks", TIMES], "this view takes"),
        (["maps", TIMES], "a machine profile (name or .machine.json) is missing."),
        (["maps", BASE, OTHER], "not of 'base'"),
    ],
)
def test_wrong_inputs_are_named_in_one_sentence(chain, tmp_path, words, sentence, convolver):
    view, *files = words
    found = [str(chain.folder / file) if "." in file else file for file in files]
    result = convolver("plot", view, *found, "-o", tmp_path / "a.png")
    assert result.returncode == 2
    assert sentence.lower() in result.stderr.lower()
    assert not (tmp_path / "a.png").exists()


def test_no_picture_is_overwritten_and_unknown_formats_are_refused(chain, tmp_path, draw):
    path = tmp_path / "a.png"
    path.write_text(json.dumps("mine"))
    assert draw("maps", path).returncode == 2
    assert path.read_text() == '"mine"'
    assert draw("maps", tmp_path / "a.jpeg").returncode == 2
    assert draw("maps", path, "--force").returncode == 0


def test_labels_of_close_points_hide_neither_each_other_nor_a_point():
    from convolver.plotting import labels, style

    with style.drawing(style.LIGHT):
        drawn, axes = style.figure()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        points = [(0.5, 0.5), (0.505, 0.5), (0.5, 0.51), (0.51, 0.51), (0.5, 0.5), (0.9, 0.1)]
        labels.place_labels(axes, [(*point, f"L{at}", style.LIGHT.ink) for at, point in enumerate(points)], style.LIGHT)
        drawn.draw_without_rendering()
        boxes = [text.get_bbox_patch().get_window_extent() for text in axes.texts]
        places = axes.transData.transform(points)
    assert len(boxes) == len(points)
    assert not [(a, b) for a in range(6) for b in range(a) if boxes[a].overlaps(boxes[b])]
    assert not [at for at, box in enumerate(boxes) for x, y in places if box.contains(x, y)]


def test_a_block_that_costs_no_memory_time_does_not_stretch_the_picture(tmp_path):
    import polars as pl

    from convolver.convolution.block_times import BlockTimes
    from convolver.plotting import maps_picture as maps
    from convolver.plotting import style

    chain = make_chain(tmp_path)
    times = chain.prediction.base
    first = pl.int_range(pl.len()) == 0
    fast = times.table.with_columns(memory_rate=pl.when(first).then(1e16).otherwise("memory_rate"))
    with style.drawing(style.LIGHT):
        drawn = maps.draw(chain.base, BlockTimes(fast, times.header), style.LIGHT)
        (axes,) = drawn.axes
    fastest = max(1 / point.seconds_per_reference for _, curve in maps.shown_curves(chain.base) for point in curve.points)
    assert axes.get_ylim()[1] < 10 * fastest
    assert "top edge" in drawn.get_supxlabel()
