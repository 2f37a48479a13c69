"""Whether a Python that is started anew, with the executable of this one, finds the package that runs here."""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path


def found_by_new_pythons(init: Path) -> bool:
    """Whether the package of this `__init__.py` is installed, as it is or by a link, or on PYTHONPATH.

    Where it is only on the path of this process, or in a zip, the answer is no.
    """
    folder = init.parent.parent
    if not init.is_file():
        return False
    sites = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        sites.append(Path(site.getusersitepackages()))
    listed = [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(each)]  # noqa: PTH117
    return folder in (*sites, *listed) or any(folder in _linked(each) for each in sites)


def _linked(folder: Path) -> list[Path]:
    """What the .pth files of a site add to the path."""
    lines = [line for file in sorted(folder.glob("*.pth")) for line in file.read_text("utf-8", "replace").splitlines()]
    return [Path(line.strip()) for line in lines if line.strip() and not line.startswith(("import ", "import\t", "#"))]
