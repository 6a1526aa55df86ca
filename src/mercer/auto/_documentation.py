"""Passages that the docstrings of both automatic models share."""

from __future__ import annotations

from mercer.estimators._documentation import SHARED, entries

__all__ = ["AUTOMATIC"]

AUTOMATIC = SHARED | entries(
    """
    time_budget : float or None, default=None
        Seconds that ``fit`` may take, > 0. None means as long as search and fit ask for: a few
        seconds on ten thousand rows.
    scoring : str, callable or None, default=None
        Scorer that chooses among the settings tried, and that ``score`` and ``validation_score_``
        tell: a name of :func:`sklearn.metrics.get_scorer_names`, what
        :func:`sklearn.metrics.make_scorer` makes, or ``scoring(estimator, X, y)``, which gets an
        estimator that knows no more than predictions (of classes also responses and calibrated
        probabilities) for the held-out rows X. It may take ``sample_weight``. None chooses by the
        mean squared error.
    random_state : int, RandomState, Generator or None, default=None
    n_jobs : int or None, default=None
        Threads; None and -1 mean all that this process may use.
    device : {"cpu", "cuda", "cuda:<number>"}, torch.device or None, default=None
        Where the final model is computed, as by :class:`mercer.KernelRegressor`: "cuda" for a GPU.
        Models of sparse rows or of more than 2000 columns are computed on the processor all the
        same, and so is the search; ``kernel_machine_.device_`` tells.
    verbose : int, default=0
        1 writes a line for every stage of the search and of the final fit to stderr, 2 one for
        everything that is tried as well. The logger "mercer" gets the same lines at the levels INFO
        and DEBUG whatever ``verbose`` is. Callbacks, such as ``ProgressBar`` of scikit-learn's, see
        stages, trials and the iterations of the final fit as tasks; ``set_callbacks`` sets them.
    partner_settings_ : dict or None
        The same for the second pipeline, whose trees share the model beyond 50 000 rows: another
        treatment or other scales, chosen by the loss of the mean on the rows held out. None where
        the model is a single pipeline.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much the score, by ``scoring`` or R2 or the share of right classes, falls on held-out
        rows where the values of an input column are permuted: about 0, of either sign, for a column
        that does not help, or only as much as others that say the same. Measured on up to 1000 rows
        with an exact machine of up to 1000 others in the best settings; of more than 2000 columns
        the thousand that change predictions most are permuted, and others get 0.
    input_shares_ : ndarray of shape (n_features_in_,)
        How much of the distance between rows, as the kernel sees it, is due to each input column;
        they sum to 1. They say what the model looks at, ``feature_importances_`` what it gains by
        it: a column of little use has a share, too, where scales of the inputs are not learned.
    validation_score_ : float
        Score of the chosen settings on held-out rows: by ``scoring``, else R2 or the share of right
        classes. Up to 1000 rows five models of four fifths of the rows answer for the others; up to
        2000 each row is left out of the final model in turn; beyond, a model of the final form is
        fitted without a tenth of the rows, 3000 at most. Above 50 000 rows, and where a time budget
        has no room for this, it is the score of the models of the search, which have fewer rows. As
        the best of many it is slightly optimistic. NaN if fit was interrupted before any trial.
    n_validation_rows_ : int
        Number of the held-out rows; their errors calibrate intervals and probabilities, too.
    held_out_ : dict of arrays or None
        Up to 3000 held-out rows: "row" (index in the data of fit), "target" and "predicted", and
        for classes "probabilities", calibrated by these rows; the models that predict were fitted
        without them. Not saved in files and pickles. None if fit was interrupted before any trial.
    search_seconds_, fit_seconds_ : float
    interrupted_ : bool
        Whether the user interrupted; the model is then the best one so far.
    ValueError, TypeError
        At fit, in one sentence, for data or settings that make no sense.
    UserWarning
        If fit was interrupted before a model of all rows was made.
    """
)
