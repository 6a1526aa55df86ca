"""
The C++ core. Arrays are C-contiguous, results are written into arrays the caller owns.

Every function releases the interpreter lock and checks type, shape, alignment and
writability of its arrays, that those it writes share no memory with others, and that
indices stay where they belong: TypeError for a wrong type, ValueError for anything
else, naming the argument. Only the codes of ``binned_matvec``, ``binned_rmatvec`` and
``binned_gram_matvec`` are taken on trust where ``missing`` is false: a look at them
would cost up to a fourth of the product. Who makes a design sees to it
(`designs.Binned`). Other values are not checked; whatever they are, no memory is
touched but that of the arguments.

Arrays must not be changed or resized while a function runs, or while an object keeps
them. Of ``n_threads``, at least 1, at most 1024 are used. The environment variable
``MERCER_ISA`` (x86-64-v2, -v3 or -v4) lowers the instruction set chosen when the module
is imported.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

_Floats: TypeAlias = NDArray[np.float32 | np.float64]
_Indices: TypeAlias = NDArray[np.int32 | np.int64]
_Codes: TypeAlias = NDArray[np.uint8 | np.uint16 | np.uint32]
_Rows: TypeAlias = _Floats | tuple[_Floats, _Indices, _Indices, int]
_Int64s: TypeAlias = NDArray[np.int64]
_Uint32s: TypeAlias = NDArray[np.uint32]
_Uint64s: TypeAlias = NDArray[np.uint64]
_Float64s: TypeAlias = NDArray[np.float64]

def cpu_info() -> dict[str, Any]:
    """The processor's ``architecture`` and ``features``, the instruction-set levels
    ``compiled`` into this build and the one ``used``.
    """

def random_bits(key: int, slot: int, streams: _Int64s, size: int, n_threads: int = 1) -> _Uint64s:
    """Bits (m, size): position p of stream s is word p % 4 of Philox 4x64-10 with counter (p
    // 4, s, slot, 0) and key (key, 0). Any element can be had without its predecessors.
    """

def random_uniform(
    key: int, slot: int, streams: _Int64s, size: int, n_threads: int = 1
) -> _Float64s:
    """``((bits >> 12) + 0.5) * 2**-52``: uniform on the open interval (0, 1)."""

def flush_denormals(flush: bool) -> bool:
    """Whether numbers too small for their full precision become 0 in this thread and in threads
    that it begins; returns what held before. False where a processor has no such mode.
    """

class BinTable:
    """For each of ``n_grids`` grids, a dictionary from the keys of its bins to 0, 1, 2, ...

    Lookups may run side by side; an insertion waits until it is alone.

    The code of input j in a grid is floor(x_j * inverse_width_j - shift_j): multiply,
    subtract and floor in float64, clamped to the range of int32. The key of a bin is
        h1 | h2 << 32,   h1 = sum_j code_j * (multiplier_j mod 2**32) mod 2**32,
                         h2 = sum_j code_j * (multiplier_j >> 32)     mod 2**32.
    Data are one array (n, d), or data, indices and indptr of a CSR matrix, the latter two
    of one type, and the number d of its columns. No column may occur twice in a row of a
    CSR matrix. A sparse matrix and its dense form give the same codes, bit for bit.
    """

    def __init__(self, n_grids: int) -> None: ...
    def insert(
        self,
        first_grid: int,
        X: _Rows,
        inverse_widths: _Float64s,
        shifts: _Float64s,
        multipliers: _Uint64s,
        codes: _Codes,
        n_threads: int,
    ) -> bool:
        """Number the bins of the rows of X in grids ``first_grid`` .. ``first_grid`` + G - 1,
        given their parameters (G, d), and write ``codes`` (G, n).

        Bins new to a grid get the next number, in the order of rows, whatever the number of
        threads. False if a grid has more bins than the codes can tell apart from "unknown":
        repeat the call with wider codes.
        """

    def lookup(
        self,
        first_grid: int,
        X: _Rows,
        inverse_widths: _Float64s,
        shifts: _Float64s,
        multipliers: _Uint64s,
        codes: _Codes,
        n_threads: int,
    ) -> int:
        """Write the number of every row's bin in every grid, ``n_bins`` of the grid where it is
        unknown; returns how many are.
        """

    def add_matvec(
        self,
        first_grid: int,
        X: _Rows,
        inverse_widths: _Float64s,
        shifts: _Float64s,
        multipliers: _Uint64s,
        w: _Floats,
        out: _Floats,
        n_threads: int,
    ) -> int:
        """out (n) += Z w over grids ``first_grid``, a multiple of 4, and on, without codes.

        Bit-identical to ``binned_matvec`` of the codes that ``lookup`` writes, with missing
        ones, over all grids, whatever the number of threads. w (D) has a number for every bin
        of all grids of the table, or (D, k); w and ``out`` are of the type of the data. Returns
        how many pairs of row and grid have an unknown bin.
        """

    @property
    def n_bins(self) -> _Int64s:
        """Number of bins of each grid (a copy)."""

    def keys(self) -> _Uint64s:
        """Keys of all bins, grid after grid, each in the order of its numbers."""

    @staticmethod
    def from_keys(keys: _Uint64s, n_bins: _Int64s, n_threads: int = 1) -> BinTable:
        """The table with these ``keys()`` and ``n_bins``."""

def bin_hashed(
    X: _Rows,
    inverse_widths: _Float64s,
    shifts: _Float64s,
    multipliers: _Uint64s,
    n_columns: int,
    codes: _Codes,
    n_threads: int,
) -> None:
    """Write codes (G, n) below ``n_columns`` without a dictionary: ``mixed * n_columns >>
    32``, where ``a = (h1 ^ h1 >> 16) * 0x7feb352d`` and ``mixed = a ^ a >> 15 ^ h2``, all
    in 32 bits; the rest as for ``BinTable.insert``.
    """

def binned_matvec(
    codes: _Codes,
    offsets: _Int64s,
    w: _Floats,
    out: _Floats,
    scale: float,
    missing: bool,
    n_threads: int,
) -> None:
    """out (n) = scale * Z w.

    Row i of Z (n, D) has a 1 in column offsets[g] + codes[g, i] for each grid g. ``codes``
    are (G, n), ``offsets`` (G + 1), with less than 2**32 columns a grid. With ``missing``,
    a code that is not below its grid's number of columns stands for no entry; without it
    such a code must not occur: memory is read or written out of bounds. Operands and
    results are of one type, (length,) or (length, k). Sums over rows are kept in float64,
    sums over grids in the type of the operand.
    """

def binned_rmatvec(
    codes: _Codes,
    offsets: _Int64s,
    v: _Floats,
    out: _Floats,
    scale: float,
    missing: bool,
    n_threads: int,
) -> None:
    """out (D) = scale * Z' v; arguments as for ``binned_matvec``."""

def binned_gram_matvec(
    codes: _Codes,
    offsets: _Int64s,
    v: _Floats,
    out: _Floats,
    scale: float,
    missing: bool,
    n_threads: int,
) -> None:
    """out (n) = scale * Z (Z' v) in one pass over the codes, arguments as for
    ``binned_matvec``. ``scale`` is the whole factor: the square of the value of an entry.
    Bit-identical for equal ``n_threads``.
    """

def bin_sizes(codes: _Codes, offsets: _Int64s, n_threads: int) -> tuple[_Int64s, _Int64s, _Int64s]:
    """Rows in the fullest column of every grid (G); the numbers of rows, at least 1, that
    columns have, ascending; and how many columns have each.
    """

def cosine_block(
    X: _Floats, frequencies: _Floats, phases: _Floats, scale: float, out: _Floats, n_threads: int
) -> None:
    """out (n, m) = scale * cos(X @ frequencies.T + phases), all float32 or all float64.

    Errors of the cosine itself: 2e-7 for float32 arguments up to 1e4, 1e-15 for float64
    ones up to 1e6; beyond, digits are lost as they are in the argument. Values never leave
    [-scale, scale].
    """

def cosine_pairs(
    X: _Floats, frequencies: _Floats, scale: float, out: _Floats, n_threads: int
) -> None:
    """out (n, 2 m): column 2 s = scale * cosine, column 2 s + 1 = scale * sine of X @
    frequencies[s].
    """

def cosine_product(
    X: _Floats,
    frequencies: _Floats,
    phases: _Floats,
    scale: float,
    weights: _Float64s,
    sums: _Float64s,
    n_threads: int,
) -> None:
    """sums (n, k) += scale * cos(X @ frequencies.T + phases) @ weights, the cosines as by
    ``cosine_block``, times weights (m, k) in float64; none is held. Neither the number of threads
    nor the other rows change a bit of a row.
    """

def cosine_inplace(values: _Floats, phases: _Floats, scale: float, n_threads: int) -> None:
    """values (n, m) = scale * cos(values + phases)."""

def cosine_pairs_from(arguments: _Floats, scale: float, out: _Floats, n_threads: int) -> None:
    """out (n, 2 m) from arguments (n, m), as ``cosine_pairs``."""

def hadamard(a: _Floats, n_threads: int) -> None:
    """a (m, L) = a @ H in place: every row is transformed. L is a power of two.

    H of order 1 is 1, H of order 2 L is (H, H; H, -H): unnormalised, H H = L times the
    identity. Results are the same to the last bit on every processor and for any number of
    threads.
    """

def hadamard_columns(a: _Floats, n_threads: int) -> None:
    """a (L, m) = H @ a in place: every column is transformed, as by ``hadamard``."""

def fastfood(
    X: _Floats,
    factors: _Floats,
    order: _Uint32s,
    gains: _Floats,
    lengths: _Floats,
    phases: _Floats | None,
    scale: float,
    out: _Floats,
    n_threads: int,
) -> None:
    """out (n, m) = scale * cos(projections + phases), or without phases (n, 2 m) pairs as
    ``cosine_pairs``. The projections of block b are ``lengths * H @ (gains[b] * (H @
    (factors[b] * x))[order[b]])``, x padded with zeros to L, H as for ``hadamard``.

    X is (n, d), ``factors`` (b, d), ``order`` and ``gains`` (b, L) with L a power of two of
    at least d, entries of ``order`` below L; ``lengths`` and ``phases`` (m), m at most b L.
    """

def kernel_block(
    kernel: str,
    X: _Floats,
    Y: _Floats,
    centre: _Float64s,
    scale: _Float64s,
    parameter: float,
    out: _Floats,
    n_threads: int,
    single: bool = False,
) -> bool:
    """Write the kernel of the rows of X (n, d) and Y (m, d) into ``out`` (n, m).

    Of rows x and y, with t = |x_k - y_k| * scale_k: "sqeuclidean" is the sum s of t^2 over
    inputs, "gaussian" exp(-s), "exponential" exp(-sqrt(s)), "matern_3_2" (1 + r) exp(-r)
    with r = sqrt(3 s), "matern_5_2" (1 + r + r^2 / 3) exp(-r) with r = sqrt(5 s),
    "rational" 1 / (1 + s), "rational_power" (1 + s / parameter)^-parameter; "cityblock" is
    the sum of t, "laplacian" exp of minus it, "cauchy" the product of 1 / (1 + t^2). An
    exponential below 2^-1021 may be 0.

    Data and result are all float32 or all float64; float32 data are worked on in float64
    where float32 would be wrong by 1e-6, or with ``single`` by 2e-5. Distances are exactly
    0 and kernels 1 for equal rows, and the matrix of rows with themselves is symmetric, bit
    for bit. ``centre`` (d) only serves accuracy: let it lie among the rows. ``scale`` (d)
    is positive. False, with ``out`` undefined, if squared distances overflow.
    """

def kernel_product(
    kernel: str,
    X: _Floats,
    Y: _Floats | None,
    centre: _Float64s,
    scale: _Float64s,
    parameter: float,
    w: _Floats,
    out: _Float64s,
    v: _Floats | None,
    out_of_y: _Float64s | None,
    n_threads: int,
    single: bool = False,
) -> bool:
    """out (n, k) += K w for the kernel K of the rows of X (n, d) and Y (m, d), which is not
    held; with ``v`` (n, k) also out_of_y (m, k) += K' v. Y may be None for X itself: then
    every pair is made once, and there is no ``v``.

    Weights are all float64, or of the type of the data; in float32 short sums are. The rest
    as for ``kernel_block``. Results depend on the number of threads to rounding, and on
    nothing else.
    """

def held_product(
    M: NDArray[np.float32], transposed: bool, weights: _Floats, out: _Float64s, n_threads: int
) -> None:
    """out (n, k) += M weights' for M (n, p) and weights (k, p), or, if ``transposed``, out (k,
    p) += weights' M for weights (n, k), in float64. For weights in float64 numbers are
    widened before they are multiplied; otherwise, which is for rows alone, sums of a
    thousand terms are float32. The number of threads changes no bit.
    """

def fixed_kernel_size(n: int) -> int:
    """How many fixed the kernel matrix of n rows takes, about n^2 / 2."""

def fixed_kernel(
    kernel: str,
    X: _Floats,
    centre: _Float64s,
    scale: _Float64s,
    parameter: float,
    fixed: NDArray[np.uint16 | np.uint32],
    n_threads: int,
) -> bool:
    """Write the kernel matrix of the rows of X (n, d) with themselves into ``fixed``
    (fixed_kernel_size(n)), half of it alone, in an order of the core's own: in 16 bits an
    entry (uint16) for float32 rows, in 31 bits (uint32) for float64 rows.

    The rest as for ``kernel_block`` with ``single``; values lie in [0, 1], so that
    "sqeuclidean" and "cityblock" are refused; rounding changes them by 2^-17, or 2^-32, at
    most.
    """

def fixed_product(
    fixed: NDArray[np.uint16 | np.uint32], w: _Floats, out: _Float64s, n_threads: int
) -> None:
    """out (n, k) += K w for the matrix of ``fixed_kernel`` and weights (n, k), float32 for
    numbers of 16 bits and float64 for those of 31.

    Sums of a few hundred terms have the type of the weights. Results depend on the number of
    threads to rounding, and on nothing else.
    """

def held_blocks(M: NDArray[np.float32], weights: _Float64s, out: _Float64s, n_threads: int) -> None:
    """out (q, p, k) += M weights' for each of q matrices M (q, p, p), with weights (q, k, p)
    of its own, in float64. The number of threads changes no bit.
    """

def distance_sums(weights: _Floats, columns: _Floats, out: _Float64s, n_threads: int) -> None:
    """out (d) += sum over i and j of weights[i, j] |x[i] - x[j]| for each of the ``columns``
    x (d, n), for symmetric weights (n, n) of the same type, whose lower triangle is not
    read. Sums of a row have that type. The number of threads changes no bit.
    """

def gram(
    Z: _Floats, transposed: bool, weights: _Float64s | None, out: _Float64s, n_threads: int
) -> None:
    """out (D, D) += Z' diag(weights) Z for Z (n, D), which comes as Z' if ``transposed``;
    ``out`` has to be symmetric. At most 1024 rows are summed up in the type of Z. The
    number of threads changes no bit.
    """

def bit_columns(
    codes: _Codes,
    offsets: _Int64s,
    columns: _Int64s,
    order: _Uint32s | None,
    out: _Uint64s,
    n_threads: int,
) -> None:
    """out (p, words): which rows of ``order``, or of all, have a code in each of the
    ``columns``, ascending.

    Rows come in blocks of 512, the last one filled up with zeros: 8 words of 64 bits a
    block.
    """

def bin_lists(
    codes: _Codes,
    offsets: _Int64s,
    columns: _Int64s,
    order: _Uint32s | None,
    starts: _Int64s,
    rows: _Uint32s,
    n_threads: int,
) -> None:
    """rows[starts[k]:starts[k + 1]]: positions in ``order``, or all rows, that have the code of
    the k-th of ``columns``, which ascend. ``rows`` needs room for all of them; as many as
    there are rows for every grid is enough.
    """

def bit_products(
    left: _Uint64s,
    right: _Uint64s,
    weights: _Uint32s | None,
    scale: float,
    out: _Float64s,
    n_threads: int,
) -> None:
    """out (a, b) = scale * weighted counts of the rows that columns share; one weight a block.
    The same array twice: half of it is counted. Counts are exact on every processor.
    """

def descend_gram(
    hessian: _Float64s,
    l1: _Float64s,
    l2: _Float64s,
    w: _Float64s,
    gradient: _Float64s,
    n_sweeps: int,
    tol: float,
) -> tuple[int, float]:
    """Sweeps over p variables of w'Hw / 2, whose gradient is kept, with the elastic net and
    the result of ``descend_columns``.
    """

def descend_columns(
    starts: _Int64s,
    rows: _Uint32s,
    values: _Float64s | None,
    scale: float,
    groups: _Int64s,
    order: _Int64s | None,
    l1: _Float64s,
    l2: _Float64s,
    curvature: _Float64s,
    w: _Float64s,
    slope: _Float64s,
    row_curvature: _Float64s | None,
    n_sweeps: int,
    tol: float,
    n_threads: int,
) -> tuple[int, float]:
    """Sweeps over sparse columns, a group of ``order`` at a time: its columns move at once.
    Rows ascend within a column.

    Minimises (1/n) sum_i (g_i e_i + h_i e_i^2 / 2) + sum_j (l1_j |w_j| + l2_j w_j^2 / 2)
    with e = Z (w - w_before), in place: ``slope`` (n) holds g + h e, ``curvature`` (p) is
    (1/n) sum h z^2, h is ``row_curvature``, or ones. Returns the number of sweeps and the
    largest change of the last one times its curvature.
    """

def list_product(
    starts: _Int64s,
    rows: _Uint32s,
    values: _Float64s | None,
    scale: float,
    order: _Int64s | None,
    w: _Float64s,
    out: _Float64s,
) -> None:
    """out (n) += Z w for sparse columns, all of them or those at positions ``order``."""

def list_sums(
    starts: _Int64s,
    rows: _Uint32s,
    values: _Float64s | None,
    scale: float,
    order: _Int64s | None,
    v: _Float64s,
    out: _Float64s,
) -> None:
    """out = Z' v for sparse columns, all of them or those at positions ``order``."""

def face_step(
    starts: _Int64s,
    rows: _Uint32s,
    values: _Float64s | None,
    scale: float,
    order: _Int64s,
    l2: float,
    centred: bool,
    diagonal: _Float64s,
    slope: _Float64s,
    row_curvature: _Float64s | None,
    n_turns: int,
    fall: float,
    step: _Float64s,
    moves: _Float64s,
) -> int:
    """Conjugate gradients, scaled by ``diagonal``, on the quadratic of ``descend_columns`` for the
    columns at positions ``order``, whose gradient is ``slope``: ``step`` is where it vanishes.
    ``centred``: with an intercept. ``moves`` (n) becomes Z ``step``. Ends after ``n_turns``
    products, or when the squared residual has fallen to the share ``fall``; returns the number
    of products.
    """

def descend_async(
    starts: _Int64s,
    rows: _Uint32s,
    values: _Float64s | None,
    scale: float,
    l1: _Float64s,
    l2: _Float64s,
    curvature: _Float64s,
    w: _Float64s,
    slope: _Float64s,
    row_curvature: _Float64s | None,
    n_sweeps: int,
    n_threads: int,
) -> None:
    """Sweeps of threads that do not wait for each other, each over columns of its own, as
    ``descend_columns``.
    """

def loss_slopes(loss: str, parameter: float, u: _Float64s, y: _Float64s, out: _Float64s) -> None:
    """Derivatives of a loss at responses u for targets y. ``loss`` is the name of a class of
    losses and ``parameter`` its delta or sigma.
    """

class AsyncSteps:
    """A design as steps see it; it keeps the arrays it is made of, which must not change.

    Steps minimise (1/n) sum_i weight_i loss(y_i, z_i w + b) with an l1 and an l2 part for
    every coordinate; w has an entry per column and, for an intercept, one more. Losses are
    those of ``loss_slopes``. Responses that are kept are ``u``, those of the intercept
    included, and None where they are recomputed.
    """

    @staticmethod
    def dense(rows: NDArray[np.float32 | np.float64 | np.uint16]) -> AsyncSteps:
        """Of rows (n, p); uint16 are the upper halves of float32 numbers."""

    @staticmethod
    def sparse(
        data: _Floats, indices: NDArray[np.int32], indptr: _Int64s, n_columns: int
    ) -> AsyncSteps:
        """Of compressed sparse rows, whose columns ascend."""

    @staticmethod
    def codes(codes: _Codes, offsets: _Int64s, scale: float, single: bool) -> AsyncSteps:
        """Of codes (n, R); ``single`` says whether weights are read in float32."""

    @staticmethod
    def kept_dense(columns: _Floats) -> AsyncSteps:
        """Of columns (p, n), with responses that are kept."""

    @staticmethod
    def kept_lists(
        starts: _Int64s, rows: _Uint32s, values: _Float64s | None, scale: float, n_rows: int
    ) -> AsyncSteps:
        """Of columns as lists of rows, ascending, with responses that are kept."""

    def draw_from(
        self, starts: _Int64s, rows: _Uint32s, values: _Float64s | None, scale: float
    ) -> None:
        """From now on rows of a step are among those in the list of its column."""

    def slopes(
        self,
        y: _Float64s,
        weights: _Float64s | None,
        loss: str,
        parameter: float,
        w: _Float64s,
        slopes: _Float64s,
        u: _Float64s | None,
        n_threads: int,
        rows: _Float64s | None = None,
    ) -> None:
        """weight_i times the derivative of the loss of every row, responses u_i as steps have them.

        ``rows``, if given, are those of ``walk``, and rows_i u_i is subtracted.
        """

    def walk(
        self,
        y: _Float64s,
        weights: _Float64s | None,
        loss: str,
        parameter: float,
        w: _Float64s,
        slopes: _Float64s,
        u: _Float64s | None,
        gradient: _Float64s,
        steps: _Float64s,
        l1: _Float64s,
        l2: _Float64s,
        key: int,
        slot: int,
        first: int,
        count: int,
        batch: int,
        width: int,
        n_threads: int,
        rows: _Float64s | None = None,
        matrix: NDArray[np.float32] | None = None,
        anchor: _Float64s | None = None,
        scale: float = 1.0,
    ) -> tuple[int, bool]:
        """Steps first .. first + count - 1 on w, along ``width`` neighbouring coordinates each.

        ``slopes`` and ``gradient``, of the mean loss, belong to the snapshot; ``steps`` are the
        lengths of the proximal steps. The low and high halves of the words of stream t of
        ``slot`` choose the coordinate and then the rows of step t: a half h stands for h * n >>
        32.

        With ``matrix``, which is H = (1/n) sum_i rows_i z_i z_i', a step is along one of the
        blocks of ``width`` coordinates from the first on. Its gradient is that of the snapshot at
        ``anchor``, plus H (w - anchor), plus what the derivatives of its rows have changed
        besides; and it goes to the minimum of that model, with ``scale`` times the block of H.

        Returns how many coordinates moved and whether all stayed finite.
        """

class KernelRows:
    """Where rows of a kernel matrix K come from: dense or CSR rows, left where they are; a
    matrix; or a function.

    For X, ``kernel``, ``centre``, ``scale`` and ``parameter`` are those of
    ``kernel_block``; rows are held in ``dtype``, "float32" or "float64". CSR rows are scaled
    already, and not for "cauchy". A function is
    called as ``function(rows, first, last)``, with at most ``at_once`` rows, and returns
    columns ``first`` .. ``last - 1`` of them in ``dtype``. With ``single``, float32 rows
    have the errors of ``kernel_block`` with ``single``.
    """

    @overload
    def __init__(
        self,
        kernel: str,
        X: _Floats,
        centre: _Float64s,
        scale: _Float64s,
        parameter: float,
        dtype: str,
        n_threads: int,
        single: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        kernel: str,
        data: _Float64s,
        indices: _Uint32s,
        indptr: _Int64s,
        n_inputs: int,
        parameter: float,
        dtype: str,
    ) -> None: ...
    @overload
    def __init__(self, matrix: _Floats) -> None: ...
    @overload
    def __init__(
        self, n: int, at_once: int, function: Callable[[_Int64s, int, int], _Floats], dtype: str
    ) -> None: ...
    def fill(self, rows: _Int64s, out: _Floats, n_threads: int) -> None:
        """Writes these rows into ``out`` (len(rows), n), an array of the dtype they are held in."""

    @property
    def n(self) -> int:
        """Number of rows."""

def add_rows(
    rows: _Floats, places: _Int64s, steps: _Float64s, sums: _Float64s, n_threads: int
) -> None:
    """sums (n) += the rows (m, n) at some places times their steps, summed up in float64 in this
    order, whatever the number of threads.
    """

class GreedyDescent:
    """Threads that each move the worst of their own variables, without waiting for each other.

    Minimises b'Kb / 2 + sum_v (extra_v b_v**2 / 2 + linear_v b_v) over lower <= b <= upper.
    ``b`` and ``sums`` (n), which has to be Kb, are moved together; ``curvature`` is the
    diagonal of K plus ``extra``. ``run`` returns the number of updates, the number of
    kernel rows that had to be made, and what its stopping rule saw last.

    Thread t owns ``starts[t]`` .. ``starts[t + 1] - 1`` and its share of ``cache_bytes``
    for kernel rows, which are kept from run to run; it moves up to ``block`` variables at
    once.
    """

    def __init__(self, rows: KernelRows, starts: _Int64s, cache_bytes: int, block: int) -> None: ...
    def run(
        self,
        linear: _Float64s,
        lower: _Float64s,
        upper: _Float64s,
        extra: _Float64s,
        curvature: _Float64s,
        b: _Float64s,
        sums: _Float64s,
        target: float,
        max_updates: int,
    ) -> tuple[int, int, float]:
        """Until |clip(b - slope) - b| is at most ``target``, as far as each thread can see. One
        run at a time.
        """

def descend_pairs(
    matrix: _Floats,
    linear: _Float64s,
    lower: _Float64s,
    upper: _Float64s,
    extra: _Float64s,
    curvature: _Float64s,
    b: _Float64s,
    sums: _Float64s,
    tol: float,
    max_updates: int,
) -> tuple[int, float]:
    """Moves pairs of variables, whose sum stays what it is, until none violates the conditions of
    optimality by more than ``tol``.

    The problem is that of ``GreedyDescent`` with the kernel matrix (n, n). Returns the number
    of pairs moved and how much one still violates optimality at most.
    """

def solve_leaves(
    X: NDArray[np.float32],
    order: _Int64s,
    starts: _Int64s,
    kernel: str,
    parameter: float,
    scale: _Float64s,
    targets: _Float64s,
    weights: _Float64s | None,
    ridges: _Float64s,
    fit_intercept: bool,
    tol: float,
    coef: _Float64s,
    intercept: _Float64s,
    residual: _Float64s,
    n_threads: int,
) -> None:
    """Solve an exact kernel machine for every leaf and every one of q ridges.

    Leaf l has the rows order[starts[l]:starts[l + 1]] of X (n, d); a row may be in several
    leaves. With their kernel matrix K, as ``kernel_block`` makes it in float32 with
    ``single``, and targets y (n, k) it is (K + ridge diag(1 / weights)) a + b = y with the
    sum of a being 0; without ``fit_intercept`` b is 0 and the sum is free. The rows of a
    stand in coef[r] (q, len(order), k) in the order of ``order``, b in intercept (q,
    leaves, k).

    The factor is float32, and refined until residual (q, leaves) is at most ``tol`` or falls
    no more: the largest norm, over outputs, of what is left of y relative to that of y without
    its mean (without ``fit_intercept``, of y). It is infinite, with coefficients of 0, where
    there is no factor in float32 or squared distances overflow. With a ``tol`` of 1e-4 or
    more, few outputs and no intercept, the factor of a large leaf also serves, in iterations,
    for the next ridges that are near. The number of threads changes no bit; each has memory for
    about n^2 float32 numbers of the largest leaf.
    """

def minimise_leaves(
    X: NDArray[np.float32],
    order: _Int64s,
    starts: _Int64s,
    kernel: str,
    parameter: float,
    scale: _Float64s,
    targets: _Float64s,
    weights: _Float64s | None,
    ridges: _Float64s,
    fit_intercept: bool,
    loss: str,
    loss_parameter: float,
    tol: float,
    max_iter: int,
    coef: _Float64s,
    intercept: _Float64s,
    residual: _Float64s,
    steps: _Int64s,
    n_threads: int,
) -> None:
    """Minimise a loss in every leaf for every one of q ridges, by Newton's method.

    Leaves, arrays and float32 kernels K are as in ``solve_leaves``. The least of the sum of
    weights * loss(y, K a + b) + ridge / 2 a' K a is found, ``loss`` being "logistic",
    "squared_hinge", "smooth_hinge", "huber", of delta ``loss_parameter``, or "multinomial",
    which takes the outputs of a row together. On entry intercept[0] has the constants of the
    models to begin with; each ridge begins where the one before ended, so that large ones come
    first best.

    residual (q, leaves) is the largest norm, over outputs, of slopes + ridge a relative to
    that of the constant model. It is above ``tol`` after ``max_iter`` steps, of which
    ``steps`` (q, leaves) has the number, and where float32 does not lead further; infinite
    where float32 is too short for the responses. The number of threads changes no
    bit.
    """

def predict_leaves(
    X: _Floats,
    rows: _Int64s,
    leaves: _Int64s,
    shares: _Float64s,
    landmarks: _Floats,
    order: _Int64s,
    starts: _Int64s,
    kernel: str,
    parameter: float,
    scale: _Float64s,
    coef: _Float64s,
    intercept: _Float64s,
    out: _Float64s,
    n_threads: int,
) -> bool:
    """out[rows[i]] += shares[i] * (kernels of X[rows[i]] and the rows of leaf leaves[i] times
    their part of coef + intercept[leaves[i]]) for every i.

    Leaves are as in ``solve_leaves``, of the rows of ``landmarks``; coef (len(order), k),
    intercept (leaves, k) and out (n, k) belong to one ridge. ``leaves`` must never fall; a
    row may come several times. Kernels are those of ``kernel_block`` in the dtype of the rows
    and landmarks, float32 with ``single``, and are multiplied in float64, none is held.
    False, with ``out`` undefined, if squared distances overflow. The number of threads
    changes no bit.
    """

def grow_trees(
    X: _Floats,
    leaf_size: int,
    overlap: float,
    key: int,
    pivots: int,
    weights: int,
    numbers: _Int64s,
    node: int,
    divides_alike: bool,
    n_threads: int,
) -> tuple[NDArray[np.float32], _Float64s, _Float64s, _Int64s, _Int64s, _Int64s, _Int64s]:
    """Cut rows of X (n, d) in two, again and again, until a leaf has at most leaf_size of them.

    There is a tree for each of ``numbers``, which with ``key`` and the slots ``pivots`` and
    ``weights`` fix its random numbers; ``node`` is the number of its root, where the nodes
    below node i are 2 i and 2 i + 1. A cut lies at the middle of the projections to a
    direction: the sum of 1000 rows of the node with random weights. Both sides are given the
    share ``overlap`` of the rows to either side of it. Rows that no direction tells apart are
    divided, or stay in one leaf without ``divides_alike``.

    Returns directions (cuts, d), low and high (cuts,), children (cuts, 2) and roots, which
    are numbers of cuts or ~leaf, and order and starts: leaf l has the rows
    order[starts[l]:starts[l + 1]], which ascend. A ValueError where projections overflow.
    The number of threads changes no bit.
    """

def route_rows(
    X: _Floats,
    directions: NDArray[np.float32],
    low: _Float64s,
    high: _Float64s,
    children: _Int64s,
    roots: _Int64s,
    n_threads: int,
) -> tuple[_Int64s, _Int64s, _Float64s]:
    """The leaves that answer for rows of X (n, d): rows, leaves and shares, one of each for every
    pair, leaf by leaf and row by row.

    Trees are as ``grow_trees`` gives them. A row whose projection is at most low of a cut
    goes left, at least high right, and in between to both, in shares that change linearly;
    a row that has no projection goes to both in equal shares. Shares of a row sum to 1.
    The number of threads changes no bit.
    """

def shapley_values(
    factors: _Floats,
    means: _Floats,
    coef: _Floats,
    nodes: _Float64s,
    weights: _Float64s,
    out: _Float64s,
    n_threads: int,
) -> None:
    """out (n, d + 1, k): Shapley values of d players in n rows for k functions, then the functions.

    A function is the sum over m centres of coef (planes, k, m) times the product over players
    of factors (planes, d, n, m); means (planes, d, m) take the place of factors that are not
    known. There is one plane of real numbers, or two of complex ones, of which the real part
    counts. Integrals over [0, 1] are sums over nodes.
    """

def shapley_interactions(
    factors: _Floats,
    means: _Floats,
    coef: _Floats,
    nodes: _Float64s,
    weights: _Float64s,
    out: _Float64s,
    n_threads: int,
) -> None:
    """out (n, d, d, k): Shapley interaction indices of pairs of players, as for
    ``shapley_values``; 0 on the diagonal.
    """

def token_hashes(
    characters: _Uint32s,
    starts: _Int64s,
    in_words: NDArray[np.uint8] | None,
    skipped: _Uint64s,
    n_threads: int,
) -> tuple[_Uint64s, _Int64s]:
    """The hashes of the tokens of texts, text after text, and where each text's begin (n + 1).

    Text i has the code points starts[i] .. starts[i + 1] - 1 of ``characters``. Tokens are
    all runs of two or more of those for which ``in_words``, which may be shorter than
    Unicode, is not 0; or, if it is None, every code point. A hash is the BLAKE2b digest of
    8 bytes of the token in UTF-8, as a little-endian number. Tokens whose hash is in
    ``skipped``, which ascends, are left out. The number of threads changes no bit.
    """

def hashed_runs(
    tokens: _Uint64s,
    starts: _Int64s,
    orders: _Int64s,
    key: _Uint64s,
    n_columns: int,
    with_signs: bool,
    normalize: bool,
    n_threads: int,
) -> tuple[_Float64s, NDArray[np.int32], _Int64s]:
    """Counts of the runs of tokens of texts in hashed columns, as a CSR matrix: data, indices
    and where each text's begin (n + 1).

    ``tokens`` and ``starts`` are those of ``token_hashes``, ``orders`` the lengths of the
    runs, which ascend. The hash h of a run is that of the run without its last token times
    0x9e3779b97f4a7c15 plus the last token's, to which its length is added. Of m(m(h +
    key[0]) ^ key[1]), with the mixing function m of MurmurHash3, the high half gives the
    column and the lowest bit the sign, if there are signs. Counts are divided by the
    Euclidean length of those of all runs, if ``normalize``. The number of threads changes
    no bit.
    """
