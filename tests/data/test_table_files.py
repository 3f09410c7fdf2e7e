"""Tables at the border of nn.load: every format keeps to the written interface."""

import numpy as np
import pytest
from support.command_line import REPOSITORY

import nn
from nn.data.formats import FORMATS
from nn.settings.flags import FLAGS


@pytest.mark.parametrize("known", [known for known in FORMATS if not known.cure], ids=lambda known: known.name)
def test_the_documents_list_every_format(known):
    help_of_dataset = next(flag.help for flag in FLAGS if flag.name == "dataset")
    guide = (REPOSITORY / "docs" / "using.md").read_text().split("## Data")[1].split("\n## ")[0]
    for text in (help_of_dataset, nn.load.__doc__, guide):
        assert known.name.split()[0] in text


def test_a_networks_schema_reads_the_data_of_its_training(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{i},{i * i % 7},{'ab'[i % 2]}\n" for i in range(40)))
    ds = nn.load(str(tmp_path / "a.csv"))
    net = nn.Network("2,3,1", ds.task)
    nn.train(net, ds, epochs=1)
    assert (net.schema.task, net.schema.classes, net.schema.width) == ("binary", ["a", "b"], 2)
    again = nn.load_for(net, str(tmp_path / "a.csv"))
    np.testing.assert_array_equal(again.y, ds.y)
    assert again.classes == ds.classes
    images = nn.Network("1x2x2,3,1", "binary")
    assert images.schema.pixels == (1, 2, 2) and images.schema.width == 4
