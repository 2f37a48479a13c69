"""Compiles the kernels that most tests use while something else is checked: else each process of the tests compiles them."""

from __future__ import annotations

from evenly.lab.papers.hone import bench as hone
from evenly.lab.papers.posg import bench as posg
from evenly.lab.papers.posg.settings import Synthetic


def main() -> None:
    posg.Bench(1).measure(Synthetic(alpha=1.0))
    hone.Bench(1).measure(hone.Link(2, 10))


if __name__ == "__main__":
    main()
