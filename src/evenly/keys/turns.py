"""What came later, of rows whose number nobody knows before the last: sums in three turns, cut afterwards.

Rows are numbered from 1, and row i is in octave floor(log2 i). Kept are the sums of three turns: the octaves 0, 3, 6, ...,
those one above, and those two above. The newest octaves weigh most, whatever the end: once it is known, the turn of the last
octave, or it and the turn before, is what came later, a quarter to about three quarters of the rows. A turn also has rows from
three octaves before, an eighth as many as a whole octave: that much of what is called later is not.
"""

from __future__ import annotations

from collections.abc import Sequence

TURNS = 3
_LEAST_LATER = 0.25
_FROM_BEFORE = 4.0
"""So many times as many rows are in the turn before the last as there are earlier ones in the last."""


def later_turns(sums: Sequence[float], last_octave: int) -> tuple[int, ...]:
    """Which of the turns came later, of rows that end in this octave. None of them if all are of one octave."""
    total = float(sum(sums))
    if last_octave < 1 or total <= 0.0:
        return ()
    newest, before = last_octave % TURNS, (last_octave - 1) % TURNS
    of_last_octave = sums[newest] - sums[before] / _FROM_BEFORE
    return (newest,) if of_last_octave >= _LEAST_LATER * total else (before, newest)
