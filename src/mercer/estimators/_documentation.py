"""Entries of docstrings that several estimators share, written once."""

from __future__ import annotations

from mercer._runtime.documentation import documented, entries

__all__ = ["MACHINES", "SHARED", "documented", "entries"]

SHARED = entries(
    """
    gamma : float, array of shape (n_features,), "scale" or "median", default="scale"
        Scale of that kernel, > 0. "scale" and "median" follow the scaled inputs.
    loss : str or a loss, default="squared"
        "squared", "huber", "correntropy", "quantile", "expectile", "poisson", "gamma", "tweedie" or
        an object of :mod:`mercer.losses`. With "correntropy" targets that are far off count for
        nothing; its ``sigma`` of 1 is in units of y. "quantile" is the median and
        ``losses.Quantile(0.9)`` what nine targets of ten are below, a model for each level. The
        last three are half deviances of counts and amounts of at least 0 with a mean of exp(w . z +
        b), which ``predict`` gives.
    fit_intercept : bool, default=True
        Whether the model has a constant term; it is not penalised.
    scale : bool, default=True
        Whether inputs are brought to one scale first: zero mean and unit variance, or a largest
        absolute value of one for sparse inputs. ``scaler_`` records it and prediction applies it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the map.
    scaler_ : transformer or None
    intercept_ : float or ndarray of shape (n_outputs,)
    converged_ : bool
    alpha_ : float
        Strength of the penalty.
    n_features_in_ : int
    ValueError, TypeError
        At fit, in one sentence, for settings or data that make no sense.
    MemoryError
        Before anything is allocated, if the features would not fit.
    KeyboardInterrupt
        Passed on after an interruption; the last iterate is in place and can predict.
    class_weight : dict, "balanced" or None, default=None
        Weight of every class, multiplied into the sample weights: finite, at least 0, and positive
        for two classes or more; 0 leaves the rows of a class out.
    classes_ : ndarray of shape (n_classes,)
        Sorted; columns of decision values and probabilities follow it.
    kernel : str, kernel or None, default=None
        Kernel of a map given by name. None takes the map's own.
    """
)

# Of the two machines that solve for all the features of a map.
MACHINES = SHARED | entries(
    """
    feature_map : str or map, default="auto"
        Map from inputs to features. "auto" is "exact" up to 5000 rows of a process with "l2" and a
        squared or smooth convex loss, unless ``n_components``, ``gamma_path`` or a solver for
        features is given, and else "binning"; ``feature_map_`` and ``solver_`` tell which. Others
        are "fourier", "nystroem", "linear" or another name of :func:`mercer.maps.get`. A map object
        brings its own settings, reached as ``feature_map__gamma`` and so on. Maps of texts, such as
        "ngrams", take sequences of strings instead of numbers. "exact" approximates nothing: the
        model is a sum of kernels at all rows, and the squared norm of that function takes the place
        of ``||w||^2``; so it does with ``Nystroem(whiten=False)``. Whitening is left out by itself
        where it would cost too much, from 5000 landmarks on; the model is the same.
    kernel : str, kernel or None, default=None
        Kernel of a map given by name: "gaussian", "laplacian", "exponential", "cauchy", "smooth" or
        an object of :mod:`mercer.kernels`. None takes the map's own. With "precomputed", X is the
        kernel matrix: (n_samples, n_samples) at fit, (n_samples, n_fit) at prediction, not scaled,
        with the map "exact" or "auto".
    n_components : int or None, default=None
        Grids, frequencies or landmarks of that map, >= 1; None takes the map's own default.
    penalty : "l2", "l1", "elastic-net" or a penalty, default="l2"
        What is added to the mean loss: ``alpha / 2 * ||w||^2``, or ``alpha * ||w||_1``, which
        leaves most weights at exactly zero, or a mixture. A penalty object brings its own alpha,
        and ``penalties.L2`` means ``||w||^2`` itself even where features are the kernel at rows.
    alpha : float or None, default=None
        Strength of the penalty, >= 0. None means ``0.3 / n_samples`` (with weights, their sum
        instead of n_samples) for "l2", else a hundredth of the least strength at which no weight
        is left. For "quantile" the former is divided by the mean absolute deviation of y from its
        median, and for ``Tweedie(p)`` multiplied by the mean of y to the power 2 - p, so that the
        unit of y does not matter.
    l1_ratio : float or None, default=None
        Share r of ``||w||_1`` in the mixture ``alpha * (r * ||w||_1 + (1 - r) / 2 * ||w||^2)``,
        from 0 to 1; None means one half. For "elastic-net" alone.
    solver : "auto", "cholesky", "cg", "block", "newton-cg", "row-newton", "smoothing", "cd", \
"async" or a solver, default="auto"
        "auto" chooses by sizes, loss and memory; ``solver_`` tells which. A solver object brings
        its own settings, such as the ``checkpoint`` folder of ``solvers.BlockCoordinateDescent``.
    tol : float, default=1e-2
        Size of the gradient, relative to that of a constant model, at which an iterative solver
        stops. Smaller values rarely change predictions by more than their noise.
    max_iter : int, default=1000
        Iterations after which it stops with a ``ConvergenceWarning``.
    n_jobs : int or None, default=None
        Threads of the map and its products; None and -1 mean all that this process may use. Linear
        algebra runs on the threads of its own library. Results do not depend on either beyond
        rounding.
    warm_start : bool, default=False
        Whether the next fit keeps the scaler and the map and starts from the coefficients of the
        last one, provided the settings of the map are unchanged; a gamma chosen from ``gamma_path``
        is kept, too.
    alphas : array of shape (n_alphas,) or None, default=None
        Strengths of the penalty to choose from, > 0; ``alpha`` is then left out. They share what
        they can: the features, and with the solvers of linear equations every block, Gram matrix or
        product. ``path_`` keeps the solutions, ``at_alpha`` makes models of them.
    gamma_path : array of shape (n_gammas,) or None, default=None
        Values to choose gamma from, > 0, for the scaled inputs; ``gamma`` is then left out. Each is
        tried on the same rows with the same random numbers, which are drawn once, and the best one,
        with the best of ``alphas`` if there are any, is fitted to all rows.
    selection : {"auto", "holdout", "loo"}, default="auto"
        By which rows alphas and gammas are judged. "holdout": a part that is held out. "loo": every
        row by the model without it, in closed form, for the squared loss with "l2" and at most some
        thousand rows or features. "auto" is "loo" for ``alphas`` where that is cheap.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None, default=None
        Where the kernel or the features are computed, for feature_map="exact", for "nystroem",
        whose landmarks are then not whitened, and for cosines such as "fourier": "cuda" for a GPU
        by way of PyTorch, of the extra ``mercer[gpu]``.
        None means what :func:`mercer.config_context` says, the processor as a rule. A model
        predicts on the device of its fit where the machine has it, and else on the processor.
    feature_map_ : map
        As fitted; its ``gamma`` is a number.
    device_ : str
        Where the fit computed the kernel, such as "cpu" or "cuda:0".
    map_coef_ : ndarray of shape (D,) or (n_outputs, D)
        Weights of the features of ``feature_map_``, or of the kernel at its rows.
    coef_ : ndarray of shape (n_features_in_,) or (n_outputs, n_features_in_)
        Only with ``feature_map="linear"``: weights of the inputs as given, so that responses are
        ``X @ coef_.T + intercept_`` whatever ``scale`` is.
    solver_ : str
        Name of the solver that was used.
    n_iter_ : int
    optimality_ : float
        Relative size of the gradient at the solution.
    trace_ : list of TraceRow
        Seconds, objective and optimality at the start and after each iteration.
    gamma_path_ : dict of arrays of shape (n_gammas,)
        Only with ``gamma_path``: "gamma", "score" of its best alpha, "n_features", "seconds" and,
        with ``alphas``, that "alpha".
    """
)
