"""--drift: whether rows are like those that a model was trained on."""

from __future__ import annotations

from ..settings.flags import given_values
from ..utils import show
from .common import LAYOUT, load_network, print_json

DRIFTED = 3  # the exit code where something drifted


def drift_command(flags) -> int:
    """Tell which columns of --dataset differ from those of the rows that --model was
    trained on; return the exit code."""
    net = load_network(flags)

    from ..test.drift import check_profiles, drift_of

    check_profiles(net, flags.model)

    from ..data.dataset import name_of
    from ..data.loading import load_for

    ds = load_for(
        net,
        flags.dataset,
        **given_values(flags, LAYOUT),
        labelled=False,
        memory=flags.memory,
        tells_unseen=False,
    )
    drift = drift_of(net, ds, has_predictions=False)
    if flags.report:
        from ..pages import model_page, page

        page.write(
            flags.report, model_page.page_of_drift(drift, flags.model, name_of(ds))
        )
    if flags.json:
        print_json({"model": flags.model, **drift.to_dict()})
    else:
        _report(drift, name_of(ds))
    if drift.drifted:
        return DRIFTED
    return 0


def _report(drift, name: str) -> None:
    """Print what a person should know of rows, of the data of this name."""
    lines = drift.lines()
    if not drift.drifted:
        lines.insert(0, _undrifted(drift))
    show(f"{name}, {drift.rows:,} rows: {lines[0]}")
    for line in lines[1:]:
        show(line)


def _undrifted(drift) -> str:
    """Return what is said of rows without drift."""
    if drift.columns:
        return drift.alike_text
    return "too few to compare, only values far outside those of training are told"
