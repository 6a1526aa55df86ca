"""Passages that the docstrings of both automatic models share."""

from __future__ import annotations

from mercer.estimators._documentation import SHARED, entries

__all__ = ["AUTOMATIC"]

AUTOMATIC = SHARED | entries(
    """
    time_budget : float or None, default=None
        Time limit of ``fit`` in seconds, > 0. None sets no limit: 10 000 rows take a few seconds.
    scoring : str, callable or None, default=None
        Scorer that chooses the settings on held-out rows; ``score`` and ``validation_score_`` use
        it too. It is a name of :func:`sklearn.metrics.get_scorer_names`, a scorer of
        :func:`sklearn.metrics.make_scorer`, or a function ``scoring(estimator, X, y)``, optionally
        with ``sample_weight``. The estimator passed to it can only predict the held-out rows X (a
        classifier also returns responses and calibrated probabilities). None chooses by the mean
        squared error.
    time : str, int or None, default=None
        Column that orders the rows in time, of numbers or dates without missing cells: its name in
        a frame, its place in an array. The last fifth of the rows by this column is held out, rows
        of one time together, so that settings, scores, intervals and probabilities are those of
        rows later than all rows fitted; with ``groups``, those of later rows of groups not fitted.
        The column stays an input, and the final model is fitted to all rows. None holds out rows at
        random and warns where a date column shows that this flatters.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the held-out rows, of the samples and of random features.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean all that the process may use.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None, default=None
        Device that computes the final model, as in :class:`mercer.KernelRegressor`: "cuda" is a
        GPU. The search runs on the processor, and so do models of sparse rows and of more than 2000
        columns; ``kernel_machine_.device_`` is the device used.
    verbose : int, default=0
        1 writes one line to stderr per stage of the search and of the final fit, 2 also one line
        per trial. The logger "mercer" always gets these lines, at the levels INFO and DEBUG.
        Callbacks, such as ``ProgressBar`` of scikit-learn, follow stages, trials and iterations of
        the final fit as tasks; ``set_callbacks`` sets them.
    search_results_ : dict of arrays
        Work of the search in its order, one entry per trial: "stage", "rows", the settings, "loss"
        and "error" on held-out rows, "seconds", "machine_seconds" and "chosen". The loss is the
        mean squared error, in units of the variance or, for classes, of responses from -1 to 1; the
        error is its root or the share of rows with a wrong class or label. With ``scoring`` also
        "score"; the loss is then 0 for perfect predictions and 1 for a constant. "seconds" are
        wall time with preparation, and sum to ``search_seconds_``; trials that run side by side
        share theirs. "machine_seconds" are of the kernel machine alone, summed over threads. Work
        of no trial has an entry with 0 rows and a loss of NaN: the stage "preparation" before the
        first trial, "order" for the test of rows in time, "leaves" for the worth of their rows.
    partner_settings_ : dict or None
        Settings of the second pipeline of a mean of two, above 50 000 rows: another column
        treatment or other input scales, chosen by the loss of the mean on held-out rows. None if
        the model is a single pipeline.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Mean absolute Shapley value per input column over up to 300 training rows, in the unit of
        the responses, averaged over outputs; see :func:`mercer.explain.shapley_values`. 0 for a
        column that the model does not use. Computed when it is first read, from fewer rows and by
        sampling where values are not exact. With more than 500 columns only the 200 with the
        largest ``input_shares_`` are told apart; the others get 0.
    input_shares_ : ndarray of shape (n_features_in_,)
        Share of each input column in the distance between rows that the kernel uses; the shares sum
        to 1. If input scales are not learned, a column of no use for predictions has a share too;
        ``feature_importances_`` measures the use.
    validation_score_ : float
        Score of the chosen settings on held-out rows: ``scoring``, else R2 or the share of correct
        classes, or of rows whose labels are all correct. Up to 1000 rows it is from five-fold
        cross-validation; up to 2000 rows from leaving out each row in turn; above, from a model of
        the final form fitted without a tenth of the rows (3000 at most). Of "log-odds", for more
        than two classes and from 2000 to 6000 rows, it is from a quarter of the rows. With ``time``
        or, above 1000 rows, ``groups`` it is from a fifth of the rows. Of local machines, or if the
        time budget leaves no time for that fit, it is the score of the models of the search, which
        have fewer rows. As the best of many scores it is slightly optimistic. NaN if ``fit`` was
        interrupted before any trial.
    n_validation_rows_ : int
        Number of held-out rows; their errors also calibrate intervals and probabilities.
    held_out_ : dict of arrays or None
        Up to 3000 held-out rows: "row" (index in the data of fit), "target" and "predicted", and
        for classes "probabilities", calibrated by these rows; the models that predict were fitted
        without them. Not saved in files and pickles. None if fit was interrupted before any trial.
    search_seconds_, fit_seconds_ : float
        Time of the search and of the final fit, in seconds.
    interrupted_ : bool
        Whether the user interrupted ``fit``; the model is then the best one found so far.
    ValueError, TypeError
        At ``fit``, if the data or a setting are invalid.
    UserWarning
        If ``fit`` was interrupted before a model of all rows was fitted; if rows are copies of
        others, which count as weights, or share their inputs with others; without ``time``, if
        rows that are later by a date column have at least 1.25 times the squared error where no row
        of their time is fitted.
    """
)
