"""The public names exist, load on first use, and nothing else is public."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import convolver as cv
from convolver.machine.catalog import list_machines
from convolver.mpi.cfg import read_cfg

NAMES = [
    "Analysis",
    "ConvolverError",
    "HitRates",
    "MachineProfile",
    "Prediction",
    "SamplingPlan",
    "Signature",
    "analyze",
    "convolve",
    "cpu_ratio",
    "fit",
    "load",
    "marked",
    "predict",
    "probe",
    "replay",
    "simulate",
    "simulate_arrays",
    "trace",
]


def test_the_public_names_are_these():
    assert cv.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_resolves_and_is_documented(name):
    assert getattr(cv, name).__doc__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cv.nonsense


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: cv.convolve(None, "server-hbm"), "NoneType is no analysis"),
        (lambda: cv.convolve("cg.cvt", "server-hbm"), "str is no analysis"),
        (lambda: cv.cpu_ratio(None, None), "NoneType are no block times"),
        (lambda: cv.replay(None, "server-hbm"), "NoneType is no recorded run"),
        (lambda: cv.replay("nowhere.parquet", "server-hbm"), "nowhere.parquet"),
        (lambda: cv.load(3), "int is no path"),
        (lambda: cv.trace(["true"], output="t.cvt", sampling="full"), "'full' is no sampling plan; give for example"),
        (lambda: cv.trace(["true", 20], output="t.cvt"), "20 cannot be a word of a command"),
        (lambda: cv.trace(["true", "2\0"], output="t.cvt"), r"cannot be a word of a command"),
        (lambda: cv.SamplingPlan(mode="ful").check(), "Invalid enum value 'ful'"),
        (lambda: cv.SamplingPlan(interval="1M").check(), "Expected `int`, got `str` - at `\\$.interval`"),
        (lambda: cv.simulate("nowhere.cvt", "server-hbm"), "nowhere.cvt cannot be read"),
    ],
)
def test_what_is_something_else_is_refused_in_one_sentence(call, what):
    with pytest.raises(cv.ConvolverError, match=what):
        call()


def test_the_first_example_names_a_bundled_machine():
    (target,) = re.findall(r'target="(.*?)"', cv.__doc__)
    assert target in {entry.name for entry in list_machines()}


def test_import_loads_no_heavy_library():
    code = "import sys, convolver; print([m for m in ('numpy', 'polars', 'scipy', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_help_loads_no_heavy_library():
    code = (
        "import sys, contextlib, io\n"
        "from convolver.cli.app import app\n"
        "sys.argv = ['convolver', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    app()\n"
        "print([m for m in ('numpy', 'polars', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_prediction_loads_no_library_for_object_files():
    code = "import sys, convolver.cli.predict_steps; print([m for m in ('elftools', 'scipy', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_reference_page_holds_every_public_name_and_every_kind_of_artifact():
    from convolver.artifact_kinds import KINDS

    page = (Path(__file__).parents[2] / "docs/api.md").read_text()
    shown = set(re.findall(r"^\.\. auto\w+:: (\S+)", page, re.M))
    kinds = {kind.reader.rpartition(":")[2] for kind in KINDS.values()}
    assert {f"convolver.{name}" for name in NAMES} - {"convolver.ConvolverError"} <= shown
    assert kinds <= {name.rpartition(".")[2] for name in shown}


def test_a_run_is_replayed_on_the_path_of_a_configuration():
    golden = Path(__file__).resolve().parents[1] / "golden" / "dimemas"
    (trace, *_) = sorted(golden.glob("*.dim"))
    config = Path(__file__).resolve().parents[2] / "examples" / "cluster.cfg"
    read = cv.replay(trace, read_cfg(config)).summary()
    assert cv.replay(trace, config).summary() == cv.replay(str(trace), str(config)).summary() == read


def test_words_of_a_command_may_be_paths(tmp_path):
    traced = cv.trace([Path("/bin/true")], output=tmp_path / "t.cvt", sampling=cv.SamplingPlan(mode="counts"))
    assert traced.header["command"] == ["/bin/true"]
