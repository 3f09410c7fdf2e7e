"""The test of two samples beside SciPy's and a plain loop."""

import math

import numpy as np
import pytest

from nn.core.two_samples import (
    binomial_tail,
    chi_square_tail,
    compared,
    merged,
    p_of_same,
)

stats = pytest.importorskip("scipy.stats")


def plain_merged(counts):
    """Cells added up from the left until the smaller sample expects five rows."""
    a, b = counts.tolist()
    smaller = min(sum(a), sum(b))
    whole = sum(a) + sum(b)
    groups = []
    sums = [0.0, 0.0]
    for rows in zip(a, b, strict=True):
        sums = [sums[0] + rows[0], sums[1] + rows[1]]
        if (sums[0] + sums[1]) / whole * smaller >= 5:
            groups.append(sums)
            sums = [0.0, 0.0]
    if not groups:
        groups = [[0.0, 0.0]]
    groups[-1] = [groups[-1][0] + sums[0], groups[-1][1] + sums[1]]
    return groups


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 12, 18, 25])
def test_the_tail_is_scipys(freedom):
    for statistic in (1e-9, 0.3, 1.0, 5.5, 20.0, 60.0, 300.0, 1400.0):
        expected = stats.chi2.sf(statistic, freedom)
        assert chi_square_tail(statistic, freedom) == pytest.approx(expected, rel=1e-9)
    assert chi_square_tail(0.0, freedom) == 1.0
    assert chi_square_tail(1e6, freedom) == 0.0


def test_cells_are_merged_and_tested_as_in_a_plain_loop_and_in_scipy():
    rng = np.random.default_rng(0)
    freedoms = set()
    for rows in (6, 20, 50, 51, 200, 1000, 30_000):
        for cells in (1, 3, 13, 19):
            shares = rng.dirichlet(np.full(cells, 0.7))
            counts = np.array(
                [rng.multinomial(800, shares), rng.multinomial(rows, shares)]
            )
            found = merged(counts)
            assert found.T.tolist() == plain_merged(counts), (rows, cells)
            assert found.sum(axis=1).tolist() == [800, rows]
            freedoms.add(found.shape[1] - 1)
            if found.shape[1] < 2:
                assert p_of_same(found) == 1.0
                continue
            expected = stats.chi2_contingency(found, correction=False)
            assert expected.expected_freq.min() >= 5 * (1 - 1e-12)
            assert p_of_same(found) == pytest.approx(expected.pvalue, rel=1e-9)
    assert len(freedoms) > 8


def test_samples_of_one_distribution_are_told_apart_as_rarely_as_said():
    """Of 4,000 pairs of samples .01 and .001 of the p-values are below these, within
    four standard deviations."""
    rng = np.random.default_rng(1)
    shares = np.array([0.02, 0.0, *[0.097] * 10, 0.0, 0.01])
    shares /= shares.sum()
    p = []
    for _ in range(4000):
        counts = np.array([rng.multinomial(1000, shares), rng.multinomial(60, shares)])
        p.append(p_of_same(merged(counts)))
    for level in (0.01, 0.001):
        off = 4 * math.sqrt(level * (1 - level) / 4000)
        assert abs(np.mean(np.array(p) < level) - level) < off


def test_samples_of_two_distributions_differ():
    a = [100, 100, 100, 100]
    assert p_of_same(merged(np.array([a, [0, 0, 20, 30]]))) < 1e-6
    assert p_of_same(merged(np.array([a, [13, 12, 12, 13]]))) > 0.9
    # a cell that is new is merged with its neighbours
    assert merged(np.array([[0, 400, 0], [1, 48, 1]])).tolist() == [[400], [50]]


@pytest.mark.parametrize("found", [0, 1, 3, 10, 40])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.5])
def test_the_binomial_tail_is_scipys(found, share):
    for others in (0, 2, 50):
        expected = 1.0
        if found > share * (found + others):
            expected = stats.binom.sf(found - 1, found + others, share)
        assert binomial_tail(found, others, share) == pytest.approx(expected, rel=1e-9)
    assert binomial_tail(found, 5, 1.0) == 1.0


def test_cells_apart_are_compared_together_and_as_others_where_they_expect_enough():
    inner = np.array([[100, 200, 300], [20, 50, 30]])
    apart = np.array([[90, 0, 1], [20, 20, 0]])
    cells = np.hstack([merged(inner), apart[:, :1]])
    assert cells.shape == (2, 4)
    chi_square_p = stats.chi2_contingency(cells, correction=False).pvalue
    apart_p = stats.binom.sf(39, 131, 140 / 831)
    assert apart_p < chi_square_p
    p, difference = compared(inner, apart)
    assert p == pytest.approx(2 * apart_p, rel=1e-9)
    shares = np.hstack([cells, [[1], [20]]]) / [[691], [140]]
    assert difference == pytest.approx(np.abs(shares[0] - shares[1]).max(), rel=1e-12)
    # what the second sample lacks is seen by chi-square alone
    apart = np.array([[90, 0, 1], [0, 0, 0]])
    cells = np.hstack([merged(inner), apart[:, :1]])
    chi_square_p = stats.chi2_contingency(cells, correction=False).pvalue
    assert compared(inner, apart)[0] == pytest.approx(2 * chi_square_p, rel=1e-9)


def test_what_a_large_sample_never_had_is_found_beside_one_large_cell():
    inner = np.array([[20_000], [150]])
    p, difference = compared(inner, np.array([[0, 0], [0, 50]]))
    assert p < 1e-99
    assert difference == 0.25
    assert compared(inner, np.array([[0, 0], [0, 0]])) == (1.0, 0.0)
    p, difference = compared(np.array([[500], [0]]), np.array([[0], [50]]))
    assert p < 1e-40
    assert difference == 1.0


def test_cells_apart_that_expect_too_few_rows_differ_together():
    inner = np.array([[250, 250, 250, 250], [40, 40, 40, 40]])
    p, difference = compared(inner, np.array([[0, 0], [20, 20]]))
    assert p < 1e-20
    assert difference == pytest.approx(40 / 200)
    # one that expects enough rows is a cell of its own
    _, difference = compared(inner, np.array([[0, 0], [35, 20]]))
    assert difference == pytest.approx(35 / 215)
