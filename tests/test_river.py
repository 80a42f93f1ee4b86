import numpy as np
import pytest

river = pytest.importorskip("river", reason="river is a test dependency")

from river import checks, compose, datasets, evaluate, metrics, preprocessing, stream  # noqa: E402

from ddol.river import Classifier, Regressor  # noqa: E402

MODELS = [
    Classifier(),
    Classifier(loss="hinge", n_agents=3, topology="ring", batch=2, hash_bits=10),
    Regressor(),
    Regressor(n_agents=3, hash_bits=8),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.n_agents}-{m.loss}")
def test_river_accepts(model):
    checks.check_estimator(model)


def test_progressive_validation():
    found = evaluate.progressive_val_score(
        datasets.Phishing(), Classifier(n_agents=2), metrics.ROCAUC()
    )
    assert found.get() > 0.9
    found = evaluate.progressive_val_score(datasets.TrumpApproval(), Regressor(), metrics.MAE())
    assert found.get() < 1.0


def test_a_pipeline_of_river_ends_in_agents():
    model = compose.Select("x") | preprocessing.StandardScaler() | Classifier()
    for k in range(200):
        model.learn_one({"x": k % 7, "noise": k}, k % 7 > 3)
    assert model.predict_one({"x": 6, "noise": 0}) is True


def test_one_at_a_time_is_the_stream_of_the_library():
    from ddol import DDOLClassifier

    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    y = X @ [1.0, -1.0, 0.5] > 0
    model = Classifier(n_agents=4)
    for x, answer in stream.iter_array(X, y):
        model.learn_one(x, answer)
    one_call = DDOLClassifier(loss="logistic", n_agents=4).partial_fit(X, y, classes=[False, True])
    chances = [model.predict_proba_one(x)[True] for x, _ in stream.iter_array(X, y)]
    np.testing.assert_allclose(chances, one_call.predict_proba(X)[:, 1], rtol=1e-9)
    assert model.trace.mistakes.tolist() == one_call.trace_.mistakes.tolist()


def test_classes_come_one_by_one():
    model = Classifier()
    assert model.predict_one({"x": 1.0}) is None
    for k in range(300):
        model.learn_one({f"x{k % 3}": 1.0}, "abc"[k % 3])
    assert [model.predict_one({f"x{k}": 1.0}) for k in range(3)] == ["a", "b", "c"]
    assert set(model.predict_proba_one({"x0": 1.0})) == {"a", "b", "c"}


def test_losses_without_chances_say_so():
    model = Classifier(loss="hinge")
    model.learn_one({"x": 1.0}, True)
    with pytest.raises(NotImplementedError, match="use logistic"):
        model.predict_proba_one({"x": 1.0})
