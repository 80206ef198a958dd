import hashlib
import json
from pathlib import Path

import pytest

import fetch_model
from fetch_model import SOURCE, Failed, HubFile, bytes_here, digest_of, explain, forget_other_commit, needed_names


def test_weights_are_fetched_once_with_what_belongs_to_them():
    names = {
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "model.fp16.safetensors",
        "consolidated.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "config.json",
        "tokenizer.json",
        "tokenizer.model",
        "merges.txt",
        "chat_template.jinja",
        "LICENSE",
        "README.md",
        "model-q4.gguf",
    }
    assert sorted(needed_names(names)) == [
        "LICENSE",
        "chat_template.jinja",
        "config.json",
        "merges.txt",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer.model",
    ]


def test_weights_of_an_unusual_name_are_taken_when_there_are_no_others():
    assert "weights.safetensors" in needed_names({"weights.safetensors", "config.json"})


def test_digests_are_those_of_git_and_of_large_file_storage(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"hello\n")
    # What `git hash-object` says.
    assert digest_of(path, HubFile("file", 6, None, "b")) == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert digest_of(path, HubFile("file", 6, "s", "b")) == hashlib.sha256(b"hello\n").hexdigest()


def test_what_is_here_counts_whole_and_partial_files(tmp_path: Path):
    whole, partial, missing = (HubFile(name, 9, None, name * 20) for name in "abc")
    (tmp_path / "a").write_bytes(b"123456789")
    (tmp_path / fetch_model.PARTIAL).mkdir()
    fetch_model.partial_of(tmp_path, partial).write_bytes(b"1234")
    assert [bytes_here(tmp_path, file) for file in (whole, partial, missing)] == [9, 4, 0]


def test_files_of_another_commit_are_removed_and_those_of_the_same_kept(tmp_path: Path):
    (tmp_path / SOURCE).write_text(json.dumps({"commit": "old"}))
    (tmp_path / "config.json").touch()
    forget_other_commit(tmp_path, "old")
    assert (tmp_path / "config.json").exists()
    forget_other_commit(tmp_path, "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_no_fetch_made_is_left_alone(tmp_path: Path):
    (tmp_path / "diary.txt").touch()
    with pytest.raises(Failed, match="holds files that are not of a fetch"):
        forget_other_commit(tmp_path, "new")
    assert (tmp_path / "diary.txt").exists()


def test_a_full_disk_is_told_from_other_failures():
    assert explain(OSError(28, "No space left on device"), "a/b", "main").reason == "disk"
    assert explain(PermissionError(13, "Permission denied"), "a/b", "main").reason == "other"
    assert explain(ConnectionRefusedError(), "a/b", "main").reason == "network"
