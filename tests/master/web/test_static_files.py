"""The files that pages load: what is vendored is what its package has; no page needs more than its policy allows."""

from __future__ import annotations

import hashlib
import re

from gosched.master.web.rendering import FOLDER as TEMPLATES
from gosched.master.web.static_files import FOLDER, PREFIX, read_files

VENDOR = FOLDER / "vendor"
_LINE = re.compile(r"^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \| ([0-9a-f]{64}) \|$", re.MULTILINE)


def test_vendored_files_are_those_of_their_packages_and_each_has_its_licence() -> None:
    listed = {file: digest for file, _, _, _, digest in _LINE.findall((VENDOR / "VENDORED.md").read_text())}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.min.*")}
    assert there == listed
    for name in ("htmx", "idiomorph", "uPlot"):
        assert "permission" in (VENDOR / f"{name}.LICENSE").read_text().lower()


def test_the_address_of_a_file_changes_with_its_content() -> None:
    files = read_files()
    page = files["page.css"]
    assert page.url == f"{PREFIX}/{hashlib.sha256(page.content).hexdigest()[:12]}/page.css"
    assert {"live.js", "actions.js", "theme.js", "charts.js", "vendor/htmx.min.js", "vendor/uPlot.min.css"} <= set(
        files
    )
    assert not [name for name in files if name.endswith(("LICENSE", ".md"))]


def test_no_template_has_a_script_a_style_or_a_handler_in_it_and_none_loads_from_elsewhere() -> None:
    for path in TEMPLATES.glob("*.html"):
        text = path.read_text()
        assert not re.search(r"""\sstyle=|<style|\son[a-z]+=["']|javascript:""", text), path.name
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path.name
        assert not re.search(r"""(src|href)=["']https?:""", text), path.name
        assert "|safe" not in text, path.name
