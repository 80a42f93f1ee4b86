"""What a run leaves for later: weights, labels and figures in one file that can predict."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.earlier import field_names, in_place, lifted
from ddol.engines.state import grow, layout_of
from ddol.engines.state_checks import check_number, expected_state
from ddol.knowledge import Knowledge
from ddol.presets import NotRegisteredError, made_again
from ddol.storage import Expected, check_arrays, damaged, read_arrays, write_arrays
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import Label, class_numbers, listed
from ddol.streams.errors import DataError
from ddol.streams.raw import Named, Raw, Table, table_of_array, table_of_frame
from ddol.streams.rows import Rows
from ddol.trace import Trace
from ddol.update.checks import check_vectors
from ddol.update.losses import loss_named
from ddol.version import __version__

if TYPE_CHECKING:
    from ddol.linear.form import LinearForm

KIND = "model"
SHARED = "shared"
"""In place of an agent's name: all of them together."""
_MOST_BYTES = 1 << 30
"""Agents' states up to this size are kept one by one; beyond it, their mean."""
_WIDE = 1 << 16
"""Number of columns from which columns without an example are not written."""
_FIGURES = (
    "engine",
    "workers",
    "mixing",
    "examples",
    "rounds",
    "bytes_sent",
    "consensus",
    "seed",
)


@dataclass(frozen=True)
class Model:
    """What a run leaves to predict with: what agents know, and the names of columns and labels.

    Parameters
    ----------
    weights : (outputs, width)
        Mean over agents of the primal weights; of experts' weights, which sum to 1.
    encoding : Encoding
        What columns, labels and sites are called, and how they become features.
    loss : str
        Name of the loss; logistic has probabilities.
    algorithm : dict
        Name and settings, for people to read.
    training : dict
        Figures of the run.
    known : Knowledge or None
        What scores rows; without it, a score is the product of weights and features.

    Examples
    --------
    >>> model = Model(np.array([[0.5, 1.0, -1.0]]), Encoding(classes=(0.0, 1.0), intercept=True))
    >>> model.predict([[1.0, 0.0], [0.0, 2.0]])
    array([1, 0])
    """

    weights: np.ndarray
    encoding: Encoding
    loss: str = "hinge"
    algorithm: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    known: Knowledge | None = None

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """Labels in rising order; None for regression."""
        return self.encoding.classes

    @property
    def labels(self) -> np.ndarray:
        """Labels of the classes, whole numbers where all are."""
        return self.encoding.labels()

    def encoder(self, **options: Any) -> Encoder:
        """What turns raw blocks into the model's rows; no labels are needed.

        Parameters
        ----------
        **options
            See `Encoder`.
        """
        return Encoder(self.encoding, **{"learning": False, "labelled": False, **options})

    def agent_number(
        self, name: str | int | None, warn: Callable[[str], None] = warnings.warn
    ) -> int | None:
        """Number of an agent, given by its name or its number from 0; None for all of them together.

        ``shared`` is None, unless an agent is called so. Safe agents share a learner for new sites: there
        an unknown name is None, too, with a warning. Elsewhere it is an error.
        """
        sites = self.encoding.sites
        if name in sites:
            return sites.index(str(name))
        if name is None or name == SHARED:
            return None
        count = max(int(self.training.get("agents", 1)), len(sites))
        if str(name).isdigit() and int(name) < count:
            return int(name)
        known = f"one of {listed(sites, 20)}" if sites else f"a number from 0 to {count - 1}"
        problem = f"found no agent {name!r}, expected {known}, or {SHARED}"
        if self.known is None or not self.known.algorithm.safe:
            raise DataError(f"{problem}: the mean of all agents")
        warn(f"{problem}; the shared learner predicts, as for a new site")
        return None

    @property
    def keeps_own(self) -> bool:
        """Whether each agent standardises by what it has seen itself."""
        known = self.known
        return known is not None and bool(getattr(known.algorithm.update, "keeps_own", False))

    def decision_function(self, X: Any, agent: str | int | None = None) -> np.ndarray:
        """Scores: (n,) for two classes and regression, (n, classes) for more.

        Parameters
        ----------
        X : array, scipy sparse matrix, data frame, or a raw block
            Columns of a data frame are found by their names.
        agent : name or number, optional
            Whose weights are used. By default, or with ``"shared"``, those of all together, as for a new
            site: their mean, or what safe agents share.
        """
        return self.scores(self.encoder().rows(as_raw(X, self.encoding.fills_in)), agent)

    def scores(self, rows: Rows, agent: str | int | None = None) -> np.ndarray:
        """Scores of rows that are encoded already; see `decision_function`."""
        copy = self.agent_number(agent)
        known = self.known
        together = known is not None and len(known.theta) == 1 < int(self.training.get("agents", 1))
        one = (
            copy is None
            or together
            or (known is not None and not known.algorithm.safe and len(known.theta) == 1)
        )
        if known is None or (one and known.is_linear):
            from ddol.engines.workers.scoring import products

            found = products(rows, self.weights)
        else:
            found = known.scores(rows, None if one else copy)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any, agent: str | int | None = None) -> np.ndarray:
        """Labels; numbers for a regression model. Score 0 is the positive class.

        Parameters
        ----------
        X, agent : see `decision_function`
        """
        return self.labels_of(self.decision_function(X, agent))

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels by the scores; for a regression model, the scores."""
        if self.classes is None:
            return scores
        tie = 0.0 if self.known is None else self.known.algorithm.update.tie
        return self.labels[class_numbers(scores, tie)]

    def predict_proba(self, X: Any, agent: str | int | None = None) -> np.ndarray:
        """Probability of every class (n, classes), for models whose loss has it.

        Parameters
        ----------
        X, agent : see `decision_function`
        """
        return self.chances_of(np.asarray(self.decision_function(X, agent)))

    def chances_of(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of the classes from scores; see `predict_proba`."""
        self.check_chances()
        return loss_named(self.loss).chances(scores)

    def save(self, path: str | Path) -> None:
        """Write the model beside ``path`` and rename it."""
        plain, arrays = self.encoding.to_plain()
        kept = {f"encoding.{name}": array for name, array in arrays.items()}
        kept["weights"], layout = self.weights, None
        if self.known is not None:
            kept |= {"scalars": self.known.scalars, **_thinned(self.known)}
            layout = field_names(layout_of(self.known.algorithm, self.known.theta.shape[-1]))
        header = {
            "version": self.version,
            "encoding": plain,
            "loss": self.loss,
            "outputs": len(self.weights),
            "width": self.weights.shape[1],
            "recipe": self._recipe(),
            "layout": layout,
            "algorithm": self.algorithm,
            "training": self.training,
        }
        write_arrays(path, KIND, kept, header)

    def linear_form(self, agent: str | int | None = None) -> LinearForm:
        """The model as a plain linear form, for other programs; see `ddol.linear.form`.

        Parameters
        ----------
        agent : name or number, optional
            Of one agent; by default that of all together.

        Examples
        --------
        >>> encoding = Encoding(n_features=2, classes=(0.0, 1.0), intercept=True)
        >>> model = Model(np.array([[0.5, 1.0, -1.0]]), encoding)
        >>> model.linear_form().bias.tolist(), model.linear_form().weights.tolist()
        ([0.5], [[1.0, -1.0]])
        """
        from ddol.linear.form import LinearForm

        return LinearForm.of(self, agent)

    def to_json(self, path: str | Path, agent: str | int | None = None) -> None:
        """Write a linear form as JSON, exact and complete; see `ddol.linear.json_file`."""
        from ddol.linear.json_file import write_json

        write_json(self.linear_form(agent), path)

    def to_sklearn(self, agent: str | int | None = None) -> Any:
        """A fitted Pipeline of scikit-learn that predicts as this model does."""
        from ddol.linear.estimators import to_sklearn

        return to_sklearn(self.linear_form(agent))

    def to_onnx(self, path: str | Path, agent: str | int | None = None) -> None:
        """Write an ONNX graph; see `ddol.linear.onnx_file.to_onnx`."""
        from ddol.linear.onnx_file import write_onnx

        write_onnx(self.linear_form(agent), path)

    def to_vw(self, path: str | Path, agent: str | int | None = None) -> None:
        """Write Vowpal Wabbit's readable text, which cannot say that features are clipped."""
        from ddol.linear.vw_text import write_vw

        write_vw(self.linear_form(agent), path)

    @classmethod
    def from_sklearn(cls, estimator: Any, feature_names: Sequence[str] | None = None) -> Model:
        """The model of a fitted linear estimator of scikit-learn, for further training.

        Parameters
        ----------
        estimator : fitted linear model, or a Pipeline of scalers before one
        feature_names : sequence of str, optional

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> known = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
        >>> Model.from_sklearn(known).predict([[0.0], [1.0]]).tolist()
        ['no', 'yes']
        """
        from ddol.linear.estimators import from_sklearn

        return cls.of_linear(from_sklearn(estimator, feature_names))

    @classmethod
    def of_linear(cls, form: LinearForm) -> Model:
        """The model of a linear form; what it clips is not clipped here."""
        weights = np.column_stack([form.bias, form.weights])
        return cls(weights, form.encoding, form.loss, {"name": "linear"}, version=__version__)

    def _recipe(self) -> dict[str, Any] | None:
        """How the algorithm is made again; None where weights alone will do."""
        if self.known is None:
            return None
        algorithm = self.known.algorithm
        if algorithm.recipe is None:
            if self.known.is_linear:
                return None
            raise DataError(
                f"the algorithm {algorithm.name} is one of your own and scores by more than weights; "
                "make it by a preset of ddol to save its model"
            )
        return {
            "made": dict(algorithm.recipe),
            "average": algorithm.average,
            "safe": algorithm.safe,
            "privacy": None if algorithm.privacy is None else vars(algorithm.privacy),
            "outputs": algorithm.outputs,
            "copies": len(self.known.theta),
        }

    @property
    def has_chances(self) -> bool:
        """Whether the loss gives probabilities of the classes."""
        return self.classes is not None and loss_named(self.loss).probability is not None

    def check_chances(self) -> None:
        """Raise an error where the loss gives no probabilities."""
        if not self.has_chances:
            what = "a regression model" if self.classes is None else f"the loss {self.loss}"
            raise DataError(f"{what} gives no probabilities; train with the loss logistic")


def load(path: str | Path) -> Model:
    """Read a model that ``ddol train --model`` or `Model.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "tiny.ddol")
    >>> Model(np.array([[1.0]]), Encoding(n_features=1, classes=(-1.0, 1.0))).save(path)
    >>> load(path).predict([[3.0], [-3.0]])
    array([ 1, -1])
    """
    arrays, header = read_arrays(path, KIND)
    with damaged(path, KIND):
        arrays, header = lifted(KIND, arrays, header)
        own = [name for name in arrays if name.startswith("encoding.")]
        parts = {name.removeprefix("encoding."): arrays[name] for name in own}
        encoding = Encoding.from_plain(header["encoding"], parts)
        shape = int(header["outputs"]), int(header["width"])
        weights = {"weights": arrays["weights"]}
        check_arrays(path, weights, {"weights": Expected("float64", shape)})
        if encoding.width is not None and encoding.width != shape[1]:
            raise ValueError(f"{shape[1]} weights for {encoding.width} features")
        if encoding.n_outputs != shape[0] and encoding.stumps is None:
            raise ValueError(f"{shape[0]} weight vectors for {encoding.n_outputs} outputs")
        known, training = _known(path, header, arrays, shape), dict(header["training"])
        _check_agents(training, encoding, known)
        return Model(
            weights=_finite(path, arrays["weights"]),
            encoding=encoding,
            loss=str(header["loss"]),
            algorithm=dict(header["algorithm"]),
            training=training,
            version=str(header["version"]),
            known=known,
        )


def _check_agents(training: Mapping[str, Any], encoding: Encoding, known: Knowledge | None) -> None:
    """Refuse figures that are no numbers, and as many copies or names as there are no agents."""
    agents = training.get("agents", 1)
    check_number("agents", agents, 1)
    check_number("rounds", training.get("rounds", 0))
    if known is not None and len(known.theta) not in (1, agents):
        raise ValueError(f"states of {len(known.theta)} agents, there are {agents}")
    if encoding.sites and len(encoding.sites) != agents:
        raise ValueError(f"names of {len(encoding.sites)} agents, there are {agents}")


def _known(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: dict[str, np.ndarray],
    shape: tuple[int, int],
) -> Knowledge | None:
    recipe = header["recipe"]
    if recipe is None:
        return None
    algorithm = _algorithm_of(path, recipe)
    outputs, width = shape
    state = expected_state(algorithm, width)
    if state["theta"].shape[1] != outputs:
        raise ValueError(f"{state['theta'].shape[1]} states for {outputs} weight vectors")
    copies = (int(recipe["copies"]),)
    expected = {
        name: Expected("float64", copies + state[name].shape[1:]) for name in ("theta", "scalars")
    }
    parts = (*expected, "places")
    found = {name: arrays[name] for name in parts if name in arrays}
    layout, names = layout_of(algorithm, width), header.get("layout")
    if names and {"theta", "scalars"} <= found.keys() and found["theta"].ndim == 4:
        found["theta"], found["scalars"] = in_place(
            layout, names, found["theta"], found["scalars"], path
        )
    places = found.get("places")
    if places is not None:
        expected["places"] = Expected("int64", (None,))
        expected["theta"] = Expected("float64", expected["theta"].shape[:-1] + places.shape)
    check_arrays(path, found, expected)
    theta = found["theta"]
    if places is not None:
        theta = _widened(algorithm, theta, places, width)
    check_vectors(layout, theta, found["scalars"], path)
    return Knowledge(algorithm, theta, found["scalars"])


def _algorithm_of(path: str | Path, recipe: Mapping[str, Any]) -> Algorithm:
    """The algorithm that a file describes."""
    try:
        made = made_again(recipe["made"])
    except NotRegisteredError as error:
        raise DataError(f"{path}: {error}") from None
    return replace(
        made,
        average=recipe["average"],
        outputs=int(recipe["outputs"]),
        safe=bool(recipe.get("safe", False)),
        privacy=recipe.get("privacy"),
    )


def model_of(trace: Trace, encoding: Encoding, settings: dict[str, Any] | None = None) -> Model:
    """The model that a run leaves: all that its agents know.

    Parameters
    ----------
    trace : Trace
    encoding : Encoding
        Of the data that the run learned from.
    settings : dict, optional
        What else to keep about the algorithm.

    Examples
    --------
    >>> import ddol
    >>> trace = ddol.run(ddol.dogd(), (np.eye(2), [0, 1]))
    >>> trace.model().predict(np.eye(2))
    array([0, 1])
    """
    width = trace.weights.shape[2]
    if encoding.stumps is None and encoding.columns is None and encoding.bits is None:
        # A stream may end before it has shown every column that it was said to have, or show more.
        encoding = replace(encoding, n_features=width - encoding.intercept)
    state, known, weights = trace.state, None, trace.weights.mean(axis=0)
    # Names that were read ahead have a place already, though no example was learned with them.
    ahead = max(width, encoding.width or 0) - width
    if state is not None and not state.sums.size:
        state = grow(trace.algorithm, state, width + ahead)
        known = _affordable(trace.algorithm, state.theta, state.scalars)
    elif state is not None:
        weights = state.sums.mean(axis=0) / max(state.rounds, 1)
    if ahead:
        weights = np.pad(weights, ((0, 0), (0, ahead)))
    figures = {name: getattr(trace, name) for name in _FIGURES}
    figures |= {"mean_loss": trace.mean_loss, "agents": trace.agents}
    if trace.classification:
        figures |= {"mistakes": int(trace.mistakes.sum()), "error": trace.error}
    return Model(
        weights=weights,
        encoding=encoding,
        loss=trace.algorithm.loss.name,
        algorithm={
            "name": (trace.algorithm.recipe or {}).get("preset", trace.name),
            **(settings or {}),
        },
        training=figures,
        version=trace.version,
        known=known,
    )


def _affordable(algorithm: Algorithm, theta: np.ndarray, scalars: np.ndarray) -> Knowledge:
    """What all copies know, or their mean where they are too large to be kept one by one."""
    if algorithm.tests:  # what neighbours sent is not for those who predict
        update: Any = algorithm.update
        theta, scalars = map(np.ascontiguousarray, update.untested(theta, scalars))
        algorithm = replace(algorithm, trust="all")
    if theta.nbytes > _MOST_BYTES and len(theta) > 1:
        from ddol.reference import mean_of_copies

        theta, scalars = mean_of_copies(algorithm, theta, scalars)
    return Knowledge(algorithm, theta, scalars)


def _thinned(known: Knowledge) -> dict[str, np.ndarray]:
    """What is written of agents' states: where few of many columns were met, those, and which they are."""
    theta, width = known.theta, known.theta.shape[-1]
    if width < _WIDE or not known.algorithm.update.grows:
        return {"theta": theta}
    start, _ = known.algorithm.update.start(1)
    met = np.zeros(width, dtype=bool)
    for rows in theta.reshape(-1, *theta.shape[2:]):
        for row, [begun] in zip(rows, start, strict=True):
            met |= row != begun
    places = np.flatnonzero(met)
    if 2 * len(places) > width:
        return {"theta": theta}
    return {"theta": np.take(theta, places, axis=-1), "places": places}


def _widened(algorithm: Algorithm, theta: np.ndarray, places: np.ndarray, width: int) -> np.ndarray:
    """What `_thinned` was given: columns without an example are as they began."""
    if not (np.all(np.diff(places, prepend=-1) > 0) and np.all(places < width)):
        raise ValueError(f"places that are not rising numbers below {width}")
    if len(theta) > 1 and 8 * math.prod(theta.shape[:-1]) * width > _MOST_BYTES:
        raise ValueError(
            f"states of {len(theta)} agents, which are too large to be kept one by one"
        )
    wide = np.zeros((*theta.shape[:-1], width))
    for row, [begun] in enumerate(algorithm.update.start(1)[0]):
        if begun:
            wide[:, :, row] = begun
    wide[..., places] = theta
    return wide


def as_raw(X: Any, gaps: bool = False) -> Raw:
    """A raw block of what users predict on: an array, a sparse matrix, a data frame, or a raw block.

    Parameters
    ----------
    X
    gaps : bool
        Whether values of an array may be missing.

    Examples
    --------
    >>> len(as_raw([[1.0, 2.0]]))
    1
    """
    if isinstance(X, Rows | Table | Named):
        return X
    if hasattr(X, "columns"):
        return table_of_frame(X)
    from ddol.streams.arrays import array_stream, is_sparse

    if gaps and not is_sparse(X):
        return table_of_array(X)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    return array_stream(X, np.zeros(n)).rows


def _finite(path: str | Path, weights: np.ndarray) -> np.ndarray:
    if weights.dtype != np.float64 or not math.isfinite(float(np.abs(weights).sum())):
        raise DataError(f"{path}: found weights that are not finite numbers; train the model again")
    return weights
