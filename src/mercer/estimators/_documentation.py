"""Entries of docstrings that several estimators share, written once."""

from __future__ import annotations

from mercer._runtime.documentation import documented, entries

__all__ = ["MACHINES", "SHARED", "documented", "entries"]

SHARED = entries(
    """
    gamma : float, array of shape (n_features,), "scale" or "median", default="scale"
        Factor of the distance in the kernel, > 0; larger values make narrower kernels. "scale"
        gives distance 1 to rows that differ by one standard deviation in every scaled input,
        "median" to rows at the median distance. An array has one factor per input.
    loss : str or a loss, default="squared"
        "squared", "huber", "correntropy", "quantile", "expectile", "poisson", "gamma", "tweedie" or
        an object of :mod:`mercer.losses`. "correntropy" ignores targets far from the prediction;
        "quantile" fits the median and ``losses.Quantile(0.9)`` the 0.9 quantile of the target, one
        model per level. "poisson", "gamma" and "tweedie" are half deviances of targets of at least
        0 with the mean exp(w . z + b), which ``predict`` returns. A name sets the width of the loss
        in units of the target's robust spread, the median absolute deviation / 0.6745; the
        width of an object, such as ``losses.Huber(2.0)``, is in units of y.
    fit_intercept : bool, default=True
        Whether the model has a constant term; the penalty leaves it out.
    scale : bool or groups of columns, default=True
        Whether inputs are scaled before the fit: to zero mean and unit variance, or to a largest
        absolute value of 1 if they are sparse. ``scaler_`` applies the same scaling at prediction.
        Columns that belong together, such as the points of ``preparation.on_circle``, share one
        scale if their positions or names are given as a group: ``scale=[[0, 1], [2, 3, 4]]`` scales
        all inputs, those of a group by the root of their mean variance.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers of the map; an int makes fits repeatable.
    scaler_ : transformer or None
        Scaler of the inputs, fitted; None if inputs are not scaled.
    intercept_ : float or ndarray of shape (n_outputs,)
        Constant term of the response, one per output.
    converged_ : bool
        Whether the solver reached ``tol``.
    alpha_ : float
        Strength of the penalty of the fit.
    n_features_in_ : int
        Number of input columns.
    ValueError, TypeError
        At ``fit``, if a setting or the data are invalid.
    MemoryError
        Before allocation, if the features would not fit into memory.
    KeyboardInterrupt
        After an interruption; the model keeps the last iterate and can predict.
    class_weight : dict, "balanced" or None, default=None
        Weight per class, multiplied into the sample weights. Weights are finite and at least 0;
        two classes or more need a positive one. A weight of 0 leaves out the rows of a class.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted: the order of the columns of responses and probabilities.
    kernel : str, kernel or None, default=None
        Kernel of a map given by name. None takes the default kernel of the map.
    """
)

# Entries of the two machines that solve for all features of a map.
MACHINES = SHARED | entries(
    """
    feature_map : str or map, default="auto"
        Map from inputs to features: "exact", "binning", "fourier", "nystroem", "linear", another
        name of :func:`mercer.maps.get`, or a map object. "exact" uses the kernel without
        approximation: the model is a sum of kernels at all rows, and the penalty is on the squared
        norm of that function instead of ``||w||^2``, as with ``Nystroem(whiten=False)``.
        "auto" is "exact" for up to 5000 rows in memory with the penalty "l2" and a squared or
        smooth convex loss, unless ``n_components``, ``gamma_path`` or a solver for features is
        given; else it is "binning". ``feature_map_`` is the map chosen. A map object has its own
        settings, such as ``feature_map__gamma``. Maps of texts, such as "ngrams", take sequences
        of strings. "nystroem" skips whitening from 5000 landmarks on; the model stays the same.
    kernel : str, kernel or None, default=None
        Kernel of a map given by name: "gaussian", "laplacian", "exponential", "cauchy" or
        an object of :mod:`mercer.kernels`. None takes the default kernel of the map. With
        "precomputed", X is the kernel matrix: (n_samples, n_samples) at fit, (n_samples, n_fit) at
        prediction, not scaled, with the map "exact" or "auto".
    n_components : int or None, default=None
        Number of grids, frequencies or landmarks of the map, >= 1; None takes the default of the
        map.
    penalty : "l2", "l1", "elastic-net" or a penalty, default="l2"
        Term added to the mean loss. "l2" is ``alpha / 2 * ||w||^2``; "l1" is ``alpha * ||w||_1``,
        which sets most weights to zero; "elastic-net" mixes both. A penalty object has its own
        alpha, and ``penalties.L2`` penalises ``||w||^2`` even for maps whose features are kernels
        at rows. ``penalties.RKHSNorm(alpha, jitter=...)`` is the squared norm of the function at
        the map's landmarks, plus ``jitter * ||w||^2``; it follows ``kernel`` and ``gamma``.
    alpha : float or None, default=None
        Strength of the penalty, >= 0. None means ``0.3 / n_samples`` (with weights, their sum
        instead of n_samples) for "l2", and 0.01 times the least strength that sets all weights to
        zero for the other penalties. The default for "l2" follows the unit of y: for "quantile" it
        is divided by the mean absolute deviation of y from its median, and for ``Tweedie(p)``
        multiplied by the mean of y to the power 2 - p.
    l1_ratio : float or None, default=None
        Share r of ``||w||_1`` in the mixture ``alpha * (r * ||w||_1 + (1 - r) / 2 * ||w||^2)``,
        from 0 to 1; None means 0.5. Only for "elastic-net".
    solver : "auto", "cholesky", "cg", "block", "newton-cg", "row-newton", "smoothing", "cd", \
"async" or a solver, default="auto"
        Algorithm that minimises the objective. "auto" chooses by sizes, loss and memory;
        ``solver_`` is its choice. A solver object has its own settings, such as the folder
        ``checkpoint`` of ``solvers.BlockCoordinateDescent``.
    tol : float, default=1e-2
        Norm of the gradient, relative to that of a constant model, at which an iterative solver
        stops. Smaller values rarely change predictions by more than their noise.
    max_iter : int, default=1000
        Largest number of iterations; the solver then stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Number of threads of the map and its products; None and -1 mean all that the process may
        use. Linear algebra uses the threads of its own library. Results depend on the number of
        threads by rounding only.
    warm_start : bool, default=False
        Whether the next fit reuses the scaler and the map and starts from the last coefficients. It
        does so only while the settings of the map stay the same; a gamma chosen from
        ``gamma_path`` is reused too.
    alphas : array of shape (n_alphas,) or None, default=None
        Strengths of the penalty to choose from, > 0; leave out ``alpha`` then. All strengths use
        the same features, and solvers of linear equations also share blocks, Gram matrices and
        products. ``path_`` has the solutions; ``at_alpha`` returns a model of one of them.
    gamma_path : array of shape (n_gammas,) or None, default=None
        Values of gamma to choose from, > 0, for the scaled inputs; leave out ``gamma`` then. All
        values use the same held-out rows and the same random numbers. The model of all rows has
        the best gamma, with the best of ``alphas`` if they are given.
    selection : {"auto", "holdout", "loo", "leave-one-out", "evidence"}, default="auto"
        Rows on which ``alphas`` and ``gamma_path`` are scored. "holdout": rows left out of the fit.
        "loo": each row, predicted by the model of all other rows, in closed form; this needs the
        squared loss, the penalty "l2" and at most a few thousand rows or features. "auto" is
        "loo" for ``alphas`` if that is cheap, else "holdout". Two criteria choose one factor of the
        distance per input, and alpha, from all positive numbers by their gradient, and take
        neither: "leave-one-out", the mean squared error of rows left out one by one, and
        "evidence", of :class:`mercer.KernelRegressor` alone: see its notes.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None, default=None
        Device that computes the kernel or the features: "cuda" is a GPU, by PyTorch
        (``pip install 'mercer[gpu]'``). Supported are "exact", "nystroem" (then without whitening)
        and maps of cosines such as "fourier".
        None takes the device of :func:`mercer.config_context`, by default the processor. A model
        predicts on the device of its fit if the machine has it, else on the processor.
    left_out_error_ : float
        Root mean squared error of rows left out one by one at the chosen factors and ``alpha_``, in
        units of the targets' deviation, only with ``selection="leave-one-out"``; of 2000 rows if
        there are more, and 0 for constant targets.
    feature_map_ : map
        Fitted map; its ``gamma`` is a number or an array.
    device_ : str
        Device that computed the kernel in ``fit``, such as "cpu" or "cuda:0".
    map_coef_ : ndarray of shape (D,) or (n_outputs, D)
        Weights of the D features of ``feature_map_``, or of the kernel at its rows.
    coef_ : ndarray of shape (n_features_in_,) or (n_outputs, n_features_in_)
        Weights of the unscaled inputs, only with ``feature_map="linear"``: responses are
        ``X @ coef_.T + intercept_`` whatever ``scale`` is.
    solver_ : str
        Name of the solver used.
    n_iter_ : int
        Number of iterations of the solver.
    optimality_ : float
        Norm of the gradient at the solution, relative to that of a constant model.
    trace_ : list of TraceRow
        Seconds, objective and optimality at the start and after each iteration.
    gamma_path_ : dict of arrays of shape (n_gammas,)
        Scores of ``gamma_path``, only if that is given: "gamma", "score" (at the best alpha),
        "n_features", "seconds" and, with ``alphas``, "alpha" (the best one).
    """
)
