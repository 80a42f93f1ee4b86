"""scikit-learn's own checks, with no exception made."""

from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddol import DDOLClassifier, DDOLRegressor, WeightedMajorityClassifier

TREES = [DecisionTreeClassifier(max_depth=depth) for depth in (2, 4, 6)]
ESTIMATORS = [
    estimator
    for n in (1, 3)
    for estimator in (
        DDOLClassifier(n_agents=n),
        DDOLClassifier(loss="logistic", n_agents=n, batch=2, average_iterates=True),
        DDOLRegressor(n_agents=n),
        DDOLRegressor(loss="huber", n_agents=n, topology="ring", delay=1),
        WeightedMajorityClassifier(n_agents=n),
        WeightedMajorityClassifier(TREES, average="primal", n_agents=n),
    )
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
