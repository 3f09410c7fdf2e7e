"""With --time the networks that --effort chooses are trained once more on all rows;
figures are those of before."""

import numpy as np
import pytest
from support.command_line import succeed
from support.packs import until_ended
from support.tables import csv_of

import nn
from nn.data.splits import fold_rows
from nn.files.checkpoint import Checkpoint
from nn.test.learned import best_output, known_in_time, learned_by_rows
from nn.train.effort import Effort
from nn.train.effort_plan import EffortPlan

ROWS = 120
GIVEN = {"epochs": 5, "patience": 3}
OF_NETWORK = {"seed": 3, "backend": "omp"}


def columns_in_time(rows=ROWS, classes=False):
    """Return a table whose target drifts with the time of its rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2)).round(4)
    time = np.arange(rows)
    y = x[:, 0] + time / rows * x[:, 1]
    y = np.where(y > 0, "yes", "no") if classes else y.round(4)
    return {
        "a": x[:, 0].tolist(),
        "b": x[:, 1].tolist(),
        "day": time.tolist(),
        "y": y.tolist(),
    }


def chosen(ds, state=None, stop=None, effort="quick", **options):
    choice = Effort(ds, effort, GIVEN | options, OF_NETWORK)
    return choice.run(
        lambda net, ds, **settings: nn.train(net, ds, **settings, stop=stop),
        checkpoint=state and Checkpoint(state, resume="auto"),
    )


@pytest.fixture(scope="module")
def ds():
    return nn.load(columns_in_time(), target="y", time="day")


@pytest.fixture(scope="module")
def found(ds):
    return chosen(ds)


def without_retraining(monkeypatch, ds, **options):
    with monkeypatch.context() as patch:
        patch.setattr(EffortPlan, "knows_first_rows_only", False)
        return chosen(ds, **options)


def test_members_are_networks_trained_on_all_rows_for_the_steps_of_the_last_fold(
    monkeypatch, ds, found
):
    net, figures = found
    before, of_folds = without_retraining(monkeypatch, ds)
    last = fold_rows(ds, np.arange(ROWS), 8, 3, rare=True)[7]
    smallest = min(before.members[7].history["val_metric"])
    val_metric = before.members[7].history["val_metric"]
    best = val_metric.index(smallest) + 1
    size = before.members[0].config["batch_number"]
    steps = best * -(-len(last.training) // size)
    epochs = max(1, round(steps / -(-ROWS // size)))
    assert figures["retrained"] == {"rows": ROWS, "epochs": [epochs]}
    assert "retrained" not in of_folds
    settings = {
        n: before.members[0].config[n]
        for n in (
            "learning_rate",
            "weight_decay",
            "batch_number",
            "schedule",
            "number_embedding",
            "clip",
            "scale_rate",
        )
    }
    alone = nn.Network.for_data(
        ds, net.members[4].written_layers, seed=3 + 4, backend="omp"
    )
    nn.train(alone, ds, holdout=0.0, epochs=epochs, split_seed=3, **settings)
    parameters = net.members[4].parameters()
    other = alone.parameters()
    assert len(net.members) == 8
    for name in other:
        assert np.array_equal(parameters[name], other[name])


@pytest.mark.parametrize("size, batches, batches_of_all", [(13, 9, 10), (106, 1, 2)])
def test_epochs_of_all_rows_are_fewer_where_the_last_fold_knows_fewer(
    monkeypatch, ds, size, batches, batches_of_all
):
    """Of 120 rows the last fold knows 106, another one may know 107."""
    options = {"batch_number": size, "epochs": 12, "patience": 12}
    _, figures = chosen(ds, **options)
    before, _ = without_retraining(monkeypatch, ds, **options)
    metrics = before.members[7].history["val_metric"]
    best = metrics.index(min(metrics)) + 1
    expected = round(batches * best / batches_of_all)
    assert expected < best
    assert figures["retrained"]["epochs"] == [expected]


def test_figures_and_crossed_scores_are_those_of_before(monkeypatch, ds, found):
    net, figures = found
    before, of_folds = without_retraining(monkeypatch, ds)
    assert figures["out_of_fold"] == of_folds["out_of_fold"]
    assert figures["learned"] == of_folds["learned"]
    assert figures["loss"] == of_folds["loss"]
    assert net.history == before.history
    assert np.array_equal(net.crossed.scores, before.crossed.scores)
    assert net.crossed.is_retrained
    assert not before.crossed.is_retrained
    assert "retrained" not in before.metadata()["crossed"]
    predictions = net.predict(ds.x)
    assert not np.array_equal(predictions, before.predict(ds.x))


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_baseline_of_a_fold_in_time_is_what_the_rows_before_it_tell(classes):
    """A third class has fewer rows than there are folds, all of the first days."""
    columns = columns_in_time(classes=classes > 0)
    if classes == 3:
        columns["y"][:3] = ["rare"] * 3
    ds = nn.load(columns, target="y", time="day")
    net, figures = chosen(ds)
    folds = fold_rows(ds, np.arange(ROWS), len(net.crossed.thresholds), 3)
    assert len(folds) == 8
    y = ds.y.reshape(-1)
    losses = []
    for fold in folds:
        before = y[fold.training]
        truth = y[fold.tested]
        if classes:
            losses.append(-np.log((before == truth[:, None]).mean(axis=1)))
        else:
            losses.append((truth - before.mean(dtype=np.float64)) ** 2)
    assert figures["baseline"] == pytest.approx(np.concatenate(losses).mean())


def test_a_forecast_need_not_beat_a_constant_that_knows_later_rows():
    """Targets rise from fold to fold; scores are a third of the way from the mean of
    the rows before to the targets."""
    times = np.arange(60)
    y = (times // 20).astype(np.float32).reshape(-1, 1)
    y += np.random.default_rng(0).normal(scale=0.1, size=y.shape)
    ds = nn.Dataset(np.zeros((60, 1), np.float32), y, "regression", times=times)
    folds = fold_rows(ds, times, 2, 0)
    known = known_in_time(ds, folds, 1)
    means = np.array([y[:20].mean(), y[:40].mean()])
    constants = np.concatenate([best_output("mse", targets) for targets in known])
    assert constants == pytest.approx(means, rel=1e-5)
    of_row = np.repeat([0, 1], 20)
    judged = ds.of_rows(times[20:])
    before = means[of_row].reshape(-1, 1)
    scores = before + (judged.y - before) / 3
    figures = learned_by_rows(judged, scores, 1, of_row, known)
    assert figures["learned"] is True
    assert figures["baseline"] == pytest.approx(((judged.y - before) ** 2).mean())
    assert learned_by_rows(judged, before, 1, of_row, known)["learned"] is False
    assert learned_by_rows(judged, scores, 1, of_row)["learned"] is False


@pytest.mark.parametrize(
    "more", [{"holdout": 0.25}, {"threshold": "f1", "calibrate": "temperature"}]
)
def test_holdout_and_decisions_stay_as_they_were(monkeypatch, more):
    classes = nn.load(columns_in_time(classes=True), target="y", time="day")
    net, figures = chosen(classes, **more)
    before, of_folds = without_retraining(monkeypatch, classes, **more)
    assert net.threshold == before.threshold
    assert net.temperature == before.temperature
    assert figures["out_of_fold"] == of_folds["out_of_fold"]
    expected = ROWS * (1 - more.get("holdout", 0))
    assert figures["retrained"]["rows"] == expected
    for member in net.members:
        assert member.history["val_loss"] is None or more.get("holdout")


def test_rows_without_times_are_not_trained_on_once_more():
    net, figures = chosen(nn.load(columns_in_time(), target="y"))
    assert "retrained" not in figures
    assert not net.crossed.is_retrained


def test_a_retraining_that_is_stopped_goes_on_to_the_same_model(ds, found, tmp_path):
    (ended, result), stops = until_ended(
        lambda stop: chosen(ds, tmp_path / "state.nn", stop), 9, 40
    )
    whole, figures = found
    ended.export(tmp_path / "ended.bin")
    whole.export(tmp_path / "whole.bin")
    assert stops > 2
    assert (tmp_path / "ended.bin").read_bytes() == (
        tmp_path / "whole.bin"
    ).read_bytes()
    assert result == {
        **figures,
        "seconds": result["seconds"],
        "us_per_batch": result["us_per_batch"],
    }


def test_a_stop_without_a_checkpoint_keeps_the_networks_of_the_folds(ds, monkeypatch):
    before, _ = without_retraining(monkeypatch, ds)

    def stopping(net, ds, **settings):
        stop = nn.StopRequest()
        if "folds" not in settings:
            stop.request(2)
        return nn.train(net, ds, **settings, stop=stop)

    choice = Effort(ds, "quick", GIVEN, OF_NETWORK)
    net, figures = choice.run(stopping)
    assert choice.stopped is not None
    assert "retrained" not in figures
    expected = before.predict(ds.x)
    assert np.array_equal(net.predict(ds.x), expected)
    assert not net.crossed.is_retrained


def test_the_seconds_of_a_choice_are_those_of_all_its_trainings(ds):
    seconds = []

    def timed(net, ds, **settings):
        figures = nn.train(net, ds, **settings)
        seconds.append(figures["seconds"])
        return figures

    _, figures = Effort(ds, "quick", GIVEN, OF_NETWORK).run(timed)
    assert len(seconds) > figures["tried"]  # some were trained once more
    assert figures["seconds"] == pytest.approx(sum(seconds))


def test_commands_say_which_rows_the_networks_know(folder):
    columns = columns_in_time()
    (folder / "t.csv").write_text(csv_of(list(columns), list(columns.values())))
    flags = ["--time", "day", "--effort", "quick", "--epochs", 3]
    trained = succeed("--train", "--dataset", "t.csv", "--model", "m.bin", *flags)
    assert (
        "networks trained once more on all 120 rows; the figures are those of before"
        in trained.out
    )
    of_folds = succeed(
        "--train", "--dataset", "t.csv", "--time", "day", "--folds", 2, "--epochs", 1
    )
    known = "2 folds in time: each network knows only the rows before its fold"
    assert known in of_folds.out
    assert "trained once more" not in of_folds.out
    again = nn.Model.load("m.bin").network
    judged = len(again.crossed.rows)
    assert again.crossed.is_retrained
    assert again.metadata()["crossed"]["retrained"] is True
    result = succeed("test", "m.bin", "--json", "--report", "p.html")
    assert result.json["rows"] == judged
    assert result.json["trained_rows"] == 0
    assert result.json["out_of_fold"] is True
    assert "The networks know these rows" in (folder / "p.html").read_text()
    given = succeed("test", "m.bin", "t.csv", "--json")
    assert given.json["rmse"] == result.json["rmse"]
    assert "m.bin was trained on these" in given.err
    assert "before it was trained once more on all" in given.err
    explained = succeed("explain", "m.bin", "--json")
    assert explained.json["trained_rows"] == ROWS
    assert explained.err.count("m.bin was trained on 120 of these 120 rows") == 1
    with_data = succeed("explain", "m.bin", "t.csv", "--json")
    assert with_data.json["trained_rows"] == ROWS
    assert "before it was trained" not in with_data.err
    assert explained.json["importance"] == with_data.json["importance"]
    info = succeed("info", "m.bin").out
    assert (
        f"{judged} of 120 rows, 8 folds; then all networks were trained once more on all rows"
        in info
    )


def test_importance_in_python_warns_of_rows_that_all_networks_know(ds, found, caplog):
    nn.Model(*found).importance(ds)
    assert "the model was trained on 120 of these 120 rows" in caplog.text


def test_a_file_whose_folds_say_that_they_were_retrained_otherwise_is_refused(
    found, tmp_path
):
    from nn.files import model_file
    from nn.utils import DataError

    net, _ = found
    metadata = net.metadata()
    metadata["crossed"]["retrained"] = 1
    with pytest.raises(DataError, match="`crossed` is"):
        model_file.unpacked(model_file.packed(net_tensors(net), metadata))


def net_tensors(net):
    from nn.nn.model import tensors

    return tensors(net)
