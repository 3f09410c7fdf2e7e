"""nn: train and test small and middle-sized neural networks, fast, with the same
results everywhere.

ds = nn.load("CC.csv")
net = nn.Network("30,60,10,1", task=ds.task, seed=0)
nn.train(net, ds, epochs=20)
print(nn.test(net, nn.load("CC_test.csv")))
net.export("m.bin")
"""

import sys
import types
from importlib import import_module

__version__ = "0.2.0"

# Public name -> module that holds it; loaded when first asked for, so that `nn --help`
# stays quick. __init__.pyi has the same names for editors and type checkers.
_HOME = {
    "load": "ds",
    "load_for": "data.loading",
    "held_out": "data.loading",
    "Dataset": "ds",
    "Scaling": "data.scaling",
    "Network": "nn",
    "train": "train",
    "train_many": "train",
    "fit": "train.fit",
    "Model": "test.model",
    "compare": "test.model",
    "Callback": "watch.callbacks",
    "StopRequest": "train",
    "test": "test",
    "export": "files.export.formats",
    "explain": "test.shapley",
    "importance": "test.importance",
    "matmul": "matrix",
    "NnError": "utils",
    "NnWarning": "utils",
    "UsageError": "utils",
    "DataError": "utils",
    "InputNotFound": "utils",
    "OutputError": "utils",
    "Stopped": "utils",
}
# those that need a package which may be missing; `from nn import *` does without them
_OPTIONAL = {
    "NetworkClassifier": "train.estimators",
    "NetworkRegressor": "train.estimators",
}
__all__ = ["__version__", *_HOME]
_HOME |= _OPTIONAL


class _Package(types.ModuleType):
    def __setattr__(self, name, value):
        # importing the module nn.train must not hide the function nn.train, nor nn.test
        # the function nn.test
        if isinstance(value, types.ModuleType) and _HOME.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __getattr__(self, name):
        if name not in _HOME:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{self.__name__}.{_HOME[name]}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return [*__all__, *_OPTIONAL]

    # a function that uses nn takes it along to another process as its name
    def __reduce__(self):
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
