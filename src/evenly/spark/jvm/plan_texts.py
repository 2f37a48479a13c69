"""What a plan's text may be missing."""

from __future__ import annotations

import re

_CUT = re.compile(r"\ATruncated plan of \d+|\.\.\. \d+ more characters\Z")


def is_cut(text: str) -> bool:
    """Whether the text of a plan ends before the plan does, as a setting may say (`spark.sql.maxPlanStringLength`)."""
    return _CUT.search(text) is not None
