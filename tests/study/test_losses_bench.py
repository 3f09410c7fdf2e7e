"""tests.bench.losses: draws, intervals that hold rows, and what is printed."""

import numpy as np
import pandas as pd
import pytest
from bench import losses


def test_draws_are_of_half_of_the_rows_and_judged_on_the_others():
    table = losses.table_of("diabetes", None)
    assert table.shape == (442, 11)
    draws = list(losses.draws_of(table, 2))
    for known, unseen in draws:
        assert (len(known), len(unseen)) == (221, 221)
        assert {*known.index} | {*unseen.index} == {*range(442)}
    assert draws[0][0].index.tolist() != draws[1][0].index.tolist()


def test_coverage_width_and_winkler_score():
    ends = np.array([[0.0, 0.0, 0.0], [10.0, 10.0, 10.0]])
    coverage, width, winkler = losses.held(ends, np.array([5.0, -1.0, 12.0]))
    assert coverage == pytest.approx(1 / 3)
    assert width == 10
    assert winkler == pytest.approx(10 + 20 * (1 + 2) / 3)


@pytest.mark.parametrize("loss, share", [("poisson", None), ("quantile=0.9", 0.9)])
def test_programs_and_the_table_of_them(loss, share, capsys):
    assert losses.share_of(loss) == share
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"a": rng.normal(size=200), "word": ["u", "v"] * 100})
    y = rng.poisson(np.exp(x.a)).astype(float)
    told = losses.of_linear(x, y, None, loss)(x)
    assert np.corrcoef(told, x.a)[0, 1] > 0.5
    losses.print_losses([("t", loss, {"nn": 1.0, "a": 2.0, "b": 4.0})], "title")
    assert "| t | " in capsys.readouterr().out
    losses.print_several([("t", {"nn": [1, 0.1, 0], "CatBoost": [2, 0.2, 0.5]})])
    assert "| t | 0.500 | 0.100 | 0.0 % | 0.200 | 50.0 % |" in capsys.readouterr().out
    losses.print_intervals([("t", {"nn": [0.9, 1, 2], "CatBoost": [0.8, 2, 2]})])
    assert "| t | 0.900 | 0.800 | 0.500 | 1.000 |" in capsys.readouterr().out
