"""Text of the report on the sparse random features paper."""

from __future__ import annotations

from collections.abc import Sequence

from mercer_studies.blocks import Shown
from mercer_studies.page import Page
from mercer_studies.queries import Record, by_data, select
from mercer_studies.sources import names_in_paper
from mercer_studies.sparse_features import figures as plots
from mercer_studies.sparse_features.claims import CLAIMS
from mercer_studies.sparse_features.grid import FIGURE, SOURCES, TABLES, table_of
from mercer_studies.sparse_features.reference import published
from mercer_studies.sparse_features.summary import shows
from mercer_studies.sparse_features.tables import beside, measured


def _figures(records: Sequence[Record], reference: Sequence[Record] | None) -> list[Shown]:
    """Both tables as figures, and the figure."""
    found = [
        Shown(
            f"Table {number} as a figure",
            plots.table(records, number, reference),
            "Test error, and below it the seconds of prediction, of every model against its size, "
            f"for {_names(records, table_of(number))}.",
            "The size is the number of support vectors, or of features with a weight. Of Sparse-RF "
            "dots are the models at four λ, and the star is the one whose error is nearest to that "
            "of RF. Hollow marks are the paper's where the data are; its seconds are those of "
            "another machine and not drawn.",
        )
        for number in TABLES
        if select(records, figure=table_of(number))
    ]
    if select(records, figure=FIGURE):
        found.append(
            Shown(
                "Figure 1: random draws against greedy ones",
                plots.figure1(records),
                "The objective and the share of wrong classes against the number of features "
                "drawn, and the objective against seconds, of Sparse-RF and of boosting, on "
                f"{_names(records, FIGURE)}.",
                "Perceptrons, squared hinge, n λ = 1, without a constant term. Dashed is the exact "
                "kernel machine: the norm of its model times λ plus its loss, and its wrong "
                "classes. Dotted is what bound (22) allows the mean over draws, "
                "and, in light grey, what bound (23) allows a single run 19 times of 20. Boosting "
                "draws one perceptron a round, which a logistic surrogate finds, until what it "
                "finds gets no weight.",
            )
        )
    return found


def _names(records: Sequence[Record], figure: int | str) -> str:
    return ", ".join(by_data(select(records, figure=figure)))


PAGE = Page(
    paper="sparse-features",
    title="Sparse random features, measured again",
    about=(
        "Yen, Lin, Lin, Ravikumar and Dhillon, Sparse random features algorithm as coordinate "
        "descent in Hilbert space (NIPS 2014), drew random features a few at a time, solved for "
        "their weights under an l1 penalty and dropped those without: models as good as those of "
        "all random features, and far smaller. Here are their Tables 1 and 2 and Figure 1 from "
        "runs of our own, with a rule for every claim that the numbers pass or fail."
    ),
    claims=CLAIMS,
    remarks=(
        "Where the paper has more rows or more features, only relations between the three methods "
        "compare.",
        "The paper does not say how the thresholds of its perceptrons are drawn; here they are "
        "uniform over the ball around the training rows, which makes the perceptron kernel of Lin "
        "and Li exact.",
        "cod-rna-train has standardised columns; ijcnn1-train is a time series, so its last rows "
        "are held out and its folds are blocks, where the paper drew rows at random.",
        "RF is one factorisation or a few products of a dense matrix here, far faster than the "
        "solvers of 2014; at n λ = 1 many weights of classes are left, which costs Sparse-RF time.",
        "Boosting stops by itself: features that the surrogate finds then get no weight.",
        "‖w*‖ grows with the rows that are fitted at n λ = 1.",
    ),
    figures=_figures,
    tables=beside,
    tables_note=(
        "Regressions are compared by the root mean square error on responses scaled to between 0 "
        "and 1 (the paper does not say what its RMSE is relative to), classes by accuracy. Near is "
        "within 10 % of the error or one point of accuracy. Rows, numbers of features and machines "
        "differ: sizes, seconds and memory are to be read as ratios between the methods."
    ),
    published=published,
    shows=shows,
    data=(*names_in_paper(SOURCES.values()), "YearPredictionMSD"),
    protocols=("published",),
    measured=measured,
    measured_note=(
        "Errors are relative, or shares of wrong classes. Inputs and responses are scaled to "
        "between 0 and 1. γ is chosen by five-fold cross-validation with random features on some "
        "training rows, and serves all three methods. n λ is 1 for the exact kernel and for RF; of "
        "1, 10, 100 and 1000 Sparse-RF has the one whose test error is nearest to RF's, as in the "
        "paper. Prediction is of all test rows at once."
    ),
)
"""The report on this paper."""
