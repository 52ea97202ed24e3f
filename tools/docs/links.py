"""Checks a built site: `python -m tools.docs.links FOLDER` names broken links, and what a page loads from elsewhere.

Sphinx checks the links that are written in Markdown. This checks the pages as a browser gets them: those of the theme,
of generated HTML and of images, too. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a page loads by itself, and so must have beside it.
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "object": "data"}


class Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "href" in values and values.get("rel") not in ("canonical", "index", "search"):
            self.loaded.append(values["href"])
        elif values.get(LOADED.get(tag, "")):
            self.loaded.append(values[LOADED[tag]])


@cache
def read(path: Path) -> Page:
    """Return what a file of the site links to."""
    page = Page()
    page.feed(path.read_text())
    return page


def broken(site: Path) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for each file that is loaded from another site."""
    for path in sorted(site.rglob("*.html")):
        page = read(path)
        for link in [*page.links, *page.loaded]:
            wrong = _wrong(path, link, loaded=link in page.loaded)
            if wrong:
                yield f"{path.relative_to(site)}: {link}: {wrong}"


def _wrong(path: Path, link: str, *, loaded: bool) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "loaded from another site" if loaded and parts.scheme != "data" else ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in read(target).anchors:
        return "no such section"
    return ""


def main(site: Path) -> int:
    found = list(broken(site))
    pages = len(list(site.rglob("*.html")))
    print("\n".join(found) if found else f"{pages} pages, every link leads somewhere", file=sys.stderr)
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
