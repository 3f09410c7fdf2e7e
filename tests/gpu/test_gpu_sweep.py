"""Entries of a plan on a GPU: the time of each layer where the plan asks for it."""

import json

from nn.study import sweep


def test_the_layers_of_an_entry_are_timed_where_the_plan_asks(gpu, backend, tmp_path):
    data = {"images": {"rows": 640, "shape": "1x12x12", "classes": 2}}
    part = {"layers": "1x12x12,conv4k3,maxpool2,4,2", "batch_number": 32, "seed": 3}
    path = tmp_path / "plan.json"
    rows = {}
    for asked in (False, True):
        plan = {**part, "data": data, "epochs": 3, "backend": backend, "profile": asked}
        path.write_text(json.dumps(plan))
        (entry,) = sweep.read_plan(str(path))
        rows[asked] = sweep.run_entry(entry)
    assert [row["status"] for row in rows.values()] == ["ok", "ok"], rows
    assert "forward_ms" not in rows[False]
    for way in ("forward_ms", "backward_ms"):
        times = [float(number) for number in rows[True][way].split()]
        assert len(times) == 5  # with the one that flattens
        assert times[0] > 0
    figures = [[row[key] for key in ("loss", "accuracy")] for row in rows.values()]
    assert figures[0] == figures[1], "measured before more batches are trained"
    assert (
        rows[True]["setup_s"] > 0
    )  # kernels may be at hand: cached by the entry before
