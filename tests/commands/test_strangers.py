"""A model that a stranger made chooses no file that is written and no host that is
contacted."""

import json
import os

import pytest
from support.command_line import (
    ONE,
    argv,
    run,
    succeed,
    write_numbers,
    write_two_classes,
)
from support.s3 import bucket

import nn

FILES = {
    "history": "h.csv",
    "trace": "t.json",
    "checkpoint": "c.ck",
    "logdir": "logs",
    "output": "o.csv",
    "report": "r.html",
    "model": "other.bin",
    "resume": "old.ck",
    "background": "b.csv",
    "config": "c.json",
    "profile": True,
    "checkpoint_every": 1,
    "export": True,
    "plot": "pictures",
    "sweep": "plan.json",
    "--logdir": "logs",
    "checkpoint-every": 1,
    "json": True,
    "quiet": True,
    "force": True,
    "debug": True,
}


def stranger(data, **changes) -> nn.Network:
    """A model whose settings have more than a training keeps there."""
    succeed(*ONE, "--dataset", data, "--model", "m.bin", "--epochs", 2, "-q")
    net = nn.Model.load("m.bin").network
    net.config |= changes
    return net


@pytest.mark.usual(7)
@pytest.mark.parametrize("name", FILES)
def test_settings_of_a_model_choose_no_file(folder, name):
    write_two_classes(folder / "two.csv")
    stranger("two.csv", **{name: FILES[name]}).export("m.bin")
    facts = succeed("--info", "--model", "m.bin", "--json").json
    plain = name.removeprefix("--").replace("-", "_")
    assert {"epochs", "layers", "learning_rate"} <= facts["config"].keys()
    facts["config"][name] = FILES[name]  # as an info of an earlier version prints it
    (folder / "facts.json").write_text(json.dumps(facts))
    before = sorted(os.listdir(folder))
    result = run("--train", "--config", "facts.json", "--model", "n.bin", "--epochs", 1)
    assert result.code == 0, result.err
    assert (
        f"nn: warning: facts.json: {plain}: a model does not say what is written"
        in result.err
    )
    expected = sorted([*before, "n.bin"])
    assert sorted(os.listdir(folder)) == expected
    model = nn.Model.load("n.bin")
    assert model.network.config["epochs"] == 1


def test_what_is_printed_of_a_model_has_no_such_settings(folder):
    """The settings alone, as jq .config takes them out of that, may be used as flags;
    so may a page's command."""
    write_two_classes(folder / "two.csv")
    net = stranger("two.csv", **FILES)
    members = [net.copied(), net.copied()]
    net.combine(members, [1.0, 1.0])
    net.config = {"epochs": 2}
    for one in (members[0], net):
        one.export("m.bin")
        facts = succeed("--info", "--model", "m.bin", "--json").json
        for known in (facts, *facts.get("members", ())):
            assert known["config"]["epochs"] == 2
            assert FILES.keys().isdisjoint(known["config"])
        succeed("--info", "--model", "m.bin", "--report", "page.md", "-q")
        text = (folder / "page.md").read_text()
        for name, value in FILES.items():
            assert f"--{name} {value}" not in text


def test_files_of_the_command_line_are_written_as_ever(folder):
    write_two_classes(folder / "two.csv")
    stranger("two.csv", history="theirs.csv").export("m.bin")
    text = succeed("--info", "--model", "m.bin", "--json").out
    (folder / "facts.json").write_text(text)
    succeed(*argv("--train --config facts.json --model n.bin --history ours.csv -q"))
    (folder / "mine.json").write_text(
        '{"train": true, "dataset": "two.csv", "model": "k.bin", "history": "mine.csv"}'
    )
    succeed("--config", "mine.json", "--networks", 1, "--epochs", 1, "-q")
    assert {"ours.csv", "mine.csv", "k.bin"} <= set(os.listdir(folder))
    assert not (folder / "theirs.csv").exists()


# ---- hosts


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("pyarrow.fs").S3FileSystem  # noqa: B018
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with bucket({}) as server:
        yield server


def uri(server) -> str:
    return f"s3://bucket/two.csv?endpoint_override={server.address}&scheme=http"


def paths(server) -> list[str]:
    """Ways to name the server's file; the last one is a path of this machine with the
    URI behind a comma."""
    address = uri(server)
    return [
        address,
        f"two.csv,{address}",
        f"{address},{address}",
        f"file:///two.csv%2C{address.replace('?', '%3F')}",
    ]


@pytest.mark.usual(8)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    "command",
    [
        ["test", "m.bin"],
        ["test", "m.bin", "--force"],
        ["explain", "m.bin"],
        ["explain", "m.bin", "two.csv", "-o", "w.csv"],
        ["compare", "m.bin", "k.bin"],
        ["plot", "m.bin", "-o", "pictures"],
        ["test", "m.bin", "--report", "p.html"],
        ["train", "--config", "facts.json", "-m", "n.bin"],
    ],
)
def test_the_data_set_of_a_model_asks_no_host(folder, server, number, command):
    server.objects["two.csv"] = write_two_classes(folder / "two.csv").read_bytes()
    net = stranger("two.csv")
    net.export("k.bin")
    net.dataset["path"] = paths(server)[number]
    net.export("m.bin")
    text = json.dumps(succeed("info", "m.bin", "--json").json)
    (folder / "facts.json").write_text(text)
    (folder / "away").mkdir()
    (folder / "two.csv").rename(folder / "away" / "two.csv")
    command = ["away/two.csv" if word == "two.csv" else word for word in command]
    result = run(*command)
    assert server.asked == []
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith("nn: ")
    assert (
        "lies elsewhere"
        if command[0] == "train"
        else "no host is asked because a model names it"
    ) in result.err
    model = nn.Model.load("m.bin")
    with pytest.raises(nn.UsageError):
        model.explain(nn.load("away/two.csv").x)
    with pytest.raises(nn.UsageError):
        nn.held_out(model.network, "m.bin")
    assert server.asked == []


def test_validation_rows_of_a_model_ask_no_host_either(folder, server):
    server.objects["two.csv"] = write_two_classes(folder / "two.csv").read_bytes()
    stranger("two.csv", validation=uri(server)).export("m.bin")
    (folder / "facts.json").write_text(succeed("info", "m.bin", "--json").out)
    train = "train", "--config", "facts.json", "-m", "n.bin", "-q"
    result = run(*train)
    assert result.code == 2
    assert "give --validation on the command line" in result.err
    assert server.asked == []
    succeed(*train, "--validation", "0.2")
    succeed("test", "m.bin", "two.csv", "--config", "facts.json")
    assert server.asked == []


def test_a_file_that_a_person_names_is_read_anywhere_and_a_copy_at_the_model_found(
    folder, server
):
    data = write_numbers(folder / "numbers.csv").read_bytes()
    server.objects["two.csv"] = data
    succeed(*ONE, "--dataset", uri(server), "--model", "m.bin", "--epochs", 1, "-q")
    net = nn.Model.load("m.bin").network
    assert net.dataset["path"] == uri(server)
    assert server.asked
    assert run("test", "m.bin").code == 2
    result = succeed("test", "m.bin", uri(server), "--json", "-q")
    assert result.json["rows"] == 60
    (folder / "two.csv").write_bytes(data)
    assert succeed("test", "m.bin", "--json", "-q").json["rows"] == 12
    (folder / "facts.json").write_text(succeed("info", "m.bin", "--json").out)
    succeed("train", uri(server), "--config", "facts.json", "-m", "n.bin", "-q")
    assert (folder / "n.bin").read_bytes() == (folder / "m.bin").read_bytes()
