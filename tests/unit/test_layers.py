"""Imports between packages go left to right only, in the order that ARCHITECTURE.md states."""

import ast
from pathlib import Path

import convolver

ROOT = Path(convolver.__file__).parent
PAGE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
ORDER = PAGE.partition("## Layers")[2].partition("\n- ")[0].partition(":\n\n")[2]
RANK = {name: rank for rank, group in enumerate(ORDER.split("|")) for name in group.split()}


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("convolver."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("convolver."))
    return names


def test_no_package_imports_from_its_right():
    wrong = []
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if own in RANK:
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in _imported(path) if RANK.get(name, 0) > RANK[own]]
    assert not wrong


def test_every_package_has_a_place_in_the_order_and_is_there():
    packages = {
        path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - {"__init__", "__main__", "_programs"} == set(RANK)
