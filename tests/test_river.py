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


def test_an_example_may_be_one_agents_own():
    model = Classifier("dogd", rate=0.5, l2=0.0, n_agents=2, topology="path", period=100)
    for k in range(180):
        x = {"x": 1.0 if k % 4 < 2 else -1.0}
        # What is true at one agent is false at the other.
        model.learn_one(x, (x["x"] > 0) == (k % 2 == 0), agent=["here", "there"][k % 2])
    assert model.predict_one({"x": 1.0}, agent="here") is True
    assert model.predict_one({"x": 1.0}, agent="there") is False
    assert model.trace.agents == 2
    with pytest.raises(ValueError, match="found the agent 'nowhere', expected one of"):
        model.predict_one({"x": 1.0}, agent="nowhere")
    with pytest.raises(ValueError, match="names 3 agents, expected at most 2"):
        model.learn_one({"x": 1.0}, True, agent="nowhere")


def test_an_importance_of_two_is_twice_the_loss():
    plain, heavy = (Regressor("dogd", "squared", rate=0.01, l2=0.0) for _ in range(2))
    twice = Regressor("dogd", "squared", rate=0.01, l2=0.0, C=2.0)
    for k in range(20):
        plain.learn_one({"x": k % 5}, 1.0 * k)
        heavy.learn_one({"x": k % 5}, 1.0 * k, w=2.0)
        twice.learn_one({"x": k % 5}, 1.0 * k)
    assert heavy.predict_one({"x": 2}) == pytest.approx(twice.predict_one({"x": 2}))
    assert heavy.predict_one({"x": 2}) != pytest.approx(plain.predict_one({"x": 2}))
    with pytest.raises(ValueError, match="`w` must be a finite number"):
        heavy.learn_one({"x": 1}, 1.0, w=-1.0)


def test_answers_may_be_late():
    model = Regressor("dogd", rate=0.1, l2=0.0, delay=3)
    for _ in range(3):
        model.learn_one({"x": 1.0}, 1.0)
        assert model.predict_one({"x": 1.0}) == 0.0
    model.learn_one({"x": 1.0}, 1.0)
    assert model.predict_one({"x": 1.0}) > 0.0


@pytest.mark.parametrize("bits", [None, 12])
def test_weights_are_known_by_name(bits):
    model = Regressor(hash_bits=bits)
    for k in range(400):
        x = {"size": k % 10, "town": ["Rome", "Bern"][k % 2]}
        model.learn_one(x, 2.0 * x["size"] + (5.0 if x["town"] == "Rome" else 0.0))
    assert set(model.weights) == {"size", "town=Rome", "town=Bern"}
    weights, x = model.weights, {"size": 3, "town": "Rome"}
    score = model.intercept + 3 * weights["size"] + weights["town=Rome"]
    assert score == pytest.approx(model.predict_one(x), abs=0.5)
    flowers = Classifier()
    for k in range(200):
        flowers.learn_one({"red": k % 2, "blue": 1 - k % 2}, "rose" if k % 2 else "iris")
    assert flowers.weights["rose"]["red"] > 0 > flowers.weights["iris"]["red"]


@pytest.mark.parametrize("model", [Classifier(), Regressor()])
def test_missing_values_are_refused_by_name(model):
    with pytest.raises(ValueError, match="feature 'age' is None, expected a finite number"):
        model.learn_one({"age": None}, 1)


@pytest.mark.parametrize("answer", [None, float("nan")])
@pytest.mark.parametrize("model", [Classifier(), Regressor()])
def test_answers_that_are_none_are_refused(model, answer):
    with pytest.raises(ValueError, match=f"`y` is {answer}"):
        model.learn_one({"age": 1.0}, answer)


def test_a_refused_example_leaves_no_class_behind():
    model = Classifier()
    for k in range(4):
        model.learn_one({"age": k}, k % 2)
    with pytest.raises(ValueError, match="feature 'age' is 1000"):
        model.learn_one({"age": 10**400}, "new")
    assert set(model.predict_proba_one({"age": 1.0})) == {0, 1}
    model.learn_one({"age": 9.0}, "newer")
    assert set(model.predict_proba_one({"age": 1.0})) == {0, 1, "newer"}


def test_a_prediction_costs_no_more_for_features_that_are_not_in_it(monkeypatch):
    from ddol.engines.local import Local

    model = Classifier(n_agents=4, topology="ring", hash_bits=16)
    for k in range(10):
        model.learn_one({f"x{k}": 1.0}, k % 2)
    monkeypatch.setattr(Local, "state", None)
    monkeypatch.setattr(Local, "weights", None)
    for k in range(10):  # with rounds that are full and open
        model.predict_proba_one({f"x{k}": 1.0})
        model.learn_one({f"x{k}": 1.0}, k % 2)


def test_answers_come_by_identifier_in_any_order():
    model = Classifier()
    for k in range(20):
        model.predict_one({"x": 1.0 if k % 2 else -1.0}, identifier=k)
    for k in reversed(range(0, 20)):
        model.learn_one(None, "yes" if k % 2 else "no", identifier=k)
    assert model.predict_one({"x": 2.0}) == "yes"
    with pytest.raises(KeyError, match="no prediction waits under 3"):
        model.learn_one(None, "yes", identifier=3)


def test_an_answer_asked_for_by_an_unbiased_rule_weighs_one_over_its_chance():
    from ddol.estimators.dicts import Asker

    asker = Asker("unbiased:1", seed=0)
    asked = [k for k in range(200) if asker.ask([3.0], example=k)]
    assert 20 < len(asked) == asker.labels < 90
    assert [asker.weight(k) for k in asked] == [4.0] * len(asked)
    assert asker.weight(asked[0]) == 1.0  # once

    plain, weighed = Classifier(), Classifier(query="unbiased:0.01")
    for k in range(300):
        x = {"x": k % 7 - 3.0}
        if weighed.ask(x):
            weight = weighed._asker._weights[frozenset(x.items())]
            plain.learn_one(x, k % 7 > 3, w=weight)
            weighed.learn_one(x, k % 7 > 3)
    assert plain.weights == weighed.weights
    assert weighed.labels < 300


# --- sites that predict before they learn, and answers that come late ---------------------------


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_an_agent_predicts_before_it_has_learned_what_all_agents_know(kind):
    model = kind(n_agents=2)
    assert model.predict_one({"x": 1.0}, agent="us") in (None, 0.0)  # before anything
    for k in range(40):
        model.learn_one({"x": k % 7 - 3.0}, float(k % 7 > 3), agent="eu")
    assert model.predict_one({"x": 3.0}, agent="us") == model.predict_one({"x": 3.0})
    if kind is Classifier:
        assert model.predict_proba_one({"x": 3.0}, agent="us") == model.predict_proba_one(
            {"x": 3.0}
        )
    model.learn_one({"x": 3.0}, 1.0, agent="us")
    assert model.predict_one({"x": 3.0}, agent="us") is not None


def test_the_agent_that_predicted_learns_from_the_answer():
    model, told = Classifier(n_agents=2), Classifier(n_agents=2)
    for k in range(60):
        x, y, site = {"x": k % 7 - 3.0}, k % 7 > 3, ("eu", "us")[k % 2]
        model.predict_one(x, agent=site, identifier=k)
        model.learn_one(None, y, identifier=k)
        told.learn_one(x, y, agent=site)
    for site in ("eu", "us"):
        assert model.predict_proba_one({"x": 1.0}, agent=site) == told.predict_proba_one(
            {"x": 1.0}, agent=site
        )


def test_agents_that_take_turns_do_so_whoever_predicted():
    model = Classifier(n_agents=2)
    model.learn_one({"x": 1.0}, True)
    model.predict_one({"x": 1.0}, agent=1, identifier="q")
    model.learn_one(None, True, identifier="q")
    assert model.trace.examples == 2


def test_a_refused_answer_leaves_the_prediction_waiting():
    model = Classifier()
    model.predict_proba_one({"x": 1.0}, identifier="q")
    for wrong in ({"y": None}, {"y": "yes", "w": -1.0}):
        with pytest.raises(ValueError, match=r"expected|must be"):
            model.learn_one(None, identifier="q", **wrong)
    model.learn_one(None, "yes", identifier="q")
    with pytest.raises(KeyError, match="no prediction waits under 'q'"):
        model.learn_one(None, "yes", identifier="q")
    with pytest.raises(ValueError, match="neither"):
        model.learn_one(None, "yes")


def test_how_many_predictions_wait_is_a_parameter():
    model = Classifier(waiting=2)
    for k in range(5):
        model.predict_one({"x": 1.0}, identifier=k)
    assert model.kept.unanswered == 3
    with pytest.raises(KeyError, match="3 were; up to 2 wait, see `waiting`"):
        model.learn_one(None, "yes", identifier=0)
    model.learn_one(None, "yes", identifier=4)
    assert model.clone().waiting == 2
    many = Classifier(waiting=5000)
    for k in range(5000):
        many.predict_one({"x": float(k)}, identifier=k)
    for k in range(5000):
        many.learn_one(None, k > 2500, identifier=k)
    assert many.kept.unanswered == 0 and many.trace.examples == 5000
    for wrong in (0, -1, 1.5, "many", True):
        with pytest.raises(ValueError, match="`waiting`"):
            Regressor(waiting=wrong)


def test_words_that_nothing_knows_are_refused():
    model = Classifier()
    for call in (model.predict_one, model.predict_proba_one, Regressor().predict_one):
        with pytest.raises(TypeError, match="agnet"):
            call({"x": 1.0}, agnet="us")
    with pytest.raises(TypeError, match="agnet"):
        Classifier(agnet=3)


def test_every_parameter_of_an_algorithm_can_be_given():
    for model in (
        Classifier(memory=50.0),
        Regressor(memory=50.0),
        Classifier(algorithm="newton", rank=2),
    ):
        for k in range(20):
            model.learn_one({"x": k % 7 - 3.0}, float(k % 7 > 3))
        update = model._agents.learner.algorithm.update
        assert getattr(update, "rank", None) == 2 or update.memory == 50.0
