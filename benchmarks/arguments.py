"""What every benchmark is called with."""

from __future__ import annotations

import argparse


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments of a benchmark that is described by its docstring: with `--json` it prints one object, and nothing else."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser
