"""The profile of the likelihood: what it draws is what its frame says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.figures.paper_figures import likelihood_profile


@pytest.fixture(scope="module")
def profile() -> pd.DataFrame:
    frames = []
    for name, best in (("definition", 1.0), ("link", -2.0)):
        slope = best + np.linspace(-4, 4, 81)
        drop = (slope - best) ** 2
        p = np.where(np.abs(slope - best) < 1.5, 0.4, 0.01)
        frames.append(pd.DataFrame({"construct": name, "title": name.title(), "slope": slope, "drop": drop, "p": p}))
    return pd.concat(frames, ignore_index=True)


def test_every_rating_has_a_panel_with_its_curve_its_band_and_a_line_at_zero(profile: pd.DataFrame) -> None:
    figure = likelihood_profile(profile, "made up")
    assert [axes.get_title() for axes in figure.axes] == ["Definition\n+1.00", "Link\n-2.00"]
    for axes, (_, own) in zip(figure.axes, profile.groupby("construct"), strict=True):
        curve, zero = axes.lines
        np.testing.assert_allclose(curve.get_ydata(), -own["drop"])
        assert set(zero.get_xdata()) == {0}
        band = axes.patches[0]
        kept = own[own.p > 0.05].slope
        assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((kept.min(), kept.max()))
        low, high = axes.get_xlim()
        assert low <= 0 <= high
    figure.draw_without_rendering()
    label, legend = figure.axes[0].xaxis.label, figure.legends[0]
    assert not label.get_window_extent().overlaps(legend.get_window_extent())


def test_one_rating_is_drawn_alone_and_a_rejected_slope_everywhere_has_no_band(profile: pd.DataFrame) -> None:
    alone = profile[profile.construct == "link"].assign(p=0.001)
    figure = likelihood_profile(alone, "")
    assert len(figure.axes) == 1
    assert not figure.axes[0].patches
