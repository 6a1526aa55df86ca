"""The leaves of a local kernel machine over two of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer._runtime.validation import positive_integer
from mercer.maps import LocalKernel
from mercer.plots.base import Display, dress, feature_names, label_of, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PartitionDisplay"]

# Pale, so that points are seen on them; cuts are drawn as well, so that no two leaves that share a
# colour are taken for one.
_COLOURS = ("#BFDCEC", "#F7DDA8", "#B8E0D2", "#EBCFE0", "#D9D9D9", "#F4C3A0", "#DDEBF5", "#E6E2A3")
_SHADE = 0.84  # brightness of where two leaves answer
_CUT = (0.35, 0.35, 0.35)
_POINTS = 500  # rows that are drawn, and that say where the middle is


class PartitionDisplay(Display):
    """Leaves of one tree over two inputs, with the other inputs at their medians.

    In the overlap of several leaves their colours are mixed in proportion to their weights, and
    darker. Create it with :meth:`from_estimator`.

    Parameters
    ----------
    leaves : ndarray of int of shape (resolution, resolution)
        Leaf with the largest weight at each grid point; the second input increases along axis 0.
    shares : ndarray of shape (resolution, resolution)
        Weight of that leaf, 1 outside overlaps.
    colours : ndarray of shape (resolution, resolution, 3)
        Colours of the image.
    extent : tuple of 4 floats
        Least and largest value of the first input, then of the second.
    names : tuple of 2 str
        Names of the two inputs.
    points : ndarray of shape (n_points, 2)
        Training rows, as the two inputs.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        Image of the leaves.
    points_ : matplotlib Line2D
        Marks of the training rows.
    {ax_}

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LocalKernelRegressor
    >>> from mercer.plots import PartitionDisplay
    >>> X = np.random.default_rng(0).uniform(size=(400, 2))
    >>> model = LocalKernelRegressor(leaf_size=100, n_trees=1, random_state=0).fit(X, X[:, 0])
    >>> display = PartitionDisplay.from_estimator(model)
    >>> len(np.unique(display.leaves)) == model.n_leaves_
    True
    """

    def __init__(
        self,
        leaves: NDArray,
        shares: NDArray,
        colours: NDArray,
        extent: tuple[float, float, float, float],
        names: tuple[str, str],
        points: NDArray,
    ):
        self.leaves, self.shares, self.colours = leaves, shares, colours
        self.extent, self.names, self.points = extent, names, points

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        features: tuple[int | str, int | str] = (0, 1),
        tree: int = 0,
        resolution: int = 400,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PartitionDisplay:
        """Draw the leaves of a fitted local machine.

        Parameters
        ----------
        estimator : LocalKernelRegressor or LocalKernelClassifier
            Fitted local machine, or a pipeline or automatic model that ends with one. Inputs are
            those of the machine.
        features : pair of int or str, default=(0, 1)
            Indices or names of two inputs.
        tree : int, default=0
            Index of the tree.
        resolution : int, default=400
            Number of grid points along each input.
        {ax, image_options}

        Returns
        -------
        PartitionDisplay

        Raises
        ------
        TypeError, ValueError
            If the estimator is no fitted local machine, or has no such input or tree.
        """
        machine = machine_of(estimator)
        map_ = getattr(machine, "feature_map_", None)
        known = "LocalKernelRegressor or LocalKernelClassifier"
        if not isinstance(map_, LocalKernel):
            raise TypeError(f"estimator must be a fitted {known}; got {type(estimator).__name__}.")
        names = feature_names(machine, map_.n_features_in_)
        first, second = _places(features, names)
        _check_tree(tree, len(map_.partition_.roots))
        rows = _sample(map_.landmarks_)
        side = positive_integer(resolution, "resolution")
        grid = _grid(rows, first, second, side)
        leaves, shares, colours = _pictured(map_, grid, tree)
        scaler = machine.scaler_
        corners = grid[[0, -1]] if scaler is None else scaler.inverse_transform(grid[[0, -1]])
        points = rows if scaler is None else scaler.inverse_transform(rows)
        display = cls(
            *(leaves.reshape(side, side), shares.reshape(side, side)),
            colours.reshape(side, side, 3),
            tuple(np.concatenate([corners[:, first], corners[:, second]]).tolist()),
            (names[first], names[second]),
            points[:, [first, second]],
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, *, ax: Axes | None = None, **kwargs: Any) -> PartitionDisplay:
        """Draw the figure from the stored data.

        Parameters
        ----------
        {ax, image_options}

        Returns
        -------
        PartitionDisplay
            This display.
        """
        axes = self._begin(ax)
        picture = self.colours * np.where(self.shares < 1 - 1e-9, _SHADE, 1.0)[..., None]
        changes = np.zeros(self.leaves.shape, dtype=bool)
        changes[:, 1:] |= self.leaves[:, 1:] != self.leaves[:, :-1]
        changes[1:] |= self.leaves[1:] != self.leaves[:-1]
        picture[changes] = _CUT
        looks: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "none"}
        self.image_ = axes.imshow(picture, extent=self.extent, **(looks | kwargs))
        marks: dict[str, Any] = {"marker": "o", "markersize": 2.2, "linestyle": "none"}
        marks |= {"color": "black", "alpha": 0.55, "markeredgewidth": 0}
        (self.points_,) = axes.plot(*self.points.T, **marks)
        dress(axes)
        axes.grid(visible=False)
        axes.set_xlabel(label_of(self.names[0]), parse_math=False)
        axes.set_ylabel(label_of(self.names[1]), parse_math=False)
        n_leaves = len(np.unique(self.leaves))
        title = f"{n_leaves} {'leaf' if n_leaves == 1 else 'leaves'}; darker where several answer"
        axes.set_title(title, fontsize=9, loc="left")
        return self


def _places(features: Any, names: list[str]) -> tuple[int, int]:
    """Numbers of two different inputs."""
    places = [names.index(f) if isinstance(f, str) and f in names else f for f in features]
    whole = all(isinstance(p, (int, np.integer)) and 0 <= p < len(names) for p in places)
    if len(places) != 2 or not whole or places[0] == places[1]:
        raise ValueError(
            f"features must be two different inputs of the {len(names)} there are; got "
            f"{features!r}."
        )
    return int(places[0]), int(places[1])


def _check_tree(tree: int, n_trees: int) -> None:
    if not 0 <= tree < n_trees:
        raise ValueError(f"tree must be from 0 to {n_trees - 1}; got {tree!r}.")


def _sample(landmarks: Any) -> NDArray:
    """Some of the rows, evenly spread over their order, as the machine sees them."""
    some = landmarks[:: max(1, landmarks.shape[0] // _POINTS)][:_POINTS]
    return np.asarray(some.toarray() if hasattr(some, "toarray") else some)


def _grid(rows: NDArray, first: int, second: int, side: int) -> NDArray:
    """Rows over the range of two inputs and a little more, the others at their medians."""
    ends = [(rows[:, j].min(), rows[:, j].max()) for j in (first, second)]
    margins = [0.04 * (high - low) or 0.5 for low, high in ends]
    ends = [(low - m, high + m) for (low, high), m in zip(ends, margins, strict=True)]
    across, up = (np.linspace(low, high, side) for low, high in ends)
    grid = np.tile(np.median(rows, axis=0), (side * side, 1)).astype(rows.dtype)
    grid[:, first], grid[:, second] = np.tile(across, side), np.repeat(up, side)
    return grid


def _pictured(map_: LocalKernel, grid: NDArray, tree: int) -> tuple[NDArray, NDArray, NDArray]:
    """For every row of a grid its leaf of one tree, the leaf's share and a mixture of colours."""
    partition = map_.partition_
    first = 0 if tree == 0 else partition.first_trees(tree).n_leaves
    last = partition.first_trees(tree + 1).n_leaves
    palette = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in _COLOURS])
    n = len(grid)
    leaves, shares, colours = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros((n, 3))
    for route in partition.routes(grid):
        if first <= route.leaf < last:
            own = route.shares * len(partition.roots)
            colours[route.rows] += own[:, None] * palette[(route.leaf - first) % len(palette)]
            more = own > shares[route.rows]
            leaves[route.rows[more]], shares[route.rows[more]] = route.leaf - first, own[more]
    return leaves, shares, np.clip(colours, 0, 1)
