"""No module needs another that needs it: neither at the top of a file, nor inside a function, nor for types only."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imports(root: Path) -> dict[str, set[str]]:
    """Return the modules that each module of a package imports; with a module, those of the packages that it lies in."""
    files = {".".join(path.relative_to(root.parent).with_suffix("").parts): path for path in root.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        places = name.split(".")
        graph[name] = {".".join(places[:depth]) for depth in range(1, len(places))}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= (whole & files.keys()) or {node.module}
        graph[name] &= files.keys()
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_through_a_function_is_found(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from package.second import two\n")
    (package / "second.py").write_text("def two():\n    from package import first\n    return first\n")
    assert set(cycle(imports(package))) == {"package.first", "package.second"}
    (package / "second.py").write_text("")
    assert cycle(imports(package)) == []


def test_the_package_has_no_import_cycle():
    graph = imports(ROOT / "convolver")
    assert len(graph) > 200
    assert cycle(graph) == []
