"""scikit-learn's checks: all of them for one model of a class, fewer for its other settings."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# Checks that run the code of a setting. All others see the constructor, tags and the validation of
# inputs, which the settings of a class share.
CHECKS_OF_SETTINGS = {
    f"check_{name}"
    for name in (
        "class_weight_classifiers",
        "classifiers_one_label",
        "classifiers_one_label_sample_weights",
        "classifiers_train",
        "clusterer_compute_labels_predict",
        "clustering",
        "decision_proba_consistency",
        "dict_unchanged",
        "dont_overwrite_parameters",
        "estimator_sparse_array",
        "estimators_dtypes",
        "estimators_overwrite_params",
        "estimators_pickle",
        "fit2d_1feature",
        "fit2d_1sample",
        "fit_idempotent",
        "methods_sample_order_invariance",
        "methods_subset_invariance",
        "n_features_in",
        "outliers_fit_predict",
        "outliers_train",
        "readonly_memmap_input",
        "regressor_multioutput",
        "regressors_train",
        "sample_weight_equivalence_on_dense_data",
        "sample_weight_equivalence_on_sparse_data",
        "sample_weights_not_overwritten",
        "supervised_y_2d",
        "transformer_general",
        "transformer_preserve_dtypes",
    )
}


def parametrize_with_settings(models, settings=(), expected_failed_checks=None):
    """Parametrise over all checks of ``models`` and over ``CHECKS_OF_SETTINGS`` of ``settings``.

    Each class of ``settings`` has all checks, here or in another test file. Slow are checks of
    ``settings``, and those that repeat one of the same model with rows of another storage.
    """

    def cases(models):
        return parametrize_with_checks(models, expected_failed_checks=expected_failed_checks).args[
            1
        ]

    every = parametrize_with_checks([])
    of_settings = map(_slow, filter(_depends_on_settings, cases(settings)))
    kept = [*(_slow(c) if _repeats(c) else c for c in cases(models)), *of_settings]
    return pytest.mark.parametrize(every.args[0], kept, **every.kwargs)


def _slow(case):
    marks = *getattr(case, "marks", ()), pytest.mark.slow
    return pytest.param(*getattr(case, "values", case), marks=marks)


def _repeats(case):
    """Whether a check is one of others on read-only rows, or of sparse arrays on matrices."""
    _, check = getattr(case, "values", case)
    return "readonly_memmap" in check.keywords or "sparse_matrix" in check.func.__name__


def _depends_on_settings(case):
    _, check = getattr(case, "values", case)
    return check.func.__name__ in CHECKS_OF_SETTINGS and not check.keywords
