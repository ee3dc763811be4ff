"""Sphinx's settings: `make docs` builds the pages (build/docs/html) and the manual page (build/docs/man), warnings are errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from convolver import __version__

project = "Convolver"
release = version = __version__
copyright = "the authors of Convolver"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "commands"]
exclude_patterns = ["extensions"]

html_theme = "furo"
html_title = f"Convolver {version}"

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"

man_pages = [("manual", "convolver", "predict how fast a program runs on a machine", "the authors of Convolver", 1)]
