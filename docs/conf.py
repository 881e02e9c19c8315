"""The site: Sphinx reads the guides (Markdown) and the docstrings of the installed package."""

import sys
from collections import defaultdict
from pathlib import Path

from sphinx.application import Sphinx

import ackwell

sys.path.insert(0, str(Path(__file__).parent))

from figures import write_figures, write_page
from pages import write_pages

project = "ackwell"
author = "The ackwell project"
release = version = ackwell.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc", "sphinx_design"]
exclude_patterns = ["_build", "_templates"]
# A name in single backticks is code, in docstrings as in the guides.
default_role = "literal"
# Each class begins with a table of its members; each member follows with all it says.
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# What an extra brings is not needed to read about it.
autodoc_mock_imports = ["pulsar"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
linkcheck_timeout = 60

html_theme = "furo"
# Furo's own underlines the names of modules, as if they were links.
pygments_dark_style = "github-dark"
html_title = f"ackwell {release}"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "source_repository": "https://github.com/ackwell/ackwell",
    "source_branch": "main",
    "source_directory": "docs/",
}

html_extra_path = ["llms.txt"]

templates_path = ["_templates"]
# Those of the theme, and the versions.
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}

# Drawn from the records and written from the code each time; a test compares them with what is committed.
RECORDS = Path(__file__).parents[1] / "benches/record"
write_figures(RECORDS, Path(__file__).parent / "images")
write_page(RECORDS, Path(__file__).parent)
write_pages(Path(__file__).parent)


def show_rules_of_a_cursor(app: Sphinx) -> None:
    """Show the inherited members of a cursor, whose rules are in its base class, and of no other class."""
    app.config.numpydoc_show_inherited_class_members = defaultdict(bool, {"ackwell.Cursor": True})


def setup(app: Sphinx) -> None:
    """Set what numpydoc takes and Sphinx does not: a dictionary with a default, after the check of types."""
    app.connect("builder-inited", show_rules_of_a_cursor)
