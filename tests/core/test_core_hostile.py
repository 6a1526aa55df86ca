"""No broken argument makes the core touch memory that is not its own, or end the process."""

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import mercer
from _core_calls import calls, names
from mercer import _core

TESTS = Path(__file__).parents[1]
STUB = Path(mercer.__file__).with_name("_core.pyi")
CALLS = calls()
NAMES = sorted({call.name for call in CALLS})


def test_every_function_of_the_core_has_a_call_to_break():
    assert set(NAMES) == names()


@pytest.mark.parametrize("share", range(4))
def test_broken_arguments_are_refused_or_harm_nothing(share):
    done = subprocess.run(
        [sys.executable, TESTS / "_core_hostile.py", *NAMES[share::4]],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode == 0, f"exit {done.returncode} at {last}; {done.stderr[-2000:]}"


def _stub_signatures():
    """The names of the arguments of every function of the stub, one set for each overload."""
    found = {}
    for item in ast.parse(STUB.read_text()).body:
        members = item.body if isinstance(item, ast.ClassDef) else [item]
        prefix = f"{item.name}." if isinstance(item, ast.ClassDef) else ""
        if isinstance(item, ast.ClassDef):
            found.setdefault(item.name, [])
        for member in members:
            if isinstance(member, ast.FunctionDef):
                name = (prefix + member.name).removesuffix(".__init__")
                given = [arg.arg for arg in member.args.posonlyargs + member.args.args]
                found.setdefault(name, []).append([arg for arg in given if arg != "self"])
    return found


def test_the_stub_names_the_functions_and_arguments_of_the_module():
    stub = _stub_signatures()
    assert set(stub) == names()
    for call in CALLS:
        if call.name != "AsyncSteps":  # which has no constructor
            assert list(call.packed(call.make())) in stub[call.name], call.name


@pytest.mark.parametrize("name", NAMES)
def test_arguments_go_by_the_names_of_the_stub_where_it_lets_them(name):
    for call in CALLS:
        if call.name == name and name != "AsyncSteps":
            call.function()(**call.packed(call.make()))  # raises TypeError for an unknown name
            with pytest.raises(TypeError):
                call.function()(**call.packed(call.make()), no_such_argument=1)


def test_the_stub_is_made_from_the_core():
    renewed = subprocess.run(
        [sys.executable, TESTS.parent / "cpp" / "stub.py"], capture_output=True, text=True
    )
    assert renewed.returncode == 0, renewed.stderr


def test_parts_of_a_sparse_matrix_are_a_tuple_of_four():
    call = next(call for call in CALLS if call.name == "bin_hashed" and call.takes_csr)
    arguments = call.packed(call.make())
    parts = arguments["X"]
    for wrong in ((), parts[:3], (*parts, 1), (parts,), (*parts[:3], "5"), (*parts[:3], -1)):
        with pytest.raises(TypeError, match=r"X must be an array or|d must be an integer"):
            call.function()(**{**arguments, "X": wrong})
    for wrong in (list(parts), None, "data"):
        with pytest.raises(TypeError, match=r"must be an array|incompatible function arguments"):
            call.function()(**{**arguments, "X": wrong})


def test_bitmaps_of_part_of_the_columns_are_those_of_a_copy():
    words = np.random.default_rng(0).integers(0, 2**63, (200, 8)).astype(np.uint64)
    for left, right in ((words[:64], words), (words, words[:100])):
        out, expected = (np.zeros((len(left), len(right))) for _ in range(2))
        _core.bit_products(left, right, None, 1.0, out, 1)
        _core.bit_products(left.copy(), right.copy(), None, 1.0, expected, 1)
        np.testing.assert_array_equal(out, expected)


def test_a_column_that_no_code_of_the_type_can_name_has_no_rows():
    codes, out = np.full((1, 600), 44, np.uint8), np.empty((2, 16), np.uint64)
    _core.bit_columns(codes, np.array([0, 400]), np.array([44, 300]), None, out, 1)
    assert np.bitwise_count(out).sum(axis=1).tolist() == [600, 0]


def test_codes_too_narrow_for_a_table_are_refused_by_insert_though_all_bins_are_known():
    table = _core.BinTable.from_keys(np.arange(300, dtype=np.uint64), np.array([300]))
    one = np.ones((1, 1))
    codes = np.empty((1, 40), np.uint8)
    shifts, keys = np.zeros((1, 1)), np.ones((1, 1), np.uint64)
    X = np.arange(260.0, 300.0)[:, None]
    assert not table.insert(0, X, one, shifts, keys, codes, 1)
    wide = np.empty((1, 40), np.uint16)
    assert table.insert(0, X, one, shifts, keys, wide, 1)
    assert wide.tolist() == [list(range(260, 300))]


def test_numbers_of_threads_below_one_are_refused_and_beyond_a_thousand_are_as_good_as_that():
    for name in ("random_bits", "gram", "kernel_product", "AsyncSteps.walk", "add_rows"):
        call = next(call for call in CALLS if call.name == name)
        for count in (0, -3):
            with pytest.raises(ValueError, match=f"n_threads must be at least 1; got {count}"):
                call.run({**call.make(), "n_threads": count})
        call.run({**call.make(), "n_threads": 2**31 - 1})


def test_arrays_that_are_written_have_memory_of_their_own():
    u, y = np.ones(40), np.ones(30)
    for out in (u[:30], u[5:35], u[10:]):
        with pytest.raises(ValueError, match=r"out must share no memory with u; got overlapping"):
            _core.loss_slopes("squared", 0.0, u[:30], y, out)
    _core.loss_slopes("squared", 0.0, u[:20], y[:20], u[20:])  # neighbours
    _core.loss_slopes("squared", 0.0, u[:30], u[:30], y)  # read twice


def test_indices_that_do_not_ascend_are_refused_where_threads_share_them_out():
    call = next(call for call in CALLS if call.name == "descend_columns")
    arguments = call.make()
    rows = arguments["rows"].copy()
    rows[0], rows[1] = rows[1], rows[0]
    with pytest.raises(ValueError, match="rows must ascend within a column"):
        call.run({**arguments, "rows": rows})


WITHOUT_THREADS = """
import resource
import numpy as np
from mercer import _core

rng = np.random.default_rng(0)
n = 1100
X = rng.normal(size=(n, 3))
K = np.exp(-((X[:, None] - X) ** 2).sum(-1))
rows = _core.KernelRows(K)
codes, offsets = rng.integers(0, 9, (6, 6000)).astype(np.uint8), np.arange(7) * 9

def dual(descent):
    b, sums = np.zeros(n), np.zeros(n)
    ones = np.ones(n)
    descent.run(np.linspace(-1, 1, n), -ones, ones, ones, 2 * ones, b, sums, 1e-6, 100)
    np.testing.assert_allclose(sums, K @ b, atol=1e-9)
    assert b.any()
    return b

def results(n_threads):
    starts = np.linspace(0, n, n_threads + 1).astype(np.int64)
    w = np.zeros(54)
    _core.binned_rmatvec(codes, offsets, np.linspace(-1, 1, 6000), w, 0.4, False, n_threads)
    for block in (1, 8):  # whose results depend on who was when where
        dual(_core.GreedyDescent(rows, starts, 10**6, block))
    some, sums = np.empty((600, n)), np.zeros(n)
    rows.fill(np.arange(600), some, n_threads)
    _core.add_rows(some, np.arange(600), np.ones(600), sums, n_threads)
    return np.concatenate([w, sums])

expected = results(1)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (22 << 20),) * 2)  # two stacks of 8 MB
np.testing.assert_allclose(results(16), expected, atol=1e-9)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for its size")
def test_where_no_more_threads_can_be_had_those_that_run_do_all_the_work():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_machine_that_runs_is_not_run_again_by_the_function_it_asks_for_rows():
    matrix, held, refusals = np.eye(8), [], []

    def run():
        box = [np.full(8, -1.0), np.zeros(8), np.ones(8), np.zeros(8), np.ones(8)]
        return held[0].run(*box, np.zeros(8), np.zeros(8), 1e-3, 5)

    def rows(wanted, first, last):
        with pytest.raises(RuntimeError, match="run must not be called again before") as error:
            run()
        refusals.append(error)
        return np.ascontiguousarray(matrix[wanted, first:last])

    source = _core.KernelRows(8, 1, rows, "float64")
    held[:] = [_core.GreedyDescent(source, np.array([0, 8]), 10**4, 1)]
    run()
    assert refusals


def test_threads_that_fill_one_table_take_turns():
    table, keys = _core.BinTable(1), np.full((1, 1), 0x9E3779B97F4A7C15, np.uint64)
    one, zero = np.ones((1, 1)), np.zeros((1, 1))

    def insert(part):
        X = np.arange(part, part + 4000.0)[:, None]
        codes = np.empty((1, 4000), np.uint32)
        for _ in range(20):
            assert table.insert(0, X, one, zero, keys, codes, 2)
        return codes

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(insert, range(0, 16000, 2000)))
    assert table.n_bins.tolist() == [18000]
    codes = np.empty((1, 4000), np.uint32)
    for part, inserted in zip(range(0, 16000, 2000), found, strict=True):
        table.lookup(0, np.arange(part, part + 4000.0)[:, None], one, zero, keys, codes, 1)
        np.testing.assert_array_equal(codes, inserted)
