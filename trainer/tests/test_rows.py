import json

import pytest
from conftest import write_rows

from progress import Refusal
from rows import read_rows

GOOD = {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1], "labels": [-100, 6, 7], "reward": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": None}, "field input_ids must be a list"),
        ({"input_ids": [5, 6.0, 7]}, "field input_ids[1] must be a whole number, got 6.0"),
        ({"input_ids": [5, True, 7]}, "field input_ids[1] must be a whole number, got true"),
        ({"input_ids": [5, 6, 100], "labels": [-100, 6, 100]}, "field input_ids[2] is 100, outside the vocabulary"),
        ({"input_ids": [], "labels": [], "attention_mask": []}, "field input_ids is empty"),
        ({"labels": [-100, 6]}, "field labels has 2 entries, input_ids has 3"),
        ({"labels": [-100, 6, 8]}, "field labels[2] is 8, must be -100 or the token 7 itself"),
        ({"labels": [5, -100, -100]}, "field labels has no trainable token"),
        ({"attention_mask": [0, 1, 1]}, "field attention_mask[0] is 0, must be 1"),
        ({"reward": "1"}, 'field reward must be a finite number, got "1"'),
        ({"reward": float("nan")}, "field reward must be a finite number, got NaN"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_field(tmp_path, change, message):
    file = write_rows(tmp_path / "rows.jsonl", [GOOD, {**GOOD, **change}])
    with pytest.raises(Refusal) as refusal:
        read_rows(file, vocabulary=100, max_length=10)
    assert str(refusal.value).startswith("rows.jsonl:2: ")
    assert message in str(refusal.value)


@pytest.mark.parametrize("field", GOOD.keys())
def test_a_missing_field_is_named(tmp_path, field):
    file = write_rows(tmp_path / "rows.jsonl", [{name: value for name, value in GOOD.items() if name != field}])
    with pytest.raises(Refusal, match=rf"rows.jsonl:1: field {field}"):
        read_rows(file, vocabulary=100, max_length=10)


@pytest.mark.parametrize("line", ["{", "[1]", "", '{"input_ids": '])
def test_a_line_that_is_no_object_is_refused(tmp_path, line):
    (tmp_path / "rows.jsonl").write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(Refusal, match="rows.jsonl:2: "):
        read_rows(tmp_path / "rows.jsonl", vocabulary=100, max_length=10)


def test_too_long_rows_are_left_out_and_counted(tmp_path):
    long = {**GOOD, "input_ids": [5] * 11, "attention_mask": [1] * 11, "labels": [5] * 11}
    kept = read_rows(write_rows(tmp_path / "rows.jsonl", [long, GOOD, long]), vocabulary=100, max_length=10)
    assert [row.input_ids for row in kept.rows] == [GOOD["input_ids"]]
    assert kept.dropped == {"too_long": 2}


@pytest.mark.parametrize(("max_length", "reason"), [(2, "all 1 rows are longer than 2 tokens"), (10, "is empty")])
def test_nothing_to_train_on_is_refused(tmp_path, max_length, reason):
    file = write_rows(tmp_path / "rows.jsonl", [GOOD] if max_length == 2 else [])
    with pytest.raises(Refusal, match=reason):
        read_rows(file, vocabulary=100, max_length=max_length)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(Refusal, match="cannot read the rows .*: No such file"):
        read_rows(tmp_path / "none.jsonl", vocabulary=100, max_length=10)
