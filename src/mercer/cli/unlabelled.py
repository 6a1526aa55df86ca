"""``mercer cluster``, ``outliers`` and ``drift``: raw tables without targets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercer.cli.options import (
    Drop,
    Features,
    Ids,
    Jobs,
    Json,
    MaxMemory,
    Missing,
    Seed,
    echo,
    print_json,
    waiting,
)
from mercer.cli.roles import Roles, names_in, words_in
from mercer.cli.write import (
    MODEL,
    PAGE,
    Force,
    Output,
    check_outputs,
    is_page,
    same_columns,
    write_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mercer.plots.unlabelled import ColumnTests
    from mercer.preparation import TablePreparer
    from mercer.statistics import TestResult


class Method(StrEnum):
    """Algorithm of clusters."""

    spectral = "spectral"
    kmeans = "kmeans"


_TESTED = ("column", "statistic", "p_value", "adjusted_p_value")
_Table = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A table with a row each, such as CSV or Parquet."),
]
_Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="The file to write: by its name a page of figures (.html), or a row each as Parquet "
        "or CSV.",
    ),
]


def cluster(
    data: _Table,
    out: _Out,
    n_clusters: Annotated[int, typer.Option("-k", "--clusters", min=1, help="Clusters to find.")],
    method: Annotated[
        Method,
        typer.Option(help="spectral follows chains of close rows; kmeans groups around centres."),
    ] = Method.spectral,
    features: Features = None,
    drop: Drop = None,
    id_: Ids = None,
    missing: Missing = None,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    max_memory: MaxMemory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find clusters of the rows of a table.

    The clusters are those of SpectralClustering with random binning or of KernelKMeans with
    landmarks, on columns treated by TablePreparer. Time is proportional to the number of rows.
    """
    ids = names_in(id_)
    _check_out(out, "a file of clusters", (*ids, "cluster"), {"DATA": Path(data)}, force)
    from mercer.cli.read import frame_in

    roles = Roles(
        features=names_in(features), drop=names_in(drop), ids=ids, missing=words_in(missing)
    )
    table, kept = frame_in(data, roles)
    if n_clusters > table.num_rows:
        raise ValueError(
            f"-k must be at most the number of rows of DATA, {table.num_rows}; got {n_clusters}."
        )
    from mercer.unsupervised import KernelKMeans, SpectralClustering

    common: dict[str, Any] = {"scale": False, "random_state": seed, "n_jobs": n_jobs}
    with waiting("clustering"):
        preparer, X = _treated(table, seed)
        model = (
            SpectralClustering(n_clusters, **common)
            if method is Method.spectral
            else KernelKMeans(n_clusters, feature_map="nystroem", **common)
        )
        labels = model.fit_predict(X)
        if is_page(out):
            from mercer.plots.unlabelled import write_clusters

            write_clusters(table, preparer.origins_, X, labels, out, Path(data).name, seed)
        else:
            write_columns(out, [{**kept, "cluster": labels}])
    sizes = [int((labels == number).sum()) for number in range(n_clusters)]
    if as_json:
        print_json({"clusters": str(out), "rows": len(labels), "sizes": sizes})
        return
    echo(f"rows per cluster: {', '.join(map(str, sizes))}")
    echo(f"wrote {out} ({len(labels)} rows)")


def outliers(
    data: _Table,
    out: _Out,
    share: Annotated[
        float, typer.Option(help="Share of the rows that are outliers, above 0 and below 1.")
    ] = 0.05,
    features: Features = None,
    drop: Drop = None,
    id_: Ids = None,
    missing: Missing = None,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    max_memory: MaxMemory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the rows of a table that lie where others are few.

    Scores are those of OneClassKernel with landmarks, on columns treated by TablePreparer: the
    smaller, the fewer rows are near. Time is proportional to the number of rows.
    """
    if not 0 < share < 1:
        raise ValueError(f"--share must be above 0 and below 1; got {share:g}.")
    ids = names_in(id_)
    written = (*ids, "score", "is_outlier")
    _check_out(out, "a file of outliers", written, {"DATA": Path(data)}, force)
    import numpy as np

    from mercer.cli.read import frame_in
    from mercer.unsupervised import OneClassKernel

    roles = Roles(
        features=names_in(features), drop=names_in(drop), ids=ids, missing=words_in(missing)
    )
    table, kept = frame_in(data, roles)
    with waiting("looking for outliers"):
        preparer, X = _treated(table, seed)
        # A tenth of the rows at least shapes the border, by which the rows beyond it are ranked.
        nu = max(share, 0.1)
        settings: dict[str, Any] = {"scale": False, "random_state": seed, "n_jobs": n_jobs}
        model = OneClassKernel(nu, feature_map="nystroem", **settings)
        scores = model.fit(X).score_samples(X)
        border = float(np.partition(scores, int(share * len(scores)))[int(share * len(scores))])
        is_outlier = scores < border
        if is_page(out):
            from mercer.plots.unlabelled import write_outliers

            write_outliers(table, kept, preparer.origins_, X, scores, border, out, Path(data).name)
        else:
            write_columns(out, [{**kept, "score": scores, "is_outlier": is_outlier}])
    count = int(is_outlier.sum())
    if as_json:
        print_json({"scores": str(out), "rows": len(scores), "outliers": count})
        return
    echo(f"outliers: {count} of {len(scores)} rows")
    echo(f"wrote {out} ({len(scores)} rows)")


def drift(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A table, or a file that mercer fit wrote.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="A table with the columns of OLD.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="A file to write about each column: by its name a page of figures (.html), or a "
            "test each as Parquet or CSV.",
        ),
    ] = None,
    features: Features = None,
    drop: Drop = None,
    missing: Missing = None,
    seed: Seed = 0,
    n_jobs: Jobs = None,
    max_memory: MaxMemory = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Test whether two tables have the same distribution.

    The test is mmd_test, or drift_test if OLD is a model. With --out each column is tested alone,
    on at most 5000 random rows of each table, and the p-values are adjusted by Holm's method for
    the number of columns.
    """
    inputs = {"OLD": Path(old), "NEW": Path(new)}
    roles = Roles(features=names_in(features), drop=names_in(drop), missing=words_in(missing))
    settings: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    columns = None
    if _is_model(Path(old)):
        roles.refuse_others(f"{old} is a model, which knows its columns")
        roles.refuse_words(f"{old} is a model, which keeps the words of its fit")
        if out is not None:
            raise ValueError(
                f"--out must be left out for a model; {old} is one: compare two tables."
            )
        with waiting("testing"):
            result, rows = _model_drift(Path(old), new, settings)
    else:
        if out is not None:
            _check_out(out, "a file of tests", _TESTED, inputs, force)
        with waiting("testing"):
            result, rows, columns = _table_drift(old, new, roles, settings, out)
    if as_json:
        found = {"p_value": result.p_value, "rows": rows, "permutations": result.n_permutations}
        print_json(found | ({} if out is None else {"columns": str(out)}))
        return
    verdict = "differ" if result.p_value <= 0.05 else "do not differ detectably"
    echo(f"{old} and {new} {verdict}: p-value {result.p_value:.3g}, {rows} new rows")
    if columns is not None:
        count = int((columns.adjusted <= 0.05).sum())
        echo(f"wrote {out} ({count} of {len(columns.names)} columns differ)")


def _is_model(path: Path) -> bool:
    try:
        return MODEL.is_own(path)
    except Exception:  # a table can be wrong in any way as a model
        return False


def _model_drift(path: Path, new: str, settings: Mapping[str, Any]) -> tuple[TestResult, int]:
    """The test of a model's rows against a table, and the rows of the table."""
    import numpy as np
    from scipy import sparse

    from mercer import persistence
    from mercer.cli.rows import to_predict
    from mercer.statistics import drift_test

    saved = persistence.load_saved(path)
    parts = [piece.X for piece in to_predict(new, saved, ()).pieces if piece.X.shape[0]]
    if not parts:
        raise ValueError("NEW must hold at least one row; got none.")
    if hasattr(parts[0], "schema"):
        import pyarrow

        X = pyarrow.concat_tables(parts)
    else:
        X = sparse.vstack(parts) if sparse.issparse(parts[0]) else np.concatenate(parts)
    return drift_test(saved.model, X, **settings), X.shape[0]


def _table_drift(
    old: str, new: str, roles: Roles, settings: Mapping[str, Any], out: Path | None
) -> tuple[TestResult, int, ColumnTests | None]:
    """The test of two tables, the rows of the second, and tests of single columns for a file."""
    import numpy as np
    import pyarrow

    from mercer.cli.read import frame_in
    from mercer.statistics import mmd_test

    before, _ = frame_in(old, roles)
    after, _ = frame_in(new, Roles(missing=roles.missing), before.column_names)
    try:
        both = pyarrow.concat_tables([before, after], promote_options="permissive")
    except pyarrow.ArrowException as error:
        reason = str(error).partition("Field ")[2] or str(error)
        raise ValueError(f"OLD and NEW must have columns of the same types; {reason}") from None
    n = before.num_rows
    result = mmd_test(both[:n], both[n:], **settings)
    if out is None:
        return result, after.num_rows, None
    from mercer.plots.unlabelled import column_tests, write_drift

    preparer, X = _treated(both, 0)  # as mmd_test treats rows
    columns = column_tests(X[:n], X[n:], preparer.origins_, both.column_names, **settings)
    if is_page(out):
        title = f"{Path(old).name} and {Path(new).name}"
        write_drift(both[:n], both[n:], columns, result.p_value, out, title)
    else:
        names = np.array(columns.names, dtype=object)
        values = (names, columns.statistics, columns.p_values, columns.adjusted)
        write_columns(out, [dict(zip(_TESTED, values, strict=True))])
    return result, after.num_rows, columns


def _treated(table: Any, seed: int) -> tuple[TablePreparer, Any]:
    """The fitted preparer of a table, and its rows as numbers (n, m)."""
    from mercer.preparation import TablePreparer

    preparer = TablePreparer(random_state=seed)
    X = preparer.fit_transform(table)
    return preparer, X


def _check_out(
    out: Path, name: str, columns: tuple[str, ...], inputs: dict[str, Path], force: bool
) -> None:
    """Refuse before the work a file that must not or cannot be written."""
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ValueError(f"--id must not name {twice!r}, which a column of the result is called.")
    kind = PAGE if is_page(out) else same_columns(name, columns)
    check_outputs([Output("--out", out, kind)], inputs, force)
