"""Logs go out and come back the same; neighbours read what we write, and we read what they write."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import conebandit as cb
from conebandit.formats import (
    Feedback,
    from_obp,
    read_csv,
    read_dsjson,
    read_vw,
    to_obp,
    write_csv,
    write_dsjson,
    write_vw,
)

ROOT = Path(__file__).parents[2]
FIELDS = ("contexts", "arms", "rewards", "propensities", "probabilities")


def log(n=40, n_arms=3, seed=0, gaps=True, known=True):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(n_arms), n)
    arms = np.array([rng.choice(n_arms, p=row) for row in chances])
    arms[0] = n_arms - 1
    rewards = rng.normal(size=(n, 2)) * [1.0, 1e-9]
    rewards[1::4, 1] = np.nan if gaps else 0.0
    return Feedback(
        rng.normal(size=(n, 2)) * [1.0, 1e6],
        arms,
        rewards,
        chances[np.arange(n), arms],
        chances if known else None,
        arm_names=("old one", "new, better", 'ne"w')[:n_arms],
        metric_names=("sales", "comfort"),
    )


def assert_same(one, two, but=()):
    for name in FIELDS:
        if name not in but:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


@pytest.mark.parametrize("known", [True, False])
def test_round_trips(tmp_path, known):
    was = log(known=known)
    path = tmp_path / "log"
    found = from_obp(to_obp(was))
    assert_same(was, found)
    assert (found.arm_names, found.metric_names) == (was.arm_names, was.metric_names)
    write_dsjson(was, path)
    found = read_dsjson(path)
    assert_same(was, found)
    assert (found.arm_names, found.metric_names) == (was.arm_names, was.metric_names)
    write_vw(was, path)
    found = read_vw(path, was.arm_names)
    assert_same(was, found, but=["probabilities"])
    assert found.arm_names == was.arm_names
    write_csv(was, path)
    found = read_csv(path)
    assert found.metric_names == was.metric_names
    order = [found.arm_names.index(name) for name in was.arm_names]
    np.testing.assert_array_equal(np.array(order)[was.arms], found.arms)
    assert_same(was, found, but=["arms"] if known else ["arms", "probabilities"])


@pytest.mark.parametrize("names", [{"arm_names": (" a", "a")}, {"metric_names": ("m ",)}])
def test_names_that_a_csv_file_would_change_are_not_written(tmp_path, names):
    odd = Feedback([[0.1], [0.2]], [0, 1], [[1.0], [2.0]], [0.5, 0.5], **names)
    with pytest.raises(ValueError, match=f"{next(iter(names))} must not begin or end with a blank"):
        write_csv(odd, tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == []


NUMBERS = st.floats(-1e100, 1e100)


@given(arrays(float, (3, 2), elements=NUMBERS), arrays(float, (3, 2), elements=NUMBERS))
def test_every_digit_survives(tmp_path_factory, contexts, rewards):
    was = Feedback(contexts, [0, 1, 1], rewards, [0.1, 1 / 3, 1.0])
    path = tmp_path_factory.mktemp("log") / "log"
    for write, read in ((write_vw, read_vw), (write_dsjson, read_dsjson), (write_csv, read_csv)):
        write(was, path)
        assert_same(was, read(path), but=["probabilities"])


def test_only_one_metric_is_shown_to_neighbours(tmp_path):
    was = log(gaps=False)
    assert to_obp(was, "comfort")["reward"].tolist() == was.rewards[:, 1].tolist()
    write_dsjson(was, tmp_path / "a", metric=1)
    events = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert [event["_label_cost"] for event in events] == (-was.rewards[:, 1]).tolist()
    write_vw(was, tmp_path / "b", metric="comfort")
    costs = [float(line.split(":")[1]) for line in (tmp_path / "b").read_text().splitlines()]
    assert costs == (-was.rewards[:, 1]).tolist()
    with pytest.raises(ValueError, match="metric 'comfort' must be known in every row that is written; in row 1"):
        write_vw(log(), tmp_path / "b", metric="comfort")
    with pytest.raises(ValueError, match="metric must be one of sales, comfort, or a number below 2; got 'profit'"):
        to_obp(was, "profit")
    with pytest.raises(ValueError, match="metric must be one of"):
        to_obp(was, 2)


def test_probabilities_of_dsjson_go_with_their_arms(tmp_path):
    was = log()
    write_dsjson(was, tmp_path / "a")
    for i, line in enumerate((tmp_path / "a").read_text().splitlines()):
        event = json.loads(line)
        assert event["a"][0] == event["_label_Action"] == was.arms[i] + 1
        assert sum(event["p"]) == pytest.approx(1.0)
        assert all(was.probabilities[i, a - 1] == p for a, p in zip(event["a"], event["p"], strict=True))


# ---- what others write ----------------------------------------------------------------------------------------------


def test_features_of_others(tmp_path):
    path = tmp_path / "log"
    path.write_text("1:2:0.4 tag|user a:2 b |site c\n\n2:-1:0.5|user b:0.5\n")
    found = read_vw(path)
    assert found.contexts.tolist() == [[2, 1, 1], [0, 0.5, 0]]
    assert found.rewards.tolist() == [[-2], [1]]
    event = {"_label_cost": 1, "_label_probability": 0.5, "_labelIndex": 1, "c": {"_multi": [{"x": 1}, {"x": 2}]}}
    event["c"] |= {"v": [1, 2.5], "_tag": "no", "u": {"vip": True, "old": False, "none": None}}
    path.write_text(json.dumps(event) + "\n")
    found = read_dsjson(path)
    assert found.contexts.tolist() == [[1, 2.5, 1]]
    assert (found.rewards.tolist(), found.arm_names, found.probabilities) == ([[-1]], ("0", "1"), None)


def test_export_of_the_service_in_shadow_has_no_probabilities_of_the_arm_served(tmp_path):
    path = tmp_path / "log.csv"
    head = "id,mode,arm,propensity,context.age,metric.sales,status.sales,choice_probabilities\n"
    rows = [
        f'{mode},{mode},a,{chance},30,1,reported,"{{""a"": 0.5, ""b"": 0.5}}"\n'
        for mode, chance in (("live", 0.5), ("shadow", 1.0))
    ]
    path.write_text(head + rows[0] + rows[1])
    assert read_csv(path).probabilities is None
    path.write_text(head + rows[0])
    assert read_csv(path).probabilities.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_vw, "", "must have at least one decision"),
        (read_vw, "shared | a\n0:1:0.5 | b\n", "line 1 must be arm:cost:probability"),
        (read_vw, "1:2 | a\n", "line 1 must be"),
        (read_vw, "1:2:0.5 | city:paris\n", "line 1 must be"),
        (read_vw, "1:2:0 | a\n", "propensities must lie above 0"),
        (read_vw, "0:2:0.5 | a\n", "arms must be indices from 0 on"),
        (read_vw, "1:2:0.5 'rewards=1,2|a b\n1:2:0.5 'rewards=1|a b\n", "the same number of rewards"),
        (read_dsjson, "{\n", "line 1 must be an event"),
        (read_dsjson, "[]\n", "line 1 must be an event"),
        (read_dsjson, '{"c": {"_multi": [{}]}}\n', "line 1 must be an event"),
        (read_csv, "arm,propensity\n", "is empty"),
        (read_csv, "arm,propensity\nx,0.5\n", "must have the columns"),
        (read_csv, "arm,propensity,context.a,metric.b\nx,0.5,1\n", "row 2: 3 entries, but the header has 4"),
        (read_csv, "arm,propensity,context.a,metric.b,choice_probabilities\nx,1,1,1,{x\n", "must have objects of JSON"),
        (read_csv, "arm,propensity,context.a,metric.b\nx,0.5,paris,1\n", "must have numbers in context.a"),
        (read_csv, "arm,propensity,context.a,metric.b\nx,0.5,,1\n", "contexts must be finite"),
    ],
)
def test_files_that_are_not_logs(tmp_path, read, text, message):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_actions_that_change_are_refused(tmp_path):
    events = [
        {"_label_cost": 1, "_label_probability": 0.5, "_labelIndex": 0, "c": {"f": 1, "_multi": [{}] * n}}
        for n in (2, 3)
    ]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, events)))
    with pytest.raises(ValueError, match=r"line 2 .* not those of the first line"):
        read_dsjson(tmp_path / "log")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": [[np.nan], [1.0]]}, "contexts must be finite"),
        ({"contexts": [[1.0]]}, "contexts must have shape"),
        ({"arms": [0, 0.5]}, "arms must be indices"),
        ({"arms": []}, "arms must be indices"),
        ({"rewards": [[np.inf], [1.0]]}, "rewards must not be infinite"),
        ({"propensities": [0.5, 1.5]}, "propensities must lie above 0"),
        ({"probabilities": [[1.0], [1.0]]}, "arm_names must name every arm"),
        ({"arm_names": ("a",)}, "arm_names must name every arm"),
        ({"metric_names": ("a", "b")}, "metric_names must name every metric"),
    ],
)
def test_feedback_refuses(change, message):
    good = {"contexts": [[0.0], [1.0]], "arms": [0, 1], "rewards": [[1.0], [2.0]], "propensities": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        Feedback(**good | change)


def test_feedback_of_others_refuses():
    good = to_obp(log())
    with pytest.raises(ValueError, match="feedback must have pscore"):
        from_obp({key: value for key, value in good.items() if key != "pscore"})
    with pytest.raises(TypeError, match="feedback must be a dictionary; got list"):
        from_obp([])
    with pytest.raises(ValueError, match="slate"):
        from_obp(good | {"position": np.arange(40) % 3})
    assert_same(log(), from_obp(good | {"position": np.zeros(40, dtype=int)}))


# ---- the real Vowpal Wabbit -----------------------------------------------------------------------------------------

VOWPAL = """
import json, sys, vowpalwabbit
kind, n_arms, path = sys.argv[1:]
found = []
vw = vowpalwabbit.Workspace("--quiet " + ("--dsjson --cb_explore_adf" if kind == "dsjson" else f"--cb {n_arms}"))
for line in open(path):
    examples = vw.parse(line.rstrip("\\n"))
    examples = examples if isinstance(examples, list) else [examples]
    labels = [e.get_label(vowpalwabbit.LabelType.CONTEXTUAL_BANDIT).costs for e in examples]
    position = next(i for i, costs in enumerate(labels) if costs and costs[0].probability > 0)
    cost = labels[position][0]
    arm = position - 1 if kind == "dsjson" else cost.action - 1 if hasattr(cost, "action") else cost.label - 1
    values = [value for _, value in examples[0].iter_features()]
    found.append([arm, cost.cost, cost.probability, len(examples), values])
    vw.learn(examples if kind == "dsjson" else examples[0])
    vw.finish_example(examples if kind == "dsjson" else examples[0])
print(json.dumps(found))
"""


def vowpal_python():
    """An interpreter with Vowpal Wabbit: this one, or that of the environment that benchmarks of peers use."""
    if find_spec("vowpalwabbit"):
        return sys.executable
    bench = ROOT / ".venv-bench/bin/python"
    found = bench.exists() and subprocess.run([bench, "-c", "import vowpalwabbit"], capture_output=True, check=False)
    return str(bench) if found and found.returncode == 0 else None


@pytest.mark.system_package
@pytest.mark.parametrize("kind", ["text", "dsjson"])
def test_vowpal_wabbit_reads_what_was_logged(tmp_path, kind):
    python = vowpal_python()
    if python is None:
        pytest.skip("needs Vowpal Wabbit: pip install vowpalwabbit")
    was = log(gaps=False)
    (write_dsjson if kind == "dsjson" else write_vw)(was, tmp_path / "log", metric="sales")
    command = [python, "-c", VOWPAL, kind, str(len(was.arm_names)), str(tmp_path / "log")]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert [row[0] for row in found] == was.arms.tolist()
    np.testing.assert_allclose([row[1] for row in found], -was.rewards[:, 0], rtol=1e-6)  # it is in single precision
    np.testing.assert_allclose([row[2] for row in found], was.propensities, rtol=1e-6)
    for row, context in zip(found, was.contexts, strict=True):
        assert row[3] == (1 if kind == "text" else 1 + 3)  # the context, and an example for each arm
        values = row[4][:2]
        np.testing.assert_allclose(values, context, rtol=1e-6)


@pytest.mark.parametrize("metric", ["sales", "latency"])
def test_neighbours_see_costs_as_costs(tmp_path, metric):
    """Of a log whose cone minimises a metric, less of it is a larger reward and a smaller cost."""
    cone = cb.Cone.orthant(2, names=["sales", "latency"], minimise=["latency"])
    was = cb.Log([[0.1], [0.2]], [0, 1], [[1.0, 300.0], [0.5, 200.0]], [0.5, 0.5], cone)
    rewards = {"sales": [1.0, 0.5], "latency": [-300.0, -200.0]}[metric]
    made = to_obp(was, metric)
    assert made["reward"].tolist() == rewards
    write_vw(was, tmp_path / "log.vw", metric)
    costs = [float(line.split(":")[1]) for line in (tmp_path / "log.vw").read_text().splitlines()]
    write_dsjson(was, tmp_path / "log.json", metric)
    labels = [json.loads(line)["_label_cost"] for line in (tmp_path / "log.json").read_text().splitlines()]
    assert costs == labels == [-r for r in rewards]
    for back in (from_obp(made), read_vw(tmp_path / "log.vw"), read_dsjson(tmp_path / "log.json")):
        np.testing.assert_array_equal(back.rewards, was.rewards)  # as they were measured


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"probabilities": [[np.nan, 1.0]]}, "add up to 1"),
        ({"probabilities": [[0.5, 0.4]]}, "add up to 1"),
        ({"probabilities": [[-0.5, 1.5]]}, "at least 0"),
        ({"probabilities": [[0.9, 0.1]]}, "propensity at the arm played"),
        ({"arm_names": ("a", "a")}, "arm_names must be a list of texts, all different"),
        ({"arm_names": "ab"}, "arm_names must be a list of texts"),
        ({"arm_names": (1, 2)}, "arm_names must be a list of texts"),
        ({"rewards": [[1.0, 2.0]], "metric_names": ("a", "a")}, "metric_names must be a list of texts, all different"),
    ],
)
def test_what_cannot_be_a_log_is_refused(change, says):
    good = {"contexts": [[0.1]], "arms": [1], "rewards": [[1.0]], "propensities": [0.5], "probabilities": [[0.5, 0.5]]}
    assert Feedback(**good).arm_names == ("0", "1")
    with pytest.raises(ValueError, match=says):
        Feedback(**{**good, **change})


@pytest.mark.parametrize(
    ("line", "contexts"),
    [
        ("1:2:0.4 |u:2 a:3 b", [[6.0, 2.0]]),  # the weight of a namespace
        ("1:2:0.4 | a:3 a:4", [[7.0]]),  # features that are there twice
        ("1:2:0.4 |u a |u a:2", [[3.0]]),
        ("1:2:0.4 |\ta:3 b", [[3.0, 1.0]]),  # no namespace
        ("1:2:0.4 tag| a", [[1.0]]),
        ("1:2:0.4 'a:b| a", [[1.0]]),
    ],
)
def test_text_means_what_it_means_to_vowpal_wabbit(tmp_path, line, contexts):
    path = tmp_path / "log.vw"
    path.write_text(line + "\n")
    found = read_vw(path)
    assert found.contexts.tolist() == contexts
    assert found.rewards.tolist() == [[-2.0]]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1:1:0.5 2:0:0.5 | a", "several labels"),
        ("1:nan:0.5 | a", "cost must be finite"),
        ("1:inf:0.5 | a", "cost must be finite"),
        ("1:1:0.5 |", "must have features"),
        ("1:1:0.5 | a:nan", "contexts must be finite"),
    ],
)
def test_text_that_says_too_much_or_nothing_is_refused(tmp_path, line, says):
    path = tmp_path / "log.vw"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=says):
        read_vw(path)


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "log.vw").write_bytes("1:1:0.5 | \xe9:1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"log.vw must be in UTF-8"):
        read_vw(tmp_path / "log.vw")


EVENT = {
    "_label_cost": -1,
    "_label_probability": 0.8,
    "_labelIndex": 0,
    "a": [1, 2],
    "p": [0.8, 0.2],
    "c": {"User": {"age": 30}, "_multi": [{}, {}]},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"_labelIndex": 2}, "one of the 2 actions"),
        ({"_labelIndex": -1}, "one of the 2 actions"),
        ({"_labelIndex": 0.9}, "one of the 2 actions"),
        ({"_label_Action": 2}, "_label_Action one more"),
        ({"_label_cost": float("nan")}, "NaN is not a number of JSON"),
        ({"p": [0.1, 0.9]}, "propensity at the arm played"),
    ],
)
def test_events_that_contradict_themselves_are_refused(tmp_path, change, says):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**EVENT, "_label_Action": 1}) + "\n")
    assert read_dsjson(path).arms.tolist() == [0]
    path.write_text(json.dumps({**EVENT, **change}) + "\n")
    with pytest.raises(ValueError, match=says):
        read_dsjson(path)


def test_events_without_bottom_are_refused(tmp_path):
    path = tmp_path / "log.json"
    path.write_text('{"c":' * 50_000 + "\n")
    with pytest.raises(ValueError, match="line 1 must be an event"):
        read_dsjson(path)


def test_arrays_of_names_and_slates_of_the_pipeline():
    made = to_obp(log())
    assert from_obp({**made, "arm_names": np.array(made["arm_names"])}).arm_names == made["arm_names"]
    with pytest.raises(ValueError, match="pi_b must be of one position"):
        from_obp({**made, "pi_b": np.repeat(made["pi_b"], 3, axis=2)})
