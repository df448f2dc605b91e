"""The site of these pages: `nox -s docs` builds it into out/site."""

from importlib.metadata import version as version_of

project = "Penstock"
author = "The Penstock developers"
copyright = author
version = release = version_of("penstock")

extensions = [
    "myst_parser",  # pages are Markdown
    "sphinx.ext.autodoc",  # API pages are docstrings
    "sphinx.ext.napoleon",  # whose sections are NumPy's
    "sphinx.ext.viewcode",  # and lead to the source
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/**"]
nitpicky = False  # types in signatures name what has no page of its own

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # the anchors that a repository's page has
suppress_warnings = ["myst.strikethrough"]

default_role = "code"  # single backticks in docstrings
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False

html_theme = "furo"
html_theme_options = {"light_css_variables": {"code-font-size": "0.72rem"}}  # 100 columns fit
html_title = f"Penstock {version}"
html_show_sphinx = False
html_copy_source = False
