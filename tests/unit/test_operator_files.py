"""What the tests with a training operator leave outside of their folders: nothing of others."""

from __future__ import annotations

from pathlib import Path

from support.control_plane.training_operator import existing


def test_file_and_folders_that_were_created_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with existing(file):
        assert file.is_file()
    assert list(tmp_path.iterdir()) == []
    file.parent.parent.mkdir()
    with existing(file):
        pass
    assert [*tmp_path.rglob("*")] == [tmp_path / "a"]


def test_files_of_another_program_are_neither_changed_nor_removed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with existing(file):
        (file.parent / "theirs").write_text("theirs")
    assert not file.exists()
    assert (file.parent / "theirs").read_text() == "theirs"
    file.write_text("theirs")
    with existing(file):
        assert file.read_text() == "theirs"
    assert file.read_text() == "theirs"
