"""Imports between packages go left to right only, in the order that ARCHITECTURE.md states."""

import ast
from pathlib import Path

import convolver

ORDER = (
    "errors units foreign_text | _native | shapes destination artifact_kinds schema artifacts locations progress fanout | "
    "machine signature | tracing probing simulation | execution | analyzing | convolution | calibration | mpi | "
    "modeling | pipeline | plotting | reporting | validating checking | cli"
)
RANK = {name: rank for rank, group in enumerate(ORDER.split("|")) for name in group.split()}
ROOT = Path(convolver.__file__).parent


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


def test_every_package_has_a_place_in_the_order():
    packages = {
        path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - {"__init__", "__main__", "_programs"} <= set(RANK)
