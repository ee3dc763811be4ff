"""JSON, TOML and names from outside: strict where they are data, and every byte survives where they are names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.cli.app import DEFECT, explain
from convolver.errors import FormatError
from convolver.foreign_text import SHOW, decode_json, decode_toml, json_text, visible
from convolver.mpi.cfg import read_cfg
from convolver.mpi.time_independent import read_ti
from convolver.schema import canonical


@pytest.mark.parametrize(
    "text",
    [
        *(b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[1e999]", b'["\\ud800"]', b'["\\udcff", NaN]', b'["\\udcff", 1e999]'),
        *(
            b'["\\udcff\\ud801"]',
            b"[" * 100000,
            b'["\\udcff",' + b"[" * 100000,
            b'"\xff"',
            b"",
            b"{",
            b'{"a":1}x',
            b"\xef\xbb\xbf{}",
        ),
        b"[1" + b"0" * 5000 + b"]",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_no_strict_json_is_a_format_error(text):
    with pytest.raises(FormatError, match="here is not valid JSON"):
        decode_json(text, "here")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 50000, "a = nan", "a = inf", "a = 1e999", "a = 1" + "0" * 6000, b"\xff", "a", "a = 1\na = 2"]
)
def test_what_is_no_plain_toml_is_a_format_error(text):
    with pytest.raises(FormatError, match="here is not valid TOML"):
        decode_toml(text, "here")


@pytest.mark.parametrize("name", ["/dev/zero", "fifo", "a\0b", "gone", ""])
def test_only_files_are_read_that_a_file_names(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "index.txt").write_text(f"{name}\n" if name else ".\n")
    golden = Path(__file__).parents[1] / "golden" / "dimemas" / "point-00.cfg"
    (tmp_path / "a.cfg").write_text(f'{golden.read_text()}\n"configuration files" {{"", "", "{name or "."}", ""}};;\n')
    for read, file in ((read_cfg, "a.cfg"), (read_ti, "index.txt")):
        with pytest.raises(FormatError, match="which is no file"):
            read(tmp_path / file)


@given(st.lists(st.binary(max_size=8)), st.none() | st.just(1))
def test_names_of_any_bytes_survive_documents(names, indent):
    words = [os.fsdecode(name) for name in names]
    text = json_text({"command": words}, indent=indent)
    assert [os.fsencode(word) for word in decode_json(text.encode(), "here")["command"]] == names
    assert json.loads(text)["command"] == words
    canonical(words)
    for word in words:
        visible(word).encode()


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_values, st.integers(1, 4))
def test_indented_json_is_that_of_the_standard_library(value, indent):
    assert json_text(value, indent=indent) == json.dumps(value, ensure_ascii=False, indent=indent)


def test_a_name_is_shown_with_escapes():
    assert visible("ev\udce9l µ") == "ev\\xe9l µ"


def _main(what, **environment):
    program = f"import convolver.cli.app as a\na.app = lambda: {what}\na.main()"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, env={**os.environ, **environment}, encoding="utf-8"
    )


def test_charts_keep_their_width_in_an_encoding_without_their_signs():
    assert "██ ─●─ name…".encode("latin-1", SHOW) == b"## -o- name~"


def test_a_defect_is_one_sentence_with_how_to_report_it():
    done = _main("{}['x']")
    assert done.returncode == DEFECT == 70
    assert done.stderr.splitlines() == [
        f"convolver: {line}" if number == 0 else line
        for number, line in enumerate(done.stderr.removeprefix("convolver: ").splitlines())
    ]
    assert "KeyError: 'x'" in done.stderr
    assert "Please report it" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_traceback_comes_only_where_it_was_asked_for():
    assert "Traceback" in _main("{}['x']", CONVOLVER_TRACEBACK="1").stderr


def test_output_of_odd_names_is_escaped_and_no_error():
    done = _main("print('ev\\udce9l \\ud800')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "ev\\xe9l \\ud800\n")


def test_an_error_without_words_is_explained():
    assert "RuntimeError" in explain(RuntimeError())[0]
