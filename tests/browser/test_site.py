"""The site: built strictly, every link within it leads somewhere, no page asks for anything elsewhere or is too wide."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urldefrag

import pytest

import evenly
from browsing import needs_chromium
from documents import ROOT

SHOWN = ("index", "which", "measured", "keys", "names", "reference/Mapping", "papers/dkg", "gallery/skewed_join", "search")
FETCHING = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "srcset"), ("form", "action")}


class _Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif (tag, name) in FETCHING:
                self.fetched.append(value)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does it: any warning would be an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "scripts" / "site" / "build.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_to_a_place_that_there_is(pages):
    broken = []
    for path, page in pages.items():
        for link in {one for one in page.links if not re.match(r"https?:|mailto:", one)}:
            target, anchor = urldefrag(link)
            there = (path.parent / unquote(target)).resolve() if target else path
            if not there.is_file() or (anchor and there in pages and unquote(anchor) not in pages[there].ids):
                broken.append((path.name, link))
    assert broken == []


def test_no_page_asks_for_anything_elsewhere(site, pages):
    assert {one for page in pages.values() for one in page.fetched if re.match(r"(?:[a-z]+:)?//", one)} == set()
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)|@import[^;]*//", styles) == []


def test_every_public_name_has_a_page_with_its_example_and_can_be_searched(site):
    for name in evenly.__all__:
        assert 'class="highlight' in (site / "reference" / f"{name}.html").read_text("utf-8"), name
    assert "apply_by_cost" in (site / "searchindex.js").read_text("utf-8")


def test_every_page_of_the_repository_is_in_the_navigation(site):
    first = _Page((site / "index.html").read_text("utf-8"))
    listed = {unquote(urldefrag(link)[0]) for link in first.links}
    made = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert made - listed - {"index.html"} == set()


@pytest.fixture(scope="module")
def address(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@needs_chromium
@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_wider_than_the_window_and_no_request_leaves_a_page(browser, address, name):
    for width, dark in ((390, False), (1280, True)):
        with browser.page(f"{address}{name}.html", width=width, dark=dark) as page:
            assert page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.value("document.title")
            assert [one for one in page.errors() if "favicon" not in one] == []  # browsers ask for it by themselves
            assert {one for one in page.addresses() if not one.startswith((address, "data:"))} == set()
