"""The transformer from raw tables to numbers on one scale."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.validation import check_consistent_length

from mercer._runtime.arrays import check_memory
from mercer._runtime.random import RandomStateLike, key_from
from mercer._runtime.rows import FarRows, PreparedRows
from mercer._runtime.state import Checked, State
from mercer._runtime.threads import one_blas_thread
from mercer._runtime.validation import (
    check_weights,
    flag,
    group_codes,
    integer,
    name_from,
    shown,
)
from mercer.preparation.calendar import PARTS, cycles, days
from mercer.preparation.columns import TableColumns, checked_table, read
from mercer.preparation.display import TellsColumns, left_out, reasons, table_of_columns
from mercer.preparation.far import fitted_to_far
from mercer.preparation.frames import rows_of
from mercer.preparation.gaps import checked_like, reading_of
from mercer.preparation.label_parts import (
    LABELS,
    LabelTreatment,
    Once,
    Several,
    each_time,
    fitted_part,
    may_be_identities,
)
from mercer.preparation.labels import Counts, OneHot, TargetCodes
from mercer.preparation.numeric import (
    MOST_IDENTITIES,
    TREATMENTS,
    Numbers,
    Values,
    few_integers,
    quantile_rows,
    repeating_integers,
    worth_keeping,
)
from mercer.preparation.pieces import COPIES, by_pieces, goes_by_pieces, sampled
from mercer.preparation.recognition import FORMATS
from mercer.preparation.repeats import copies_in
from mercer.preparation.texts import Texts

__all__ = ["TablePreparer", "treated"]


class TablePreparer(TellsColumns, Checked, TransformerMixin, BaseEstimator):
    """Transformer from raw tables to numbers of comparable scale, the input of kernels.

    Columns of numbers, booleans and time spans are scaled. Labels (strings, categories) become one
    column of 0 and 1 per label or, if there are many labels, the mean target of the label. A label
    unknown to the fit lies amid the others: 0 in each column, or 0.5 in the one column of two
    labels; without y it is as far from each label as these from each other. Dates become a number
    of days and positions in the year, the week and the day. Columns whose strings all read as
    numbers (also with currency, percent signs and separators), booleans, dates or time spans are
    read as such in the unit of the fit; codes such as 00501 are labels. Columns whose strings
    mostly begin with a number ("23.4 kmpl") give it beside their labels. Columns of free text
    become the predictions of a linear model on their word counts. Constant and repeated columns and
    row identifiers are left out with a warning. CSR matrices are only scaled, each column by its
    largest absolute value.

    Parameters
    ----------
    numbers : {"robust", "standard", "quantile"}, default="robust"
        Scaling of numbers. "standard" gives mean 0 and variance 1. "robust" takes the distance z
        from the median in units of the interquartile spread, maps it to z / sqrt(1 + (z / 3)**2),
        which bounds outliers, and standardises the result. "quantile" takes ranks. "robust" and
        "quantile" map columns of two values to 0 and 1.
    labels : {"codes", "numbers", "words", "plain"}, default="numbers"
        Treatment of columns of labels. "codes" is one of labels alone. "numbers" also reads the
        numbers in columns whose texts mostly begin with one, such as "23.4 kmpl", "1.2 Lacs",
        "2100 - 2850" or "10,000+": units of one dimension are converted, a range becomes its middle
        and its width, and texts without a number are missing numbers. "words" also gives columns of
        many labels the response of a linear model on their n-grams and the leading singular
        directions of these, so that labels that share words are near each other. "plain" is
        "numbers", but columns of free text get codes as well.
    max_labels : int, default=20
        Largest number of labels of a column that becomes one column of 0 and 1 per label, >= 0.
        More labels become their mean target, shrunk towards the mean of all rows; ``fit_transform``
        leaves out the own target of a row. Without y they become the logarithm of their count.
    max_integers : int, default=0
        Largest number of values, from 3 on, of a column of whole numbers that becomes one column of
        0 and 1 per value. 0 treats whole numbers as numbers.
    identities : bool, default=False
        Whether what repeats gets a column of 0 and 1 for each value as well: labels of more than
        ``max_labels`` values, and whole numbers of 9 values or more. Two rows of one person, place
        or year are then nearer to each other than to all others. Values of a single row have no
        column, nor have all but the 1000 most frequent of a column; a column in which most
        rows have a value of their own gets none.
    without : sequence of str, default=()
        Names of input columns that nothing is made of; x0, x1 and so on of tables without names.
    indicators : bool, default=True
        Whether a column of numbers or dates with missing cells gets a second column, which is 1
        where a cell is missing. The missing cells themselves become the mean.
    target : {"auto", "continuous", "classes"}, default="auto"
        Kind of y, for the mean targets of labels. "auto" means "continuous" if y has fractions,
        else "classes".
    dtype : {"float32", "float64"} or None, default=None
        Type of the output; None means float32 for float32 and short integers, else float64.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the folds and of the rows that quantiles of large tables are computed from.

    Attributes
    ----------
    kinds_ : list of str
        Kind of each input column: "number", "label" or "date".
    formats_ : list of str
        Format of each column of strings that are numbers or dates, such as "percent" or "date,
        month first"; "" for labels and for columns without strings. ``transform`` reads plain
        numbers in this unit, with a warning, and refuses percentages where the fit had none.
    columns_ : dict of ndarray
        Table of the input columns: "column", "kind", "format" and "became", the names of the output
        columns or the reason why there is none.
    origins_ : ndarray of shape (n_features_out,)
        Index of the input column of each output column.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of str
        Names of the input columns, if the table has names.

    Raises
    ------
    ValueError, TypeError
        At ``fit``, if a setting or a column is invalid, or a number is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import TablePreparer
    >>> table = np.array([[1.0, "red"], [3.0, "blue"], [np.nan, "red"]], dtype=object)
    >>> preparer = TablePreparer(numbers="standard").fit(table)
    >>> preparer.get_feature_names_out().tolist()
    ['x0', 'x0=missing', 'x1=red']
    >>> preparer.transform([[2.0, "green"], [3.0, "red"]])
    array([[ 0.,  0., -1.],
           [ 1.,  0.,  1.]])
    """

    _fitted_by: ClassVar[str] = "kinds_"
    _kept_settings: ClassVar[tuple[str, ...]] = ("dtype",)
    _dtype_: str | None

    def __init__(
        self,
        numbers: str = "robust",
        *,
        labels: str = "numbers",
        max_labels: int = 20,
        max_integers: int = 0,
        identities: bool = False,
        without: Sequence[str] = (),
        indicators: bool = True,
        target: str = "auto",
        dtype: DTypeLike | None = None,
        random_state: RandomStateLike = None,
    ):
        self.numbers = numbers
        self.labels = labels
        self.max_labels = max_labels
        self.max_integers = max_integers
        self.identities = identities
        self.without = without
        self.indicators = indicators
        self.target = target
        self.dtype = dtype
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn the columns and their scales.

        Parameters
        ----------
        X : data frame, array or CSR of shape (n, d)
        y : array of shape (n,) or (n, k), default=None
            Targets, used only for columns of many labels and of free text.
        sample_weight : array of shape (n,), default=None
            Weight per row, >= 0, of its target in mean targets of labels. A row of weight 0 is left
            out.
        groups : array of shape (n,), default=None
            Group label per row; mean targets for a row leave out the targets of its group.

        Returns
        -------
        self
        """
        self.fit_transform(X, y, sample_weight, groups)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Any:
        """Fit to X and transform it; mean targets of labels leave out the own target of a row.

        Parameters
        ----------
        X : data frame, array or CSR of shape (n, d)
        y : array of shape (n,) or (n, k), default=None
        sample_weight, groups : array of shape (n,), default=None
            As for ``fit``.

        Returns
        -------
        array of shape (n, m), or CSR of shape (n, d)
        """
        self._check_settings()
        self._forget()
        X = checked_table(self, X, reset=True)
        if y is not None:
            check_consistent_length(X, y)
        weights, groups = check_weights(sample_weight, X), group_codes(groups, X)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            y = None if y is None else np.asarray(y)[kept]
            groups = None if groups is None else groups[kept]
            of_kept = self._fit_transform(rows_of(X, kept), y, weights[kept], groups)
            out = self._transform_checked(X)
            if isinstance(out, np.ndarray):
                out[kept] = of_kept
            return out
        return self._fit_transform(X, y, weights, groups)

    def _fit_transform(
        self, X: Any, y: Any, weights: NDArray | None, groups: NDArray | None
    ) -> Any:
        """Learn from and transform checked rows; interrupts and errors unfit."""
        try:
            with one_blas_thread():
                return self._learn(X, y, weights, groups)
        except BaseException:
            self._forget()
            raise

    def _learn(self, X: Any, y: Any, weights: NDArray | None, groups: NDArray | None) -> Any:
        """Learn from and transform rows that are checked and all have a weight."""
        if y is not None and groups is None:  # copies share a fold, so that their codes are equal
            copies = copies_in(X, np.asarray(y), warns=False)
            groups = None if copies is None else copies.number
        without = self._places_without()
        if sparse.issparse(X):
            if without:
                raise ValueError(
                    f"without must be empty for sparse rows; got {shown(self.without)}: select "
                    "columns of X."
                )
            self.sparse_scaler_ = MaxAbsScaler().fit(X)
            self.kinds_, self.formats_ = ["number"] * X.shape[1], [""] * X.shape[1]
            return self._in_dtype(self.sparse_scaler_.transform(X))
        if isinstance(X, FarRows):
            return fitted_to_far(self, X, y, weights, groups)
        if goes_by_pieces(X):
            return self._fit_to_sample(X, y, weights, groups)
        check_memory(
            COPIES * 8.0 * X.shape[0] * X.shape[1],
            f"the treatment of {X.shape[0]} rows of {X.shape[1]} columns",
            "fit to fewer rows, or fit a model of plain numbers that takes them in pieces",
        )
        out = self._fit_columns(read(X, self._names()), y, weights, groups)
        self._warn_of_left_out()
        return out

    def transform(self, X: Any) -> Any:
        """Rows on the scales of the fit; labels unknown to the fit have no column.

        Parameters
        ----------
        X : data frame, array or CSR of shape (n, d)

        Returns
        -------
        array of shape (n, m), or CSR of shape (n, d)
            Rows that are transformed when they are read, for an array of numbers too large for
            memory: models of mercer read them in pieces, other estimators as an array.
        """
        self._check_fitted()
        return self._transform_checked(checked_like(self, [self], X))

    def _transform_checked(self, X: Any) -> Any:
        if isinstance(X, TableColumns):
            return self._transform_columns(X)
        if self.sparse_scaler_ is not None:
            return self._in_dtype(self.sparse_scaler_.transform(sparse.csr_array(X)))
        if sparse.issparse(X):
            X = X.toarray()
        if goes_by_pieces(X):
            return by_pieces(X, self._transformed)
        return self._transformed(X)

    def _transformed(self, X: Any) -> NDArray:
        return self._transform_columns(read(X, self._names(), reading_of([self])))

    def _transform_columns(self, columns: TableColumns, once: Once = each_time) -> NDArray:
        """Transform columns that are read and checked; ``once`` keeps what parts make of them."""
        pieces = [self.numbers_.transform(self._block(columns))]
        for place, part in self.parts_:
            values = self._of(columns, place, part)
            for inner in part.parts if isinstance(part, Several) else [part]:
                pieces.append(once(id(inner), partial(_with_part, inner, values))[1])
        pieces += self._cycles(columns, once)
        return self._finished(np.column_stack(pieces), columns)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the columns that come out, such as ``age`` or ``city=Paris``.

        Parameters
        ----------
        input_features : array of str, default=None
            Names of the input columns; None takes those of the fit, else x0, x1 and so on.

        Returns
        -------
        ndarray of str objects of shape (m,)
        """
        self._check_fitted()
        # Those of a map of a column to a column: given, remembered or numbered.
        names = list(map(str, OneToOneFeatureMixin.get_feature_names_out(self, input_features)))
        if self.sparse_scaler_ is not None:
            return np.array(names, dtype=object)
        inputs = [names[place] for place in self._number_places_]
        names_out = self.numbers_.names(inputs)
        for place, part in self.parts_:
            names_out.extend(part.names(names[place]))
        for place in self._places("date"):
            names_out.extend(f"{names[place]}:{wave}" for wave in PARTS)
        return np.array(names_out, dtype=object)[self._kept_]

    @property
    def origins_(self) -> NDArray[np.int64]:
        if self.sparse_scaler_ is not None:
            return np.arange(self.n_features_in_)
        return self._all_origins()[self._kept_]

    @property
    def columns_(self) -> dict[str, NDArray]:
        self._check_fitted()
        names, parts = self._names(), dict(getattr(self, "parts_", []))  # CSR rows have no parts
        kinds = [
            "text" if isinstance(parts.get(place), Texts) else kind
            for place, kind in enumerate(self.kinds_)
        ]
        left_out = getattr(self, "_left_out_", [""] * len(names))
        made = self.get_feature_names_out()
        return table_of_columns(names, kinds, self.formats_, left_out, made, self.origins_)

    @property
    def has_few_integers(self) -> bool:
        """True if some column of few whole numbers became a column for each of them."""
        return any(isinstance(part, Values) and not part.beside for _, part in self.parts_)

    # -- fitting -----------------------------------------------------------------------------

    def _check_settings(self) -> None:
        name_from(self.numbers, TREATMENTS, "numbers")
        name_from(self.labels, LABELS, "labels")
        name_from(self.target, ("auto", "continuous", "classes"), "target")
        flag(self.identities, "identities")
        known = isinstance(self.without, Sequence) and not isinstance(self.without, str)
        if not known or not all(isinstance(name, str) for name in self.without):
            raise TypeError(
                f"without must be a sequence of names of columns; got {shown(self.without)}."
            )
        flag(self.indicators, "indicators")
        if self.dtype is not None:
            name_from(self.dtype, ("float32", "float64"), "dtype")
        for name in ("max_labels", "max_integers"):
            integer(getattr(self, name), name, least=0)

    def _fit_columns(
        self,
        columns: TableColumns,
        y: Any,
        weights: NDArray | None = None,
        groups: NDArray | None = None,
        once: Once = each_time,
    ) -> NDArray:
        """Learn from and transform columns that are read and checked."""
        self.sparse_scaler_ = None
        reading = columns.reading()
        self.kinds_, self.formats_ = reading.kinds, reading.formats
        self._key = key_from(self.random_state)
        out = np.column_stack(self._fit_pieces(columns, y, weights, groups, once))
        origins, without = self._all_origins(), self._places_without()
        wanted = np.flatnonzero(~np.isin(origins, without))
        self._kept_ = np.zeros(out.shape[1], dtype=bool)
        self._kept_[wanted[worth_keeping(out[:, wanted])]] = True
        self._left_out_ = reasons(out, columns, origins, self._kept_)
        for place in without:
            self._left_out_[place] = "is named in without"
        return self._finished(out, columns)

    def _fit_to_sample(
        self, X: Any, y: Any, weights: NDArray | None, groups: NDArray | None
    ) -> PreparedRows:
        """Learn from some rows; all of them are treated when they are read."""
        rows = sampled(X.shape[0], self.random_state)
        y, weights, groups = (
            None if v is None else np.asarray(v)[rows] for v in (y, weights, groups)
        )
        self._fit_columns(read(X[rows], self._names()), y, weights, groups)
        self._warn_of_left_out()
        return by_pieces(X, self._transformed)

    def _fit_pieces(
        self,
        columns: TableColumns,
        y: Any,
        weights: NDArray | None,
        groups: NDArray | None,
        once: Once,
    ) -> list[NDArray]:
        few = few_integers(columns.places, columns.numbers, self.max_integers)
        self.parts_: list[tuple[int, Any]] = [
            (place, Values.of(columns.number(place), v)) for place, v in few.items()
        ]
        if self.identities:
            repeating = repeating_integers(columns.places, columns.numbers)
            of_numbers = {place: v for place, v in repeating.items() if place not in few}
            self.parts_ += [
                (place, Values.of(columns.number(place), v, beside=True))
                for place, v in of_numbers.items()
            ]
            self._check_identities(columns, sum(map(len, of_numbers.values())))
        block = self._block(columns)
        rows = quantile_rows(self._key, columns.n_rows)
        self.numbers_ = Numbers(self.numbers, bool(self.indicators))
        pieces = [self.numbers_.fit_transform(block, rows)]
        for place, part in self.parts_:
            pieces.append(part.transform(self._of(columns, place, part)))
        how = LabelTreatment(
            *(self.labels, self.max_labels, self.target, self.numbers, bool(self.indicators)),
            *(bool(self.identities), self._key),
        )
        for place, labels in columns.labels.items():
            own = _of_place(once, place)
            part, piece = fitted_part(labels, y, weights, groups, how, own)
            self.parts_.append((place, part))
            pieces.append(piece)
        pieces += self._cycles(columns, once)
        return pieces

    def _cycles(self, columns: TableColumns, once: Once) -> list[NDArray]:
        """Parts of the year and the week of the dates."""
        dates = {place: columns.dates[place] for place in self._places("date")}
        return [once(("cycles", place), partial(cycles, each)) for place, each in dates.items()]

    def _check_identities(self, columns: TableColumns, n_values: int) -> None:
        """Raise a MemoryError without room for columns of numbers and labels that repeat."""
        for labels in columns.labels.values():
            if may_be_identities(labels, self.max_labels):
                n_values += min(len(labels.texts), MOST_IDENTITIES)
        check_memory(
            COPIES * 8.0 * columns.n_rows * n_values,
            f"a column for each of {n_values} values that repeat in {columns.n_rows} rows",
            "leave identities=False, or fit to fewer rows",
        )

    def _warn_of_left_out(self) -> None:
        """Say once which columns with names nothing is made of."""
        if not hasattr(self, "feature_names_in_"):  # pixels that are always black, for example
            return
        asked = self._places_without()
        unasked = ["" if j in asked else why for j, why in enumerate(self._left_out_)]
        if told := left_out(self._names(), unasked):
            warnings.warn(told, UserWarning, stacklevel=3)

    # -- columns -----------------------------------------------------------------------------

    def _names(self) -> list[str]:
        numbered = [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in getattr(self, "feature_names_in_", numbered)]

    def _places_without(self) -> list[int]:
        """Places of the input columns that nothing is made of."""
        names = self._names()
        unknown = [name for name in self.without if name not in names]
        if unknown:
            raise ValueError(f"without must name columns of X; {unknown[0]!r} is none of them.")
        if self.without and set(names) == set(self.without):
            raise ValueError("without must leave a column of X; it names them all.")
        return [place for place, name in enumerate(names) if name in self.without]

    @property
    def unused_places(self) -> frozenset[int]:
        """Places of the input columns that the fit made nothing of."""
        return frozenset(place for place, why in enumerate(self._left_out_) if why)

    @property
    def _number_places_(self) -> list[int]:
        """Columns that are brought to one scale: plain numbers, then dates."""
        few = {place for place, p in self.parts_ if isinstance(p, Values) and not p.beside}
        plain = [place for place in self._places("number") if place not in few]
        return plain + self._places("date")

    def _check_state(self) -> None:
        state, d = State(self), State(self).integer("n_features_in_", 1)
        kinds = state.instance("kinds_", list)
        known = len(kinds) == d and all(kind in ("number", "label", "date") for kind in kinds)
        state.check("kinds_", f"say 'number', 'label' or 'date' {d} times", known)
        formats = state.instance("formats_", list)
        known = len(formats) == d and all(f == "" or f in FORMATS for f in formats)
        state.check("formats_", f"name {d} formats of texts", known)
        state.one_of("_dtype_", (None, "float32", "float64"))
        if state.instance("sparse_scaler_", (MaxAbsScaler, type(None))) is not None:
            scaler = State(self.sparse_scaler_)
            scaler.check("scale_", "be positive", (scaler.array("scale_", (d,)) > 0).all())
            scaler.check("copy", "be True", scaler.flag("copy"))
            return
        self._check_parts(state)
        state.instance("numbers_", Numbers).check_state(len(self._number_places_))
        state.array("_kept_", (len(self._all_origins()),), "?")
        reasons = state.instance("_left_out_", list)
        known = len(reasons) == d and all(isinstance(reason, str) for reason in reasons)
        state.check("_left_out_", f"hold {d} texts", known)

    def _check_parts(self, state: State) -> None:
        """Raise unless every label column, and numeric columns at most, has a part that fits it."""
        parts = state.instance("parts_", list)
        pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in parts)
        state.check("parts_", "be a list of pairs of a place and a part", pairs)
        treated = {"number": (Values,), "label": (OneHot, Counts, TargetCodes, Texts, Several)}
        for place, part in parts:
            is_place = isinstance(place, int) and 0 <= place < len(self.kinds_)
            fits = is_place and isinstance(part, treated.get(self.kinds_[place], ()))
            state.check("parts_", "treat columns of labels or whole numbers", fits)
            part.check_state()
        labels = [place for place, part in parts if not isinstance(part, Values)]
        state.check("parts_", "treat every label", sorted(labels) == self._places("label"))

    def _places(self, kind: str) -> list[int]:
        return [place for place, found_kind in enumerate(self.kinds_) if found_kind == kind]

    def _block(self, columns: TableColumns) -> NDArray:
        """The numbers that are treated as such, then the days of the dates."""
        dates = self._places("date")
        plain = self._number_places_[: len(self._number_places_) - len(dates)]
        block = columns.numbers
        if len(plain) < len(columns.places):
            block = block[:, np.isin(columns.places, plain)]
        if dates:
            block = np.column_stack([block, *(days(columns.dates[place]) for place in dates)])
        if np.isinf(block).any():
            at = self._number_places_[int(np.flatnonzero(np.isinf(block).any(axis=0))[0])]
            raise ValueError(
                f"X must not hold infinity; column {columns.names[at]!r} does (NaN may stand for "
                "what is missing)."
            )
        return block

    @staticmethod
    def _of(columns: TableColumns, place: int, part: Any) -> Any:
        """The values that a part transforms."""
        if isinstance(part, Values):
            return columns.number(place)
        return columns.labels[place]

    def _all_origins(self) -> NDArray[np.int64]:
        """The input column of every column there would be if none were left out."""
        origins = [np.array(self._number_places_, dtype=np.int64)[self.numbers_.origins()]]
        origins += [np.full(len(part.names("")), place) for place, part in self.parts_]
        origins += [np.full(len(PARTS), place) for place in self._places("date")]
        return np.concatenate(origins)

    def _in_dtype(self, X: Any) -> Any:
        return X if self._dtype_ is None else X.astype(self._dtype_, copy=False)

    def _finished(self, out: NDArray, columns: TableColumns) -> NDArray:
        short = columns.numbers.dtype == np.float32 and not columns.dates
        dtype = np.dtype(self._dtype_ or ("float32" if short else "float64"))
        return np.ascontiguousarray(out if self._kept_.all() else out[:, self._kept_], dtype=dtype)


def _with_part(part: Any, values: Any) -> tuple[Any, NDArray]:
    """The part, whose id names no other object while it is there, and the columns it makes."""
    return part, part.transform(values)


def _of_place(once: Once, place: int) -> Once:
    """Results for one column of the table."""
    return lambda key, make: once((place, key), make)


def treated(
    preparer: TablePreparer,
    fitted: TableColumns,
    others: TableColumns,
    y: Any,
    weights: NDArray | None = None,
    groups: NDArray | None = None,
    once: Once = each_time,
) -> tuple[NDArray, NDArray]:
    """Columns of the rows that a preparer is fitted to, and of others, as it treats them.

    They are read and checked already: the same columns may be treated in several ways, by preparers
    of the same targets and key, which share what ``once`` keeps.
    """
    preparer._forget()
    preparer.n_features_in_ = len(fitted.names)
    out = preparer._fit_columns(fitted, y, weights, groups, once)
    return out, preparer._transform_columns(others, lambda key, make: once(("others", key), make))
