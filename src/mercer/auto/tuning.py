"""Numbers of the automatic search and of the final fit, each with its unit and its reason.

Every stage of the search reads them from :data:`TUNING`. A number without a measurement beside it
is a bound on time: larger values gave no lower errors on the tables of ``benchmarks/tables.py``
that were worth the seconds.
"""

# ruff: noqa: RUF009 - the two functions below return fields
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["TUNING", "Tuning"]


def _by_kernel(laplacian: Any, gaussian: Any, **others: Any) -> Any:
    return field(default_factory=lambda: dict(laplacian=laplacian, gaussian=gaussian, **others))


def _by_target(continuous: Any, classes: Any) -> Any:
    return field(default_factory=lambda: {"continuous": continuous, "classes": classes})


@dataclass
class Tuning:
    """Numbers of the automatic models.

    Gammas are in units of 1 / median distance, ridges of the kernel's diagonal; losses are mean
    squared errors of held-out rows.
    """

    # -- time budget -----------------------------------------------------------------------------
    search_share: float = 0.6  # share of the budget after which no trial of rungs 1 and 2 begins
    trial_share: float = 0.5  # most of the budget that trials leave for the final fit
    # Time that trials leave, per time that the exact machine is to take, which also leaves out each
    # row, and per time of rungs 1 and 2: the rows are treated once more.
    after_trials: tuple[float, float] = (2.0, 0.5)
    end_share: float = 0.97  # share of the budget after which the final fit stops
    reserve: float = 0.6  # share of the time left that the form of the final fit may plan for

    # -- rows ------------------------------------------------------------------------------------
    fitted_rows: int = 4000  # most rows that a trial of a rung fits
    held_rows: int = 1500  # most rows held out
    folds: int = 5  # parts of a small table, each held out in turn
    fold_rows: int = 1000  # rows up to which a table is small
    balanced_groups: int = 2000  # groups above which folds are not balanced by class: too slow
    looked_rows: int = 2000  # sampled rows by which columns are recognised
    most_dense: int = 2000  # inputs above which scales are not learned and rows stay sparse

    # -- treatments of columns -------------------------------------------------------------------
    few_integers: int = 20  # distinct whole numbers up to which a column may be a category
    few_columns: int = 200  # columns up to which such categories are tried

    # -- rungs 1 to 3 ----------------------------------------------------------------------------
    rung_rows: tuple[int, int] = (400, 1000)  # rows that trials of rungs 1 and 2 fit
    # Rows of rung 3; more for classes: a Gaussian must be ahead by more the fewer rows there are.
    last_rung_rows: dict[str, int] = _by_target(1500, 2000)
    full_columns: int = 40  # inputs above which trials fit fewer rows, as distances cost more
    last_rung_work: float = 2e9  # rows² × inputs that a trial of rung 3 always has: 30 ms
    gammas: dict[str, tuple[float, ...]] = _by_kernel((0.5, 2.0), (0.3, 1.0))
    ridges: dict[str, tuple[float, ...]] = _by_kernel((0.1, 1.0), (0.003, 0.1))
    gamma_step: dict[str, float] = _by_kernel(
        2.0, 3.0, exponential=2.0
    )  # factor between neighbouring gammas
    # Of the scales. Left-out errors, not trials, choose scales for the exponential kernel.
    powers: dict[str, tuple[float, ...]] = _by_kernel(
        (0.0, 0.5, 1.0), (0.0, 1.0), exponential=(1.0,)
    )
    kept: dict[str, int] = _by_kernel(2, 1)  # groups of each kernel that rung 2 takes over
    kept_last: dict[str, int] = _by_kernel(1, 1)  # groups of each kernel that rung 3 takes over
    near: float = 1.1  # share of the least loss up to which a Gaussian goes on
    turned_inputs: int = 60  # inputs up to which scales may turn: d² numbers are learned
    wide_inputs: int = 100  # inputs from which scales of a lasso are tried
    wide_gamma: float = 0.1  # factor of the least gamma in scales of a lasso: next to linear
    linear_gamma: float = 0.1  # of a Gaussian that is nearly a ridge regression, for wide tables
    linear_ridges: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003)
    learned_inputs: int = 300  # treated inputs up to which a machine learns scales: d² work
    chunk_work: float = 1e9  # multiplications of trials that one thread takes together: 10 ms

    # -- scales by left-out errors -----------------------------------------------------------------
    left_out_inputs: int = 100  # inputs, labels of a column as one, up to which these are tried
    left_out_rows: int = 1000  # of the machine
    left_out_error: float = 0.02  # relative held-out error below which these are not tried
    identity_rows: int = 2500  # rows of trials that tell apart what repeats
    left_out_kernels: int = 2  # kernels of which more rows are taken, by the errors of few
    # Share of the present left-out error of few rows up to which more are taken: on 12 of 28 tables
    # where at least .95 of it was reached, only one gained anything, of labels that few rows share.
    left_out_gain: float = 0.95
    left_out_far: float = 1.15  # the same of another treatment, which has other rows
    left_out_near: float = 1.01  # share of the least such error up to which they are
    # Factors of the gamma that was found, of each kernel.
    left_out_gammas: dict[str, tuple[float, ...]] = _by_kernel(
        (0.5, 2.0), (0.4, 2.5), exponential=(0.5, 2.0)
    )

    # -- without columns ---------------------------------------------------------------------------
    most_left_out: int = 16  # columns of many labels that are left out in turn
    left_out_loss: float = 0.99  # share of the loss that a model without them must reach
    sure_of_columns: float = 1.0  # standard errors that it must gain
    much_without: float = 0.95  # share of the loss that is enough with any tails

    # -- past the ends of the grids --------------------------------------------------------------
    end_steps: int = 10  # most steps
    end_gain: float = 0.98  # share of the loss that a step must reach to be followed by another
    end_ridge_step: float = 4.0  # factor of a step of the ridge
    least_ridge_of_all: float = 1e-8  # below, float64 has no factor of 2000 rows
    least_gamma: float = 1e-3

    # -- trials on more rows -----------------------------------------------------------------------
    # Fall of the loss with twice the rows from which they are made. At .1 the errors of six tables
    # of 6000 to 12 000 rows fell by at most .3 %; without noise it is .5 and more.
    growth_fall: float = 0.2
    least_half: int = 50  # rows, half of those of a trial, from which the fall is measured
    growth_least: float = 0.9  # rows, as a share of those before, from which they are made
    # Most rows at ridges that take float64. An arm of 3000 rows erred .095 with 2000 and .087 with
    # 2250, all that there are; one of 8000 rows .056 in 7 s with 2000 and .059 in 11 s with 3000.
    weak_rows: int = 2500
    growth_rows: int = 8000  # most rows, more than one factor allows
    growth_table: int = 10_000  # rows of a table from which so many are fitted
    growth_steps: int = 8  # most steps of gamma and ridge
    growth_gain: float = 0.98  # share of the loss that a step must reach, but to a narrower kernel
    growth_iter: int = 100  # iterations after which a ridge is given up: the final fit takes more

    # -- trials on leaves --------------------------------------------------------------------------
    leaf_table_rows: int = 100_000  # sampled rows that leaves of the search are cut from
    held_groups: float = 0.2  # share of these rows, by groups, that are held out
    trial_leaf_rows: int = 1000  # most rows of a leaf in a trial
    trial_rows: int = 32_000  # rows of all leaves in a trial
    shared_held: float = 0.3  # share of the rows of two overlapping leaves held out of both
    treated_inputs: int = 60  # inputs up to which all treatments are tried on leaves again
    leaf_steps: int = 6  # most steps of gamma, ridge and power
    leaf_gain: float = 0.995  # share of the loss that a step must reach to be followed by another
    ridge_step: float = 3.0  # factor of a step of the ridge
    least_ridge: float = 2e-3  # on leaves: weaker ones show rounding sooner than gains

    # -- landmarks of a machine of all rows --------------------------------------------------------
    trial_landmarks: int = 2000
    landmark_rows: int = 30_000  # rows that a trial fits, and least rows of a table to try them
    landmark_gain: float = 0.9  # share of the loss of leaves that landmarks must reach
    landmarks_per_root: float = 15.0  # landmarks of the final fit per root of its rows
    # Rows × landmarks × inputs of a fit or a stage at most: many inputs get fewer landmarks.
    landmark_work: float = 6e11
    # Rows of a stage. Landmarks cost by the cube, so that a stage has fewer per root of its rows:
    # 200 000 generated rows at once, with 6700 landmarks, err as seven stages of 66 000 rows with
    # 3400 do, in four times their memory.
    stage_rows: tuple[int, int] = (65_000, 100_000)
    stage_landmarks: float = 13.0
    stages_per_part: float = 2.2  # stages for as many rows as one has
    least_of_stages: int = 150_000  # rows from which there are stages
    most_stages: int = 10
    prepared_rows: int = 250_000  # rows from which columns and scales are learned
    stages_at_once: int = 2  # fitted to the same rest, where other machines have the rows
    stage_held: int = 10_000  # rows that tell how far to go by a stage, or one of stage_share
    stage_share: int = 20
    # Residual, relative to what is left over, at which a stage but the first ends at the latest.
    stage_tol: float = 0.2
    # Share of the held-out loss that a stage must gain for others to follow; and an iteration of a
    # stage, which takes a fifteenth of its time: a tenth of it.
    stage_gain: float = 0.01
    stage_step: float = 0.001
    landmark_memory: float = 0.25  # share of the available memory that their factors may take
    # Relative residual of the equations of landmarks: with .005 the errors of 100 000 and 400 000
    # generated rows fell by less than .0002.
    landmark_tol: float = 0.02

    # -- trials of random features ----------------------------------------------------------------
    trial_features: int = 512
    # Rows fitted and held out: 8000 rows took a fifth of w8a's fit longer for no lower error.
    feature_rows: tuple[int, int] = (5000, 2500)
    feature_seconds: float = 1.0  # time left that a trial of so many rows needs
    bin_ridges: tuple[float, float] = (0.3, 0.07)
    text_ridges: tuple[float, ...] = (1.0, 0.1)  # of a linear model of many sparse inputs
    bin_gamma: float = 1.5  # first factor of gamma: bins are noisier than their kernel
    bin_step: float = 2.0  # factor of a step of gamma
    bin_steps: int = 3

    # -- which outcome leads (shares are of the loss) ----------------------------------------------
    transform_margin: float = 0.02  # gain that a transformed target must show between rungs
    gaussian_margin: float = 0.03  # gain that a Gaussian must show between rungs
    sure: float = 2.0  # standard errors that another kernel or target must gain
    # Standard errors that scales of a machine, and then those by left-out errors, must gain. By
    # those of machines, gains of one to two on held-out rows lowered test errors on five of five
    # tables of 5000 rows, by up to a hundredth.
    sure_of_scales: tuple[float, float, float] = (0.0, 0.5, 1.0)
    much_by_scales: tuple[float, float, float] = (0.0, 0.03, 0.06)  # enough with any tails
    much: float = 0.2  # gain that is enough with any tails
    # Gain per doubling of rows still to come that a Gaussian must show on classes.
    ahead: float = 0.12
    # Most loss of the mean of two sets of trees, as a share of the better set's: two sets take more
    # time, memory and room in files than one.
    pair_loss: float = 0.99

    # -- rows that scales are learned from ---------------------------------------------------------
    # Errors on 245 509 flights went from .184 to .201 with the draw of 1200 rows, and from .180 to
    # .189 with the draw of 10 000.
    scale_rows: int = 1200  # up to many_scale_rows
    scale_cosines: int = 300  # of each of many quick fits; a scaler by itself has 1000
    many_scale_rows: int = 20_000
    scale_share: int = 8  # above, one row of so many, up to most_scale_rows
    most_scale_rows: int = 10_000
    # Rows of the final fit: against 1200, errors fell by 6 to 15 % on covtype and ijcnn1 (three
    # splits), up to 3 % on susy and blogfeedback, and stayed on eight tables, for 0.1 s.
    last_scale_rows: int = 8000

    # -- form of the final model ----------------------------------------------------------------
    # Rows up to which the model is exact: at 37 000 to 45 000 rows of four tables its errors were 2
    # to 14 % below those of leaves, in up to twice their time; half of its kernel takes 2.5 GB.
    exact_rows: int = 50_000
    exact_cost: dict[str, float] = _by_kernel(
        3.0, 16.0, exponential=3.0
    )  # time in trials of as many kernel entries
    direct_rows: int = 2000  # rows up to which one factor is quicker than iterations
    # The same for ridges so weak that iterations are many: 200 MB of kernel.
    most_direct_rows: int = 5000
    direct_ridge: dict[str, float] = _by_kernel(3e-3, 1e-5, exponential=3e-3)
    # Rank of the preconditioner per root of the rows: with 2 instead of 3, errors of ijcnn1 rose by
    # 2 % (three splits), as iterations then stop at rougher responses.
    rank: dict[str, float] = _by_kernel(3.0, 10.0, exponential=3.0)
    # A low rank has what is smooth: with leaves a Gaussian took 29 iterations instead of 24, and
    # 17 s instead of 13 (an arm without noise, 30 000 rows).
    preconditioner: dict[str, str] = _by_kernel("auto", "rpcholesky", exponential="auto")
    features: dict[str, int] = _by_kernel(
        1024, 2048, exponential=2048, linear=1
    )  # without a time budget
    more_features: int = 4  # factor of the features where a time budget pays for them
    least_features: int = 32
    most_codes: int = 2**28  # rows × features at most: 256 MB of codes
    quick_features: int = 256  # of the model that an interrupted search leaves

    # -- classes by the logistic loss --------------------------------------------------------------
    # Rows² times outputs times the root of rows by ridge up to which it is tried: 8 classes of 9687
    # rows (7e10) take 4 s, for 5 % less log loss; 7 classes of 8488 rows at a ridge of .004 (7e11)
    # and 26 letters of 15 000 rows took minutes.
    log_odds_work: float = 1.5e11
    # Relative held-out error below which it is not: classes that hardly overlap take many steps,
    # for log odds that nothing bounds.
    log_odds_error: float = 0.15
    log_odds_seconds: tuple[float, float] = (1.0, 1e-10)  # that it takes, and more per work
    log_odds_factors: tuple[float, ...] = (4.0, 1.0)  # of a quarter of the ridge
    log_odds_end: float = 16.0  # the same where the first one errs least
    log_odds_gain: float = 0.995  # share of the squared loss's log loss that it must reach
    log_odds_tol: float = 0.01  # of the residual
    # Steps, and products of each, after which a strength is given up: three to six steps of some
    # twenty products are usual.
    log_odds_steps: int = 10
    log_odds_inner: int = 50

    # -- leaves of the final model --------------------------------------------------------------
    trees: int = 4
    fewer_trees: int = 3  # from many_rows on
    many_rows: int = 100_000
    most_trees: int = 8  # where a time budget pays for them
    leaf_rows: tuple[int, int] = (1000, 4000)  # least and most rows of a leaf
    leaf_work: float = 3.2e11  # n_rows × leaf_rows²: four trees then factor in a few seconds
    wide_leaf_inputs: int = 50  # inputs above which leaf_work grows by the root of the inputs
    # Where a leaf row is worth about one table row: rows that a leaf is to be worth, most rows of a
    # leaf, its growth, and fewest trees.
    global_rows: int = 30_000
    largest_leaf: int = 8000
    leaf_growth: float = 1.5
    fewest_trees: int = 2
    smallest_leaf: int = 100  # where time is short

    # -- tolerance and held-out errors of the final model ----------------------------------------
    # Relative residual at which iterations end where errors are large. Seven tables of classes:
    # 0.07 beside 0.02, three better, four worse. Numbers: cpu at 0.05 errs 6 % more than at 0.02.
    tol: dict[str, float] = _by_target(0.02, 0.07)
    # The same with random features, which have no preconditioner: 0.03 took half of the time of
    # 0.01 on w8a for the same errors.
    feature_tol: dict[str, float] = _by_target(0.01, 0.03)
    linear_tol: float = 0.01
    feature_iter: int = 300
    error_share: float = 0.1  # residual as a share of the held-out error
    least_tol: float = 1e-7  # relative residual that float64 reaches
    error_power: float = 0.5  # errors are taken to fall with this power of the rows until measured
    final_held: tuple[int, int] = (600, 3000)  # least and most rows; 600 give coverage to 0.012
    final_held_share: int = 10  # rows of the final fit per held-out row
    few_rows: int = 100  # rows below which a tenth of them shows next to nothing
    nearly_all: float = 0.7  # share of the rows from which a trial errs like the final model


TUNING = Tuning()
