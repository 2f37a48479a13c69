"""The pages of the site, from the files of the repository and from the code."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from examples import notebook_page, script_page
from links import moved_links
from navigation import START, sections, toctree
from papers import FOLDER as PAPERS
from papers import paper_pages
from reference import FOLDER as REFERENCE
from reference import linked_names, reference_pages

ROOT = Path(__file__).parents[2]
GALLERY = "gallery"
TOP = {
    "README.md": START,
    "ARCHITECTURE.md": "architecture",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "examples/README.md": GALLERY,
}
"""Files outside of docs/ that are pages; a link to the README leads to the first page."""


def stage(folder: Path) -> None:
    """Write the sources of the site into an empty folder."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.md", "*.ipynb", "figures", "__pycache__"))
    pages = _pages()
    for page, text in pages.items():
        path = folder / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _pages() -> dict[str, str]:
    files = _files()
    places = {source: f"{page}.md" for source, page in files.items()} | _others()
    pages = {}
    for source, page in files.items():
        if source == "README.md":  # the first page is docs/index.md
            continue
        pages[page] = moved_links(_text(source), source=source, page=f"{page}.md", pages=places)
    pages[PAPERS], of_papers = paper_pages(pages[PAPERS])
    pages[PAPERS] += "\n" + toctree(of_papers)
    pages |= of_papers
    reference = reference_pages()
    pages["names"] = linked_names(pages["names"], f"{REFERENCE}/") + "\n" + toctree(reference)
    pages[GALLERY] += "\n" + toctree(page for page in pages if page.startswith(f"{GALLERY}/"))
    trees = (toctree(of_title, caption=title) for title, of_title in sections(pages, [PAPERS, REFERENCE, GALLERY]).items())
    pages[START] += "\n" + "\n".join(trees)
    return pages | reference


def _files() -> dict[str, str]:
    """The page that each file becomes."""
    of_docs = {path.relative_to(ROOT / "docs") for kind in ("*.md", "*.ipynb") for path in (ROOT / "docs").rglob(kind)}
    files = {f"docs/{path.as_posix()}": path.with_suffix("").as_posix() for path in sorted(of_docs)}
    shown = sorted(path for kind in ("*.py", "*.ipynb") for path in (ROOT / "examples" / GALLERY).glob(kind))
    return files | TOP | {path.relative_to(ROOT).as_posix(): f"{GALLERY}/{path.stem}" for path in shown}


def _others() -> dict[str, str]:
    """Files that pages show or offer, where they are: pictures, and settings to take along."""
    docs = ROOT / "docs"
    found = [path.relative_to(docs).as_posix() for path in (*docs.glob("_static/*.svg"), *docs.glob("*.yml"))]
    return {f"docs/{path}": path for path in found}


def _text(source: str) -> str:
    text = (ROOT / source).read_text("utf-8")
    match PurePosixPath(source).suffix:
        case ".ipynb":
            return notebook_page(text)
        case ".py":
            return script_page(source, text)
        case _:
            return text
