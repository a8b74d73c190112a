from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from proxy.discovery.upstreams_file import UpstreamsFile, load_addresses

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "upstreams"
    path.write_text("http://a\n")
    return path


def settled(file: UpstreamsFile) -> list[str] | None:
    """What the second look after a change brings."""
    assert file.look() is None
    found = file.look()
    return None if found is None else [str(address) for address in found]


def watched(path: Path) -> UpstreamsFile:
    file = UpstreamsFile(path)
    assert settled(file) == ["http://a"]
    return file


@pytest.mark.parametrize("content", [b"http://a\n", b"\xef\xbb\xbfhttp://a"])
def test_a_file_is_utf_8_with_or_without_a_mark(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert [str(address) for address in load_addresses(path)] == ["http://a"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"http://a\nnonsense\n", "line 2: 'nonsense' must start with"),
        (b"http://\xff\n", "is not UTF-8 text"),
        (b"#" * 1_048_577, "is longer than 1048576 bytes"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        load_addresses(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory\)"):
        load_addresses(tmp_path / "nowhere")


@pytest.mark.timeout(5)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(path: Path) -> None:
    file = watched(path)
    path.unlink()
    os.mkfifo(path)
    assert file.look() is None
    with pytest.raises(ValueError, match="is no regular file"):
        file.look()
    path.unlink()
    path.write_text("http://b\n")
    assert settled(file) == ["http://b"]


def test_a_directory_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be read \(Is a directory\)"):
        load_addresses(tmp_path)


def test_nothing_is_new_until_the_file_changes(path: Path) -> None:
    file = watched(path)
    assert [file.look() for _ in range(3)] == [None] * 3


def test_a_file_that_is_written_in_place_is_read_again(path: Path) -> None:
    file = watched(path)
    path.write_text("http://a\nhttp://b\n")
    assert settled(file) == ["http://a", "http://b"]


def test_a_file_that_is_being_written_is_left_alone(path: Path) -> None:
    file = watched(path)
    for length in range(3, 12, 3):
        path.write_text("http://longer"[:length])
        assert file.look() is None
    path.write_text("http://longer")
    assert settled(file) == ["http://longer"]


def test_a_file_that_is_written_again_and_again_is_read_all_the_same(path: Path) -> None:
    """As templating tools and controllers do, in place or by renaming, with nothing new in it."""
    file = watched(path)
    for number in range(3):
        rewritten = path.with_name("new")
        rewritten.write_text("http://b\n")
        os.utime(rewritten, (number, number))
        rewritten.rename(path)
        found = file.look()
        assert (found is not None) == (number == 1)


def test_a_bad_file_that_is_written_again_and_again_is_told_once(path: Path) -> None:
    file, told = watched(path), 0
    for number in range(6):
        path.write_text("nonsense\n")
        os.utime(path, (number, number))
        try:
            assert file.look() is None
        except ValueError:
            told += 1
    assert told == 1


def test_a_file_of_the_same_size_that_is_renamed_over_it_is_read(path: Path) -> None:
    file = watched(path)
    times = path.stat().st_mtime_ns
    other = path.with_name("other")
    other.write_text("http://b\n")
    os.utime(other, ns=(times, times))
    other.rename(path)
    assert settled(file) == ["http://b"]


def test_a_symbolic_link_that_is_turned_to_another_folder_is_followed(tmp_path: Path) -> None:
    """As Kubernetes swaps the content of a ConfigMap: the link changes two levels above."""
    for name in ("a", "b"):
        (tmp_path / f"..{name}").mkdir()
        (tmp_path / f"..{name}" / "upstreams").write_text(f"http://{name}\n")
    data, path = tmp_path / "..data", tmp_path / "upstreams"
    data.symlink_to("..a")
    path.symlink_to("..data/upstreams")
    file = watched(path)
    (tmp_path / "..data_tmp").symlink_to("..b")
    (tmp_path / "..data_tmp").rename(data)
    assert settled(file) == ["http://b"]


def test_an_empty_file_names_nobody(path: Path) -> None:
    file = watched(path)
    path.write_text("# all gone\n")
    assert settled(file) == []


def test_a_fault_is_said_once_for_each_change(path: Path) -> None:
    file = watched(path)
    for content in ("http://a\nx\n", "http://a\n\ny\n"):
        path.write_text(content)
        assert file.look() is None
        with pytest.raises(ValueError, match="line"):
            file.look()
        assert [file.look() for _ in range(3)] == [None] * 3
    path.write_text("http://b\n")
    assert settled(file) == ["http://b"]


def test_a_file_that_goes_is_missed_once_and_read_when_it_is_back(path: Path) -> None:
    file = watched(path)
    hidden = path.rename(path.with_name("hidden"))
    assert file.look() is None
    with pytest.raises(ValueError, match="cannot be read"):
        file.look()
    assert [file.look() for _ in range(3)] == [None] * 3
    hidden.rename(path)
    assert settled(file) == ["http://a"]


def test_a_file_that_was_never_there_is_missed_too(tmp_path: Path) -> None:
    file = UpstreamsFile(tmp_path / "nowhere")
    assert file.look() is None
    with pytest.raises(ValueError, match="cannot be read"):
        file.look()


def test_what_could_not_be_read_is_tried_again_without_a_change(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk's fault, not the file's: no stamp tells when it is over."""
    file = watched(path)
    path.write_text("http://b\n")
    with monkeypatch.context() as broken:
        broken.setattr(type(path), "open", _fails)
        assert file.look() is None
        with pytest.raises(ValueError, match="Input/output error"):
            file.look()
        assert file.look() is None
    assert settled(file) == ["http://b"]


def _fails(*_: object) -> None:
    raise OSError(5, "Input/output error")
