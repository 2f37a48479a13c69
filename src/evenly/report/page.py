"""Pages: one self-contained HTML file each, with no script and nothing loaded from elsewhere."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from evenly.report.numbers import plain


def shown(value: object) -> str:
    """A value as people read it: numbers short, sentences as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return plain(value) if abs(value) < 10.0 else f"{value:,.1f}".removesuffix(".0")


_PAGES = Environment(
    loader=PackageLoader("evenly.report"), autoescape=select_autoescape(["html"]), undefined=StrictUndefined, trim_blocks=True
)
_PAGES.filters["shown"] = shown


def rendered(template: str, **values: object) -> str:
    """The page of a template, which extends `base.html`. Bytes of a path that are no text become question marks."""
    return _PAGES.get_template(f"{template}.html").render(values).encode("utf-8", "replace").decode()
