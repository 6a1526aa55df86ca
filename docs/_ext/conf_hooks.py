"""What sphinx-gallery calls between examples."""

from __future__ import annotations

from typing import Any

STYLE = {
    "figure.figsize": (6.4, 3.8),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Give every example the same look."""
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE)
