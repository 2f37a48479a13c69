"""Splitting groupings, one algorithm a file: a heavy key may be on several instances, so a merge step must follow."""

from evenly.grouping.splitting.cam import CAM
from evenly.grouping.splitting.d_choices import DChoices
from evenly.grouping.splitting.dkg_pkg import DKGPKG
from evenly.grouping.splitting.partial_key import PKG
from evenly.grouping.splitting.w_choices import WChoices

__all__ = ["CAM", "DKGPKG", "PKG", "DChoices", "WChoices"]
