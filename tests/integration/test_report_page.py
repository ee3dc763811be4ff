"""The HTML report in a real headless Chromium: it opens from a file, shows, sorts, filters, chooses, and changes its look."""

import html
import json
import re

import pytest

from convolver.reporting.html.page import render
from convolver.reporting.report_input import gather
from tests.artifact_chain import make_chain, make_objects, make_timeline
from tests.chromium import dump_dom, find_chromium, screenshot

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium: apt install chromium")

AFTER = """<script>
window.addEventListener("error", event => document.body.setAttribute("data-error", event.message));
const wait = setInterval(() => {
  if (!window.report) return;
  clearInterval(wait);
  const said = {}, report = window.report, rows = () => [...document.querySelectorAll("#table-view tbody tr:not(.spacer)")];
  const column = at => rows().map(row => row.cells[at].textContent);
  said.first = column(0)[0];
  report.table.by("function"); said.ascending = column(0).slice(0, 20);
  report.table.by("function"); said.descending = column(0).slice(0, 20);
  report.table.by("seconds");
  report.table.view.scrollTop = 1000 * 27; report.table.draw(); said.existing = rows().length;
  said.middle = rows()[0].getAttribute("aria-rowindex");
  report.table.filter("f3"); said.filtered = [...new Set(column(0))];
  said.status = document.getElementById("shown").textContent;
  report.table.filter("");
  const circle = document.querySelector("circle.block"); circle.focus();
  said.tip = document.getElementById("tip").textContent;
  circle.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  said.line = document.querySelector("#source-view tr.chosen")?.textContent;
  document.querySelectorAll("#machines button")[1].click(); said.machine = report.machine.name;
  said.pressed = [...document.querySelectorAll("#machines button")].map(button => button.getAttribute("aria-pressed"));
  said.heads = [...document.querySelectorAll("#table-view thead button")].map(button => button.textContent);
  const before = document.documentElement.dataset.theme; document.getElementById("theme").click();
  said.themes = [before, document.documentElement.dataset.theme];
  said.unnamed = [...document.querySelectorAll("button, input, select, [tabindex]")].filter(one =>
    !one.textContent.trim() && !one.getAttribute("aria-label") && !one.labels?.length).length;
  const objects = () => [...document.querySelectorAll("#objects-table tbody tr")].map(row => row.cells[0].textContent);
  said.objects = objects();
  const last = document.querySelector("#objects-table thead th:last-child button"); last.focus();
  last.click(); said.byMisses = objects(); last.click(); said.otherWay = objects();
  said.sorted = [last.closest("th").getAttribute("aria-sort"), document.activeElement === last];
  said.rects = document.querySelectorAll("#timeline-view rect").length;
  document.body.setAttribute("data-said", JSON.stringify(said));
}, 5);
</script></body>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    make_timeline(folder / "ring.timeline.parquet")
    make_objects(folder, make_chain(folder, blocks=3000).hits)
    (folder / "page.html").write_text(render(gather([str(folder)], [folder])))
    return folder


@pytest.fixture(scope="module")
def said(folder):
    path = folder / "driven.html"
    path.write_text((folder / "page.html").read_text().replace("</body>", AFTER))
    dom = dump_dom(path)
    assert not re.search(r'data-error="([^"]*)"', dom)
    return json.loads(html.unescape(re.search(r'data-said="([^"]*)"', dom)[1]))


def test_the_page_opens_from_a_file_and_shows_the_hottest_block_first(said):
    assert said["first"] == "f0"


def test_columns_sort_both_ways(said):
    assert said["ascending"] == ["f0"] * 20
    assert said["descending"] == ["f6"] * 20


def test_of_3000_rows_only_the_visible_exist(said):
    assert said["existing"] < 100
    assert 950 < int(said["middle"]) < 1002


def test_the_filter_keeps_what_it_names_and_says_how_much(said):
    assert said["filtered"] == ["f3"]
    assert re.match(r"42[89] of 3000 blocks: [\d.]+ % of the time", said["status"])


def test_a_circle_reached_by_keyboard_explains_itself_and_shows_its_source_line(said):
    assert "app.c:3" in said["tip"]
    assert "references per second" in said["tip"]
    assert "double dot(void)" in said["line"]


def test_the_other_machine_shows_its_ratio_to_the_first(said):
    assert said["machine"] == "target"
    assert said["pressed"] == ["false", "true"]
    assert "base / this" in said["heads"]


def test_the_look_changes_and_every_control_has_a_name(said):
    assert set(said["themes"]) == {"light", "dark"}
    assert said["unnamed"] == 0


def test_data_objects_can_be_read_without_a_script_and_sorted_by_keyboard(folder, said):
    labels = ["malloc in make <rows> (app.c:3)", "stack of thread 1"]
    assert said["objects"] == said["byMisses"] == labels
    assert said["otherWay"] == labels[::-1]
    assert said["sorted"] == ["ascending", True]
    static = (folder / "page.html").read_text()
    assert "malloc in make &lt;rows&gt; (app.c:3)" in static
    assert "97.6 % (40.0 %)" in static


def test_without_data_objects_the_page_says_how_to_get_them(tmp_path):
    make_chain(tmp_path)
    assert "convolver trace --data-objects" in render(gather([str(tmp_path)]))


def test_the_ranks_are_drawn(said):
    assert said["rects"] > 20


def test_light_and_dark_pictures_differ(folder, tmp_path):
    for look in ("light", "dark"):
        screenshot(folder / "page.html", tmp_path / f"{look}.png", f"#theme={look}")
    pictures = [(tmp_path / f"{look}.png").read_bytes() for look in ("light", "dark")]
    assert pictures[0] != pictures[1]
    assert min(map(len, pictures)) > 50_000
