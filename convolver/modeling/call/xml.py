"""The XML form of records with its document type definition, as the framework paper's CALL kept them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

from convolver.errors import FormatError
from convolver.modeling.call.records import Quantity, Record

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
    Path(path).write_text(head + xml.tostring(root, encoding="unicode") + "\n")


def read_xml(path: str | Path) -> list[Record]:
    """Read records from XML; raises :class:`FormatError` for anything that breaks the definition or declares entities."""
    try:
        text = Path(path).read_text()
        if "<!ENTITY" in text:
            raise FormatError(f"{path} declares entities, which no record needs.")
        root = xml.fromstring(text)
        if root.tag != "experiments":
            raise FormatError(f"{path} holds '{root.tag}', not 'experiments'.")
        return [_record(node) for node in root]
    except (OSError, UnicodeDecodeError, xml.ParseError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path} is no XML of records: {error}.") from error


def _record(node: xml.Element) -> Record:
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
