"""Write the measured tables and the picture into the documents: `python scripts/figures/write.py [--take PRINTED …]`.

A table stands between `<!-- figure NAME -->` and `<!-- end of figure -->`, and is made of docs/figures/NAME.json; the tables
`results` of the README and `which` of docs/which.md are made of several. `--take FILE` first takes what a benchmark printed
with `--json` as its figure.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from choosing import which
from picture import picture
from tables import SHORT, TABLES, Records, results
from taking import take

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"
PICTURE = ROOT / "docs" / "_static" / "busy.svg"
_MARKED = re.compile(r"(<!-- figure (?P<name>[a-z]+) -->\n)(?:(?!<!--).)*(<!-- end of figure -->)", re.DOTALL)


def measured() -> dict[str, Records]:
    """The records of each figure."""
    return {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["results"] for name in TABLES}


def documents() -> list[Path]:
    """What may have tables in it."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str, figures: dict[str, Records]) -> str:
    """The text with all of its tables as the figures have them."""
    made = {name: table(figures[name]) for name, table in TABLES.items()} | {
        "results": results(figures),
        "which": which(figures),
    }
    made |= {name: table(figures[of]) for name, (of, table) in SHORT.items()}
    return _MARKED.sub(lambda found: f"{found[1]}{made[found['name']]}\n{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, nargs="*", default=[], metavar="PRINTED")
    parser.add_argument("--measured", default="one machine of 2 cores", help="on which machine what is taken was measured")
    options = parser.parse_args()
    for printed in options.take:
        print(take(printed, FOLDER, options.measured))
    figures = measured()
    for path in documents():
        before = path.read_text("utf-8")
        if (after := filled(before, figures)) != before:
            path.write_text(after, "utf-8")
            print(path.relative_to(ROOT))
    PICTURE.write_text(picture(figures["demo"]), "utf-8")


if __name__ == "__main__":
    main()
