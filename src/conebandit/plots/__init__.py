"""Pictures, from labels and arrays. The only room that imports matplotlib (``pip install 'conebandit[plot]'``)."""

try:
    from conebandit.plots.banded import bands
    from conebandit.plots.cones import cone_figure, distances_figure, draw_cone, gap_figure
    from conebandit.plots.curves import (
        PowerCurve,
        SlopeCurve,
        SlopePanel,
        hausdorff_figure,
        power_law_figure,
        rounds_figure,
        shift_effect_figure,
        slopes_figure,
    )
    from conebandit.plots.evaluation import evaluation_figure
    from conebandit.plots.segments import segments_figure
    from conebandit.plots.shift import Estimates, evidence_figure, overlap_figure, rho_curves_figure, rho_figure
    from conebandit.plots.style import save
except ModuleNotFoundError as error:  # pragma: no cover
    if error.name != "matplotlib":
        raise
    raise ModuleNotFoundError("Pictures need matplotlib: pip install 'conebandit[plot]'.") from None

__all__ = [
    "Estimates",
    "PowerCurve",
    "SlopeCurve",
    "SlopePanel",
    "bands",
    "cone_figure",
    "distances_figure",
    "draw_cone",
    "evaluation_figure",
    "evidence_figure",
    "gap_figure",
    "hausdorff_figure",
    "overlap_figure",
    "power_law_figure",
    "rho_curves_figure",
    "rho_figure",
    "rounds_figure",
    "save",
    "segments_figure",
    "shift_effect_figure",
    "slopes_figure",
]
