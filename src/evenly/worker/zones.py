"""Time zones as Spark calls them, for Python."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})")


@lru_cache(maxsize=16)
def zone_of(name: str) -> tzinfo:
    """A time zone by its region or its offset; ValueError for names that Java alone knows (PST, GMT+8)."""
    if name in ("UTC", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"Python knows no time zone {name!r}, which is the session's: give datetimes with a zone of their own, or name a "
            "region or an offset in spark.sql.session.timeZone, such as 'America/Los_Angeles' or '+08:00'"
        ) from error
