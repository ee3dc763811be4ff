"""Files of records: the runtime's JSON lines, and XML with its definition, as the framework paper's CALL kept them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

import msgspec

from convolver.errors import FormatError
from convolver.modeling.call.records import Quantity, Record
from convolver.outputs import append_line, save_text

PATTERN = "convolver-call.*.jsonl"
"""Names of the files that the runtime writes."""
DTD = """\
<!ELEMENT experiments (experiment*)>
<!ELEMENT experiment (parameter*, metric*, formula?, trouble?)>
<!ATTLIST experiment
  region CDATA #REQUIRED
  run    CDATA #REQUIRED
  rank   CDATA #REQUIRED
  size   CDATA #REQUIRED
  host   CDATA #REQUIRED
  start  CDATA #REQUIRED
  end    CDATA #REQUIRED>
<!ELEMENT parameter (#PCDATA)>
<!ATTLIST parameter name CDATA #REQUIRED>
<!ELEMENT metric (#PCDATA)>
<!ATTLIST metric name CDATA #REQUIRED unit CDATA #REQUIRED>
<!ELEMENT formula (#PCDATA)>
<!ELEMENT trouble (#PCDATA)>
"""
"""Times are Unix seconds; the texts of parameter and metric are numbers."""


def read_records(source: str | Path) -> list[Record]:
    """Return the records of a folder of the runtime's files, of one such file, or of an XML file."""
    path = Path(source)
    if path.suffix == ".xml":
        return read_xml(path)
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files:
        raise FormatError(f"{path} holds no record ({PATTERN}); run the instrumented program with CONVOLVER_CALL_DIR={path}.")
    records = []
    for file in files:
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{file} cannot be read: {error}.") from error
        for number, line in enumerate(lines, 1):
            records.append(_of_line(file, number, line))
    return records


def _of_line(file: Path, number: int, line: str) -> Record:
    try:
        return msgspec.json.decode(line, type=Record, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(f"{file}, line {number} is no record: {error}; the program may have been stopped there.") from error


def append_record(record: Record, path: str | Path) -> None:
    """Append a record as a JSON line, as the runtime does."""
    append_line(path, msgspec.json.encode(record))


def write_xml(records: Sequence[Record], path: str | Path) -> None:
    """Write records as XML with the definition inside the file, so that any validating reader can check it."""
    root = xml.Element("experiments")
    for record in records:
        fields = {name: str(getattr(record, name)) for name in ("region", "run", "rank", "size", "host")}
        times = {name: repr(getattr(record, name)) for name in ("start", "end")}
        node = xml.SubElement(root, "experiment", fields | times)
        for name, value in record.parameters.items():
            xml.SubElement(node, "parameter", name=name).text = repr(value)
        for name, measured in record.metrics.items():
            xml.SubElement(node, "metric", name=name, unit=measured.unit).text = repr(measured.value)
        for name in ("formula", "trouble"):
            if getattr(record, name):
                xml.SubElement(node, name).text = getattr(record, name)
    xml.indent(root, " ")
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE experiments [\n{DTD}]>\n'
    save_text(path, head + xml.tostring(root, encoding="unicode") + "\n")


def read_xml(path: str | Path) -> list[Record]:
    """Read records from XML; raises :class:`FormatError` for anything that breaks the definition or declares entities."""
    try:
        text = Path(path).read_text()
        if "<!ENTITY" in text:
            raise FormatError(f"{path} declares entities, which no record needs.")
        root = xml.fromstring(text)
        if root.tag != "experiments":
            raise FormatError(f"{path} holds '{root.tag}', not 'experiments'.")
        return [_of_element(node) for node in root]
    except (OSError, UnicodeDecodeError, xml.ParseError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path} is no XML of records: {error}.") from error


def _of_element(node: xml.Element) -> Record:
    known = {"parameter", "metric", "formula", "trouble"}
    if node.tag != "experiment" or any(child.tag not in known for child in node):
        raise ValueError(f"an element in '{node.tag}' is unknown")
    get = node.attrib
    lacking = [name for name in ("region", "run", "rank", "size", "host", "start", "end") if name not in get]
    if lacking:
        raise ValueError(f"an experiment lacks the attribute '{lacking[0]}'")
    return Record(
        region=get["region"],
        run=get["run"],
        rank=int(get["rank"]),
        size=int(get["size"]),
        host=get["host"],
        start=float(get["start"]),
        end=float(get["end"]),
        parameters={child.attrib["name"]: float(child.text or "") for child in node.iter("parameter")},
        metrics={c.attrib["name"]: Quantity(float(c.text or ""), c.attrib["unit"]) for c in node.iter("metric")},
        formula=node.findtext("formula") or "",
        trouble=node.findtext("trouble") or "",
    )
