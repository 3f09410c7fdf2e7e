"""Values of settings: how the text of each kind is read, and which values may be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from ..layers import LARGEST
from ..nn_aux import (
    LOSSES,
    MOST_PIECES,
    MOST_QUANTILES,
    MOST_WAVES,
    NO_STEP,
    SCALING_ALIASES,
    THRESHOLD_RULES,
)
from ..utils import UsageError

MOST_GPUS = 1024  # of a process
NO_CLASS_WEIGHT = "none"
BALANCED = "balanced"
_LIST_WORDS = re.compile(
    r'(?:^|,) *(?:"((?:[^"]|"")*)")?([^,]*)'
)  # of a list with commas


# ---------------------------------------------------------------- lists


def split_names(text: str | int | None, names: Collection[str] = ()) -> list[str]:
    """Return the words of a list with commas, in which a word with a comma is quoted as
    in CSV; an index is a word, and so is all of the text if it is one of the names."""
    if text in names:
        return [text]
    if text in (None, ""):
        return []
    words = _LIST_WORDS.findall(str(text))
    return [quoted.replace('""', '"') + plain.strip() for quoted, plain in words]


def in_a_list(name: str) -> str:
    """Return a name as a word of such a list."""
    is_plain = '"' not in name and split_names(name) == [name]
    if is_plain:
        return name
    return '"' + name.replace('"', '""') + '"'


def joined_names(given: Iterable) -> str:
    """Return the text of names, or of a mapping of each name to its form, its words in
    order, or None."""
    if not isinstance(given, Mapping):
        return ",".join(in_a_list(str(name)) for name in given)
    words = []
    for name, form in given.items():
        form = plain(form)
        if form is None:
            words.append(str(name))
        elif isinstance(form, (list, tuple)):
            words.append(f"{name}={'<'.join(map(str, form))}")
        else:
            words.append(f"{name}={form}")
    return joined_names(words)


def joined_items(given: Iterable) -> str:
    """Return the text of layers, or of numbers."""
    return ",".join(map(str, given))


def joined_numbers(given: Sequence) -> str:
    """Return the text of GPUs; a single one is that one, not a number of them."""
    if len(given) == 1:
        return f"{joined_items(given)},"
    return joined_items(given)


def plain(value):
    """Return a setting from Python without NumPy's types: its numbers and truth values
    are Python's own, an array is a list."""
    has_numpy_type = hasattr(value, "dtype") and hasattr(value, "tolist")
    if has_numpy_type:
        return value.tolist()
    return value


# ---------------------------------------------------------------- values

OTHER_NAMES = {  # what other programs call a value -> its name here
    "swish": "silu",
    "logistic": "sigmoid",
    "identity": "linear",
    "adamw": "adam",
    "gpu": "cuda",
    "cpu": "omp",
    "fast": "quick",
    "medium": "standard",
    "high": "best",
    "max": "best",
    "standard": "standardization",
    "zscore": "standardization",
    "minmax": "normalization",
    "auc": "roc_auc",
    "crossentropy": "ce",
    "cross_entropy": "ce",
    "binary_crossentropy": "bce",
    "l1": "mae",
    "l2": "mse",
    "classification": "multiclass",
    "multi": "multiclass",
}


@dataclass(frozen=True, eq=False)
class Value:
    """A kind of value: how to read its text, which values are allowed, the words for
    them, and its type in Python.

    joined: makes the text of a list from Python or a file; None: there is no such list.
    adds_up: a flag that is given again adds to its list.
    """

    read: Callable[[str], Any]  # raises ValueError
    expected: str
    type: str = "str"
    holds: Callable[[Any], bool] = lambda value: True
    names: tuple[str, ...] = ()  # all values, where they are names
    joined: Callable[[Any], str] | None = None
    adds_up: bool = False

    def text_of(self, given: object) -> object:
        """Return the text of a list, or of a number where a list may be; other values
        as they are, without NumPy's types."""
        given = plain(given)
        if type(given) is int and self.joined:
            return str(given)
        is_list = isinstance(given, (list, tuple, set, frozenset))
        if isinstance(given, Mapping):
            is_list = self.adds_up
        if is_list and self.joined:
            return self.joined(given)
        return given

    def __call__(self, flag: str, given: object):
        """Return the value that a text, or a value from Python, stands for. Raises
        UsageError, which names the flag."""
        given = self.text_of(given)
        try:
            value = self.read(str(given))
            if self.holds(value):
                return value
        except (ValueError, OverflowError):  # a whole number made of inf
            pass
        called = OTHER_NAMES.get(str(given).lower())
        cure = f"; {given} is called {called}" if called in self.names else ""
        raise UsageError(f"{flag} {given}: expected {self.expected}{cure}")


def whole(low: int, high: int = LARGEST) -> Value:
    expected = f"a whole number from {low} to {high}"
    return Value(int, expected, "int", lambda value: low <= value <= high)


def one_of(names: Iterable[str]) -> Value:
    names = tuple(names)

    def read(text):
        return SCALING_ALIASES.get(text, text)

    return Value(read, enumerated(names, "or"), "str", names.__contains__, names)


def enumerated(names: Sequence[str], last: str) -> str:
    """Return names with commas between them, and with the word `last` before the last
    one."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _bytes(text: str) -> int:
    """Return the bytes that a size such as 2G, 500M or 4096 means; K, M, G, T count in
    1024s."""
    number = text.upper().removesuffix("B").removesuffix("I")
    for power, unit in enumerate("KMGT", 1):
        if number.endswith(unit):
            return int(float(number[:-1]) * 1024**power)
    return int(float(number))


def device_numbers(gpus: str | int) -> tuple[int, ...]:
    """Return the GPUs that `--gpus` names: 2, the first two; 0,2 those; 2, that one
    alone. Raises ValueError."""
    text = str(gpus)
    if "," not in text:
        numbers = tuple(range(min(int(text), MOST_GPUS + 1)))
    else:
        numbers = tuple(int(word) for word in text.removesuffix(",").split(","))
    is_count_possible = 0 < len(numbers) <= MOST_GPUS
    if not is_count_possible or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError(text)
    return numbers


def _share_or_file(text: str) -> float | str:
    """Return what --validation means: a share, or the path of a file. ValueError for a
    share that cannot be."""
    try:
        share = float(text)
    except ValueError:
        return text
    if not 0 < share < 1:
        raise ValueError(text)
    return share


def class_weight_numbers(text: str) -> list[float]:
    """Return the numbers of --class_weight. ValueError where one is none, negative or
    not finite, or all are 0."""
    numbers = [float(word) for word in text.split(",")]
    if not all(0 <= number < math.inf for number in numbers) or not any(numbers):
        raise ValueError(text)
    return numbers


def activation_name(names: Iterable[str]) -> Value:
    """Return the kind of value that is an activation, one of the names."""

    def read(text):
        if text == "step":
            raise UsageError(f"--activation step: {NO_STEP}")
        return text

    return replace(one_of(names), read=read)


def _betas(text: str) -> tuple[float, ...]:
    """Return the numbers of --betas. Raises ValueError."""
    return tuple(map(SHARE.read, text.split(",")))


def _class_weight(text: str) -> str:
    if text not in (NO_CLASS_WEIGHT, BALANCED):
        class_weight_numbers(text)
    return text


def losses() -> list[str]:
    """Return the losses as --loss writes them: mse, huber=D, ..."""
    return [
        f"{name}={loss.constant}" if loss.constant else name
        for name, loss in LOSSES.items()
    ]


def _loss(text: str) -> str:
    """Return a value of --loss. Raises UsageError for a constant that a loss cannot
    have, ValueError for what is no loss."""
    name, equals, constant = text.partition("=")
    rule = LOSSES.get(name)
    if rule is None or (equals and not rule.constant):
        raise ValueError(text)
    with suppress(ValueError):
        constants = [_finite(word) for word in constant.split(",") if equals]
        most = MOST_QUANTILES if rule.takes_several else 1
        ascend = all(low < high for low, high in pairwise(constants))
        if len(constants) <= most and ascend and all(map(rule.holds, constants)):
            return text
    raise UsageError(
        f"--loss {text}: expected {name}={rule.constant} with {rule.range}"
    )


def threshold_rules() -> str:
    """Return the rules of --threshold as they are written: f1, fbeta=B, ..."""
    return ", ".join(
        f"{name}={':'.join(rule.numbers)}" if rule.numbers else name
        for name, rule in THRESHOLD_RULES.items()
    )


def parse_rule(text: str) -> tuple[str, tuple[float, ...]]:
    """Return name and numbers of a rule of --threshold. Raises ValueError."""
    name, equals, values = text.partition("=")
    rule = THRESHOLD_RULES.get(name)
    numbers = ()
    if equals:
        numbers = tuple(map(_finite, values.split(":")))
    if rule is None or len(numbers) != len(rule.numbers) or not rule.holds(*numbers):
        raise ValueError(text)
    return name, numbers


def _threshold(text: str) -> float | str:
    """Return the number that a value of --threshold is, or its text if it is a rule.
    Raises ValueError."""
    if text.partition("=")[0] in THRESHOLD_RULES:
        parse_rule(text)
        return text
    return _finite(text)


def check_is_number(threshold: float | str | None) -> None:
    """Raise UsageError for a rule where a number belongs: the rows that judge a
    threshold must not choose it."""
    if isinstance(threshold, str):
        raise UsageError(
            f"--threshold {threshold}: a rule is for --train, which keeps the number that it finds in the model; "
            "give it there, or a number here"
        )


class NumberEmbedding(NamedTuple):
    """The inputs that --number_embedding makes of a column of numbers.

    kind: linear, pieces (of the axis) or waves. count: of them. deviation: of the
    waves' first frequencies.
    """

    kind: str
    count: int = 0
    deviation: float = 1.0


def number_embedding_value(text: str) -> NumberEmbedding:
    """Return what a value of --number_embedding means. Raises ValueError."""
    match = re.fullmatch(
        r"(linear)|(pieces)([0-9]{1,9})|(waves)([0-9]{1,9})(?::(.+))?", text
    )
    if not match:
        raise ValueError(text)
    linear, pieces, edges, waves, count, deviation = match.groups()
    embedding = NumberEmbedding(
        linear or pieces or waves, int(edges or count or 0), float(deviation or 1)
    )
    least, most = {
        "linear": (0, 0),
        "pieces": (2, MOST_PIECES),
        "waves": (1, MOST_WAVES),
    }[embedding.kind]
    if not (least <= embedding.count <= most and 0 < embedding.deviation < math.inf):
        raise ValueError(text)
    return embedding


def _number_embedding(text: str) -> str:
    number_embedding_value(text)
    return text


BYTES = Value(
    _bytes, "a size in bytes such as 2G or 500M", "int", lambda value: value > 0
)
POSITIVE = Value(_finite, "a finite number above 0", "float", lambda value: value > 0)
NOT_NEGATIVE = Value(
    _finite, "a finite number, 0 or above", "float", lambda value: value >= 0
)
SHARE = Value(
    _finite, "a number from 0 to below 1", "float", lambda value: 0 <= value < 1
)
BETAS = Value(
    _betas,
    "one or two numbers from 0 to below 1, 0.9,0.999",
    "str | float | list[float]",
    lambda betas: len(betas) <= 2 and all(map(SHARE.holds, betas)),
    joined=joined_items,
)
# neither 0 nor infinite in float32: 0 / 0 would be no step
EPSILON = Value(
    _finite,
    "a number from 1e-37 to 1e37",
    "float",
    lambda value: 1e-37 <= value <= 1e37,
)
LEVEL = Value(
    _finite,
    "a number above 0 and below 1, such as 0.9",
    "float",
    lambda value: 0 < value < 1,
)
VALIDATION = Value(
    _share_or_file, "a share above 0 and below 1, or a file", "float | str", bool
)
CLASS_WEIGHT = Value(
    _class_weight,
    "none, balanced, or a number of at least 0 for each class, 1,10",
    "str | list[float]",
    joined=joined_items,
)
NUMBER_EMBEDDING = Value(
    _number_embedding,
    f"linear, piecesN (N 2 to {MOST_PIECES}), wavesN or wavesN:DEVIATION (N 1 to {MOST_WAVES})",
)
LOSS_NAME = Value(_loss, enumerated(losses(), "or"), names=tuple(LOSSES))
THRESHOLD = Value(_threshold, f"a finite number, {threshold_rules()}", "float | str")
GPUS = Value(
    device_numbers,
    "how many GPUs (2), or their numbers (0,2, or 2, for one alone)",
    "str | int | tuple[int, ...]",
    joined=joined_numbers,
)
TEXT = Value(
    str,
    "a value that is not a flag",
    "str",
    lambda value: value != "" and not value.startswith("--"),
)
# a column, or in Python values of each row
ROW_VALUES = replace(
    TEXT, type="str | int | np.ndarray | Sequence", joined=joined_names
)
NAMES = replace(TEXT, type="str | list[str]", joined=joined_names, adds_up=True)
FORMS = replace(NAMES, type="str | list[str] | dict[str, Any]")
MODEL = replace(TEXT, type="str | Any")  # an initialiser, a model or its file
LAYERS = replace(TEXT, type="str | list[int | str]", joined=joined_items)
