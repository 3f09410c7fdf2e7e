"""Tables at the border of nn.load: every format keeps to the written interface and to the rules of fields."""

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


def test_fields_that_are_not_what_is_asked_for_name_row_and_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": [1, np.inf, 2], "t": ["5", "x", ""], "big": [1, 1e300, 2], "b": [3, 1, 2], "y": [1.5, 2, 3]}
    )

    def message(columns, **choices):
        with pytest.raises(nn.NnError) as caught:
            nn.load(frame[columns], **choices)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    place = "the data frame, data row"
    infinite = f'{place} 2, column a: found "inf", expected a finite number; correct it'
    assert message(["a", "y"]) == infinite
    assert message(["y", "a"]) == f"{infinite} or remove the row or the column"
    assert message(["b", "y", "t"], target="y,t") == (
        f'{place} 2, column t: found "x", expected a number; correct it, or remove the row or the column'
    )
    assert message(["big", "y"]) == (
        f'{place} 2, column big: found "1e+300", expected at most 3.4e38 for float32; correct it or use --dtype float64'
    )
    assert message(["y", "t"], task="regression").startswith(f'{place} 2, column t: found "x", expected a number')


def test_a_text_makes_the_target_a_class_where_it_may_be_one(tmp_path):
    (tmp_path / "a.csv").write_text("1,1\n2,red\n3,1\n")
    with pytest.raises(nn.DataError, match='row 2, column 2 of 2: found "red", expected a number; correct it, or add'):
        nn.load(str(tmp_path / "a.csv"))
    assert nn.load(str(tmp_path / "a.csv"), task="multiclass").classes == ["1", "red"]
    with pytest.raises(nn.DataError, match="correct it, or remove the row"):
        nn.load(str(tmp_path / "a.csv"), task="regression")
    (tmp_path / "a.csv").write_text("1,red\n2,blue\n3,1\n")
    with pytest.raises(nn.DataError, match='row 3, column 2 of 2: found "1", expected text as in the other rows'):
        nn.load(str(tmp_path / "a.csv"))


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
