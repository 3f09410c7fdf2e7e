"""The public names, as editors and type checkers see them; __init__.py loads each when
it is first asked for."""

from .data.loading import held_out as held_out
from .data.loading import load_for as load_for
from .data.scaling import Scaling as Scaling
from .ds import Dataset as Dataset
from .ds import load as load
from .files.export.formats import export as export
from .matrix import matmul as matmul
from .nn import Network as Network
from .test import test as test
from .test.importance import importance as importance
from .test.model import Model as Model
from .test.model import compare as compare
from .test.shapley import explain as explain
from .train import StopRequest as StopRequest
from .train import train as train
from .train import train_many as train_many
from .train.estimators import NetworkClassifier as NetworkClassifier
from .train.estimators import NetworkRegressor as NetworkRegressor
from .train.fit import fit as fit
from .utils import DataError as DataError
from .utils import InputNotFound as InputNotFound
from .utils import NnError as NnError
from .utils import NnWarning as NnWarning
from .utils import OutputError as OutputError
from .utils import Stopped as Stopped
from .utils import UsageError as UsageError
from .watch.callbacks import Callback as Callback

__version__: str
