"""The model-driven paper's slots for the application dataflows."""

from __future__ import annotations

from evenly.lab.papers.model_driven.bench import APPLICATION_DATAFLOWS, APPLICATION_RATES, MICRO, MICRO_RATES, Bench
from evenly.lab.papers.model_driven.slots import (
    LSA_RSM,
    LSA_RSM_PART,
    MBA_SAM,
    TEXT,
    Case,
    by_case,
    extras_of,
    slots_figure,
    slots_of,
)
from evenly.lab.papers.verdicts import Basis, Verdict, not_rerun, number, sentence
from evenly.report.figures import Curve, PaperFigure

SYNTHETIC = "which operators the application dataflows have is not published: they are chosen so that such sentences hold"
MOST_SLOTS = 65


def figure_applications(bench: Bench) -> PaperFigure:
    """Slots of LSA with RSM and MBA with SAM for the application dataflows."""
    verdicts = [*_counts(bench), *_sentences(bench)]
    published = {"grid": [Curve("+".join(LSA_RSM), (100,), (MOST_SLOTS,), published=True)]}
    title = "Slots for the application dataflows traffic, finance and grid"
    return slots_figure(bench, "slots-applications", title, APPLICATION_DATAFLOWS, APPLICATION_RATES, verdicts, published)


def _slots(bench: Bench, pair: tuple[str, str]) -> dict[Case, int]:
    return slots_of(bench, pair, APPLICATION_DATAFLOWS, APPLICATION_RATES)


def _counts(bench: Bench) -> list[Verdict]:
    lsa, part, mba = (_slots(bench, pair) for pair in (LSA_RSM, LSA_RSM_PART, MBA_SAM))
    return [
        number(
            "lsa+rsm-alone",
            "most slots at 100",
            published=float(MOST_SLOTS),
            measured=float(max(lsa.values())),
            within_pct=0.0,
            why=f"{TEXT}; grid's operators are chosen to come near it",
            basis=Basis.FIT,
        ),
        number(
            "lsa+rsm",
            "most slots at 100",
            published=float(MOST_SLOTS),
            measured=float(max(part.values())),
            within_pct=0.0,
            why="R-Storm with a thread counting its part of the allocation; grid's operators are chosen to come near it",
            basis=Basis.FIT,
        ),
        *(
            number(
                "finance",
                f"slots saved at {rate}",
                published=float(saved),
                measured=float(lsa["finance", rate] - mba["finance", rate]),
                within_pct=0.0,
                why=f"lost from the text; shape and operators of finance are both synthetic; with a thread counting its part "
                f"{part['finance', rate] - mba['finance', rate]}",
                basis=Basis.RECOVERED,
            )
            for rate, saved in ((50, 3), (100, 5))
        ),
    ]


def _sentences(bench: Bench) -> list[Verdict]:
    lsa, mba = (_slots(bench, pair) for pair in (LSA_RSM, MBA_SAM))
    fewer = {case: lsa[case] - mba[case] for case in lsa}
    rsm, part, sam = (
        extras_of(bench, pair, APPLICATION_DATAFLOWS, APPLICATION_RATES) for pair in (LSA_RSM, LSA_RSM_PART, MBA_SAM)
    )
    shares = {
        name: [
            one.extra_slots / one.allocation.slots
            for one in (bench.plan(flow, LSA_RSM, rate).placement for flow in flows for rate in rates)
        ]
        for name, flows, rates in (("micro", MICRO, MICRO_RATES), ("application", APPLICATION_DATAFLOWS, APPLICATION_RATES))
    }
    mean = {name: 100.0 * sum(found) / len(found) for name, found in shares.items()}
    doubled = {
        f"{pair} {name}": slots[name, 100] / slots[name, 50]
        for pair, slots in (("lsa+rsm-alone", lsa), ("mba+sam", mba))
        for name in APPLICATION_DATAFLOWS
    }
    spread = [lsa[name, 100] for name in APPLICATION_DATAFLOWS]
    grid = {
        pair: max(sum(one.cpu_pct for one in held) for held in bench.plan("grid", pair, 50).placement.by_slot.values())
        for pair in (LSA_RSM, MBA_SAM)
    }
    told: list[tuple[str, str, str, bool, str]] = [
        (
            "mba+sam",
            "MBA+SAM takes fewer slots for all, the least saving for finance",
            ", ".join(f"{name} {rate}: {lsa[name, rate]} and {mba[name, rate]}" for name, rate in lsa),
            all(saved > 0 for saved in fewer.values())
            and all(fewer["finance", at] == min(fewer[name, at] for name in APPLICATION_DATAFLOWS) for at in APPLICATION_RATES),
            "",
        ),
        (
            "all",
            "finance takes fewer slots than grid",
            by_case({case: slots for case, slots in lsa.items() if case[0] != "traffic"}),
            all(slots["finance", rate] < slots["grid", rate] for slots in (lsa, mba) for rate in APPLICATION_RATES),
            "with both pairs; how many is lost from the text; ",
        ),
        (
            "lsa+rsm-alone",
            "over twice the slots for traffic and grid",
            by_case({case: f"{lsa[case] / mba[case]:.2f}" for case in lsa}),
            all(lsa[case] > 2 * mba[case] for case in lsa if case[0] != "finance"),
            "",
        ),
        (
            "lsa+rsm-alone",
            "RSM needs extra slots for all application dataflows",
            by_case(rsm),
            all(count > 0 for count in rsm.values()),
            f"with a thread counting its part {by_case(part)}; ",
        ),
        (
            "sam",
            "SAM needs an extra slot only for grid at 50",
            by_case(sam),
            all((count > 0) == (case == ("grid", 50)) for case, count in sam.items()),
            "",
        ),
        (
            "lsa+rsm-alone",
            "RSM's extra slots are no much larger part than for the micro-dataflows",
            f"{mean['application']:.0f} % of what is allocated on average, {mean['micro']:.0f} % for the micro-dataflows",
            mean["application"] <= 1.25 * mean["micro"],
            "at most a quarter more; ",
        ),
        (
            "lsa+rsm-alone, mba+sam",
            "slots grow in proportion as the rate doubles, in most cases",
            ", ".join(f"{name} {times:.2f}" for name, times in doubled.items()),
            2 * sum(1.75 <= times <= 2.25 for times in doubled.values()) > len(doubled),
            "1.75 to 2.25 times, in more than half of the cases; ",
        ),
        (
            "lsa+rsm-alone",
            "unlike the micro-dataflows they take unlike numbers of slots at a rate",
            f"{', '.join(map(str, spread))} at 100",
            max(spread) > 1.15 * min(spread),
            "the most more than 15 % above the least; ",
        ),
        (
            "lsa+rsm-alone",
            "RSM puts more cpu on a slot of grid at 50 than it has, and SAM does not",
            f"the most cpu on a slot is {grid[LSA_RSM]:.0f} % and {grid[MBA_SAM]:.0f} %",
            grid[LSA_RSM] > 100.0 >= grid[MBA_SAM] - 1e-6,
            "",
        ),
    ]
    return [
        *(
            sentence(series, published=said, measured=found, holds=holds, why=why + SYNTHETIC, basis=Basis.FIT)
            for series, said, found, holds, why in told
        ),
        not_rerun(
            "all",
            published="how many slots fewer MBA+SAM takes, how many extra ones RSM needs, what rates the table operators have",
            why="the numbers are lost from the text, and so are the dataflows' drawings",
        ),
    ]
