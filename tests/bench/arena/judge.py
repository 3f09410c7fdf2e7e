"""What the arena tells: errors, Elo with intervals, mean ranks, and the front of
methods."""

import numpy as np

ROUNDS = 200  # of the bootstrap over tables
REFERENCE = "forest"  # whose Elo is 1000, or else the first method's
MOST_SECONDS = 600  # of a fit; a method that took more is left out
SCALE = 400 / np.log(10)


def reference_of(methods: list[str]) -> str:
    """Return the method whose Elo is 1000."""
    if REFERENCE in methods:
        return REFERENCE
    return methods[0]


def error_of(y: np.ndarray, out: np.ndarray, classes: int) -> float:
    """Return 1 - ROC-AUC of two classes, the log loss of more, or the RMSE. Raises
    ValueError for no prediction."""
    from sklearn.metrics import log_loss, roc_auc_score

    if (
        out.shape != ((len(y), classes) if classes else (len(y),))
        or not np.isfinite(out).all()
    ):
        raise ValueError(
            f"predictions of shape {out.shape} that are finite {np.isfinite(out).all()}"
        )
    if not classes:
        mean = np.mean((y - out) ** 2)
        return float(np.sqrt(mean))
    if classes == 2:
        return 1 - float(roc_auc_score(y, out[:, 1]))
    out = np.clip(out.astype(float), 1e-7, 1)
    total = out.sum(axis=1, keepdims=True)
    labels = np.arange(classes)
    return float(log_loss(y, out / total, labels=labels))


def errors(results: list[dict], methods: list[str]) -> tuple[list[str], np.ndarray]:
    """Return (tables, errors (tables, splits, methods)): inf where a method failed, nan
    where a table has fewer splits or a method took no part."""
    tables = list(dict.fromkeys(result["table"] for result in results))
    largest = max(result["split"] for result in results)
    splits = 1 + largest
    errors_of_methods = np.full((len(tables), splits, len(methods)), np.nan)
    for result in results:
        if result["method"] in methods:
            at = (
                tables.index(result["table"]),
                result["split"],
                methods.index(result["method"]),
            )
            if result["error"] is None:
                errors_of_methods[at] = np.inf
            else:
                errors_of_methods[at] = result["error"]
    return tables, errors_of_methods


def wins(found: np.ndarray) -> np.ndarray:
    """Return how often a method is better than another (tables, methods, methods), half
    for a tie, mean over splits;
    nan where one of them took no part."""
    ours = found[..., :, None]
    theirs = found[..., None, :]
    better = np.where(ours == theirs, 0.5, (ours < theirs).astype(float))
    better[np.isnan(ours) | np.isnan(theirs)] = np.nan
    is_known = ~np.isnan(better)
    total = is_known.sum(axis=1)
    selected = np.where(is_known.any(axis=1), total, np.nan)
    total = np.where(is_known, better, 0).sum(axis=1)
    return total / selected


def elo(won: np.ndarray, reference: int) -> np.ndarray:
    """Return Elo (methods,) by maximum likelihood (Bradley and Terry), the reference
    1000. won: as of wins.

    Each pair has a hundredth of a win more on both sides, so that who always wins has a
    rating too.
    """
    selected = np.where(np.isnan(won), 0, 1)
    games = selected.sum(axis=0)
    points = np.nansum(won, axis=0) + 0.01 * (games > 0)
    games = points + points.T
    np.fill_diagonal(points, 0)
    np.fill_diagonal(games, 0)
    strength = np.ones(len(points))
    for _ in range(1000):
        total = (games / (strength[:, None] + strength)).sum(axis=1)
        strength = points.sum(axis=1) / total
        strength /= strength[reference]
    return 1000 + SCALE * np.log(strength)


def ratings(found: np.ndarray, reference: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (Elo (methods,), its 95 % interval (2, methods) by bootstrap over
    tables)."""
    won = wins(found)
    rng = np.random.default_rng(0)
    drawn = [
        elo(won[rng.integers(0, len(won), len(won))], reference) for _ in range(ROUNDS)
    ]
    return elo(won, reference), np.percentile(drawn, [2.5, 97.5], axis=0)


def mean_ranks(found: np.ndarray) -> np.ndarray:
    """Return each method's mean rank over tables (methods,): 1 and how many others were
    better, half for a tie."""
    # (tables, methods): beside itself a method has half a win
    others = np.nansum(wins(found), axis=1) - 0.5
    took_part = ~np.isnan(found).all(axis=1)
    selected = np.where(took_part, 1 + others, np.nan)
    return selected.mean(axis=0, where=took_part)


def front(seconds: np.ndarray, rating: np.ndarray) -> list[int]:
    """Return the methods that no other one beats in both, from the fastest on."""
    order = sorted(
        range(len(seconds)), key=lambda method: (seconds[method], -rating[method])
    )
    return [
        method
        for place, method in enumerate(order)
        if all(rating[method] > rating[one] for one in order[:place])
    ]
