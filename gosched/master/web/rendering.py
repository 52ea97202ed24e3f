"""Pages as HTML: Jinja2 with escaping on, and the frame around each page.

Invariant: HTML is made in a thread from a view that was built on the event loop, which owns the state and is not to
wait for it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gosched.master.web import bars, text
from gosched.master.web.query import Query
from gosched.master.web.static_files import StaticFiles

FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around a page."""

    #: The part of the site that the page belongs to.
    section: str
    #: (name, address) of each part.
    sections: tuple[tuple[str, str], ...]
    #: Of the page itself, with its query.
    url: str
    query: Query
    #: Only what changes is asked for, not what stands around it.
    fragment: bool
    live: bool
    master: str
    #: Empty: this master knows none.
    leader: str
    revision: int
    now_ms: int
    #: Where the other masters serve HTTP, by id.
    others: dict[str, str]
    version: str

    @property
    def layout(self) -> str:
        return "fragment.html" if self.fragment else "page.html"

    @property
    def others_json(self) -> str:
        return json.dumps(self.others)


class Rendering:
    """Makes HTML."""

    def __init__(self, files: StaticFiles) -> None:
        self._jinja = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._jinja.filters.update(text.FILTERS)
        self._jinja.globals.update(static=files.url, percent=text.percent, bar=bars.bar)

    async def html(self, template: str, frame: Frame, view: object) -> bytes:
        """Return a page as UTF-8."""
        return await asyncio.to_thread(self.html_now, template, frame, view)

    async def bare(self, template: str, view: object) -> bytes:
        """Return a page that has no frame, for those who are not logged in."""
        return await asyncio.to_thread(lambda: self._jinja.get_template(template).render(view=view).encode())

    def html_now(self, template: str, frame: Frame, view: Any) -> bytes:
        return self._jinja.get_template(template).render(frame=frame, view=view).encode()
