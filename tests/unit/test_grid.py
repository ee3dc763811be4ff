"""Tables on terminals of any width: numbers stay whole, words give way."""

import pytest

from convolver.reporting.console import out
from convolver.reporting.grid import LEAST, WIDEST, grid

NUMBERS = [f"{number}23.4567 ms" for number in range(1, 7)]
NAME, SHORT = "name_of_a_function_that_is_long", "short.c:1"


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a terminal of a width shows of a table with two columns of names."""

    def show(width: int, widest: int | None = WIDEST) -> list[str]:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(width))
        table = grid(["function", "line"], ["n"] * len(NUMBERS), "Title", widest)
        table.add_row(NAME, SHORT, *NUMBERS)
        out().print(table)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return show


@pytest.mark.parametrize("width", [10, 80, 110, 120, 150])
@pytest.mark.parametrize("widest", [None, WIDEST])
def test_numbers_are_whole_at_any_width(shown, width, widest):
    assert all(number in shown(width, widest)[2] for number in NUMBERS)


def test_a_terminal_without_escapes_shows_whole_numbers_too(shown, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert all(number in shown(80)[2] for number in NUMBERS)


def test_words_are_cut_no_more_than_needed(shown):
    assert shown(150)[2].startswith(f"{NAME}  {SHORT}  ")
    narrower = shown(110)
    assert len(narrower[2]) <= 110
    assert f"…  {SHORT}  " in narrower[2], "the longest words are cut first"
    assert len(narrower[2].split("…")[0]) > LEAST
    assert shown(10)[2].startswith(f"{NAME[: LEAST - 1]}…  {SHORT}  ")


def test_the_next_text_has_the_terminal_s_width(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    console = out()
    wide = grid([], ["n"])
    wide.add_row("1" * 60)
    console.print(wide)
    console.print("word " * 20)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "1" * 60
    assert max(map(len, lines[2:])) <= 40


@pytest.mark.parametrize(("width", "terminal", "drawn"), [(30, True, False), (60, True, True), (30, False, True)])
def test_a_picture_is_left_out_where_a_terminal_is_too_narrow(width, terminal, drawn, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    table = grid(["part"], ["seconds"])
    table.add_column("", no_wrap=True)
    table.add_row("kernel", "1.23 ms", 25 * "█")
    out().print(table)
    text = capsys.readouterr().out
    assert "1.23 ms" in text
    assert ("█" in text) == drawn
