"""What the tests with a training operator leave outside of their folders: nothing of others."""

from __future__ import annotations

import inspect
from pathlib import Path

from support.control_plane import training_operator
from support.control_plane.training_operator import existing


def test_file_and_folders_that_were_created_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with existing(file):
        assert file.is_file()
    assert list(tmp_path.iterdir()) == []


def test_file_of_another_program_is_neither_changed_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("theirs")
    with existing(file):
        assert file.read_text() == "theirs"
    assert file.read_text() == "theirs"


def test_folder_of_another_program_is_not_removed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    (tmp_path / "a").mkdir()
    with existing(file):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert list((tmp_path / "a").iterdir()) == []


def test_file_that_another_program_puts_beside_stays(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with existing(file):
        (tmp_path / "a" / "b" / "theirs").write_text("theirs")
    assert not file.exists()
    assert (tmp_path / "a" / "b" / "theirs").read_text() == "theirs"


def test_no_folder_is_removed_with_what_it_has() -> None:
    assert "rmtree" not in inspect.getsource(training_operator)
