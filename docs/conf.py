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
# A class begins with a table of its members. The full docstring of each member follows the table.
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# The docstrings of the topic store can be imported without the extra `pulsar`.
autodoc_mock_imports = ["pulsar"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
linkcheck_timeout = 60

html_theme = "furo"
# The default dark style of Furo underlines the names of modules as if they were links.
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
# The sidebars of the theme, and the list of the site's versions.
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

# Each build writes these figures and pages anew. A test compares them with the committed files.
RECORDS = Path(__file__).parents[1] / "benches/record"
write_figures(RECORDS, Path(__file__).parent / "images")
write_page(RECORDS, Path(__file__).parent)
write_pages(Path(__file__).parent)


def show_rules_of_a_cursor(app: Sphinx) -> None:
    """Show the inherited members of a cursor, whose rules are in its base class, and of no other class."""
    app.config.numpydoc_show_inherited_class_members = defaultdict(bool, {"ackwell.Cursor": True})


def setup(app: Sphinx) -> None:
    """Set a numpydoc option to a dictionary with a default. Sphinx checks the types of options before."""
    app.connect("builder-inited", show_rules_of_a_cursor)
