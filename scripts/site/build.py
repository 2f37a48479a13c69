"""Build the site: `python scripts/site/build.py FOLDER`. Any warning, such as a link that leads nowhere, is an error."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from links import BrokenLink
from staging import stage


def build(folder: Path) -> int:
    """Sphinx's exit code: 0 if the site is there and nothing was to be warned of."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        try:
            stage(source)
        except BrokenLink as error:
            print(error, file=sys.stderr)
            return 1
        strict = ["--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "--write-all"]
        return build_main([*strict, "-b", "html", "-d", f"{scratch}/doctrees", str(source), str(folder)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    raise SystemExit(build(parser.parse_args().folder))
