"""Splitting groupings, one algorithm per file: a heavy key may be on several instances, so a merge step must follow."""

from evenly.lab.rivals.splitting.cam import CAM
from evenly.lab.rivals.splitting.d_choices import DChoices
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.rivals.splitting.w_choices import WChoices

__all__ = ["CAM", "DKGPKG", "PKG", "DChoices", "WChoices"]
