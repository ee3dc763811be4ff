"""One name for one thing: files of modules in the whole tree, and public classes of the package, have names of their own."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("convolver", "csrc", "probes", "tests", "tools", "examples")
SHARED = {"__init__.py", "__main__.py", "conftest.py"}


def _repeated(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}


def test_no_two_modules_have_one_file_name():
    places = defaultdict(list)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            if path.name not in SHARED:
                places[path.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    assert _repeated(places) == {}


def test_no_two_public_classes_have_one_name():
    places = defaultdict(list)
    for path in (ROOT / "convolver").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert _repeated(places) == {}
