"""The site's settings, for Sphinx: `make docs` builds it from the Markdown pages of this folder (ADR 0070)."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from gosched import __version__

DOCS = Path(__file__).resolve().parent
REPOSITORY = "https://github.com/gosched/gosched/blob/main"

project = "gosched"
copyright = "the gosched authors"
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

# Headings are anchors as on GitHub, so that a link works in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
myst_links_external_new_tab = False

html_theme = "furo"
html_title = f"gosched {release}"
html_static_path = ["_static"]
html_css_files = ["gosched.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# An indented block is output or a sketch; a fenced one names its language.
highlight_language = "none"


def link_to_repository(_app: Sphinx, page: str, source: list[str]) -> None:
    """Replace links to folders and pages of the repository that are not of the site by their addresses.

    Links to other files stay: Sphinx copies the files into the site.
    """

    def address(link: re.Match[str]) -> str:
        target = (DOCS / page).parent.joinpath(link[1]).resolve()
        outside = target.is_relative_to(DOCS.parent) and not target.is_relative_to(DOCS)
        if not outside or not target.exists() or (target.is_file() and target.suffix != ".md"):
            return link[0]
        return f"]({REPOSITORY}/{target.relative_to(DOCS.parent)}{link[2]})"

    source[0] = re.sub(r"\]\(([^)#:\s]+)((?:#[^)\s]*)?)\)", address, source[0])


def setup(app: Sphinx) -> None:
    """Register what is done to each page before it is parsed."""
    app.connect("source-read", link_to_repository)
