"""The files that pages load: scripts and styles, our own and vendored, read once.

Invariant: an address holds the digest of its content, so that browsers keep a file for ever and never an old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gosched.master.web.security import HEADERS

FOLDER = Path(__file__).parent / "static"
PREFIX = "/ui/static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_KEPT = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file and where it is found."""

    #: Such as /ui/static/0123456789ab/page.css.
    url: str
    content: bytes
    media_type: str


def read_files(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Return the files by their names, such as `vendor/htmx.min.js`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _TYPES:
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:12]
            found[name] = StaticFile(url=f"{PREFIX}/{digest}/{name}", content=content, media_type=_TYPES[path.suffix])
    return found


class StaticFiles:
    """Serves the files."""

    def __init__(self, files: Mapping[str, StaticFile]) -> None:
        self._files = files
        self._by_url = {file.url: file for file in files.values()}

    def url(self, name: str) -> str:
        """Return the address of a file. Raises KeyError for one that there is not."""
        return self._files[name].url

    async def serve(self, request: Request) -> Response:
        """Answer with a file."""
        file = self._by_url.get(request.url.path)
        if file is None:
            return PlainTextResponse("there is no such file\n", status_code=404, headers=HEADERS)
        headers = {**HEADERS, "Cache-Control": _KEPT}
        return Response(file.content, media_type=file.media_type, headers=headers)
