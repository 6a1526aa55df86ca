"""Laws of the factor that makes steps along several columns at once safe."""

import pytest

from mercer.solvers.coordinate import eso_factor


def test_the_factor_is_one_for_one_column_or_one_entry_a_row_and_tau_for_full_rows():
    assert eso_factor(omega=10, tau=1, n_columns=100) == 1
    assert eso_factor(omega=1, tau=50, n_columns=100) == 1
    assert eso_factor(omega=100, tau=17, n_columns=100) == 17
    assert eso_factor(omega=1, tau=1, n_columns=1) == 1
    assert eso_factor(omega=11, tau=11, n_columns=101) == 2
    with pytest.raises(ValueError, match="at most n_columns"):
        eso_factor(omega=3, tau=5, n_columns=4)
