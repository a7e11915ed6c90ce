from storage.log import open_files
from storage.log.open_files import OpenFiles


class Opened:
    """An owner of a file that can be closed and opened again."""

    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        self.used = False
        self.is_open = False

    def use(self) -> None:
        self.used = True
        if not self.is_open:
            self.is_open = True
            self._files.opened(self)

    def close_file(self) -> None:
        self.is_open = False
        self._files.closed(self)


def holders(files: OpenFiles, count: int) -> list[Opened]:
    made = [Opened(files) for _ in range(count)]
    for one in made:
        one.use()
    return made


def open_ones(made: list[Opened]) -> list[int]:
    return [number for number, one in enumerate(made) if one.is_open]


def test_open_files_never_exceed_the_limit() -> None:
    files = OpenFiles(max_open=3)
    made = holders(files, 10)
    assert len(open_ones(made)) == len(files) == 3


def test_frequently_used_files_stay_open() -> None:
    files = OpenFiles(max_open=3)
    busy, *others = holders(files, 20)
    for other in others:
        busy.use()
        other.use()
        assert other.is_open
        assert len(files) == 3
    assert busy.is_open


def test_least_recently_used_file_is_closed_first() -> None:
    files = OpenFiles(max_open=3)
    made = holders(files, 3)
    for one in made:
        one.used = False
    made[0].used = True
    late = Opened(files)
    late.use()
    assert open_ones([*made, late]) == [0, 2, 3]


def test_file_closed_by_its_owner_frees_a_slot() -> None:
    files = OpenFiles(max_open=2)
    first, second = holders(files, 2)
    second.close_file()
    second.close_file()
    third = Opened(files)
    third.use()
    assert (first.is_open, len(files)) == (True, 2)


def test_deleted_owner_is_not_listed() -> None:
    files = OpenFiles()
    made = holders(files, 2)
    del made[0]
    assert len(files) == 1


def test_sweep_closes_files_unused_since_the_last_sweep() -> None:
    files = OpenFiles()
    made = holders(files, open_files.KEPT + 100)
    files.sweep()
    assert len(files) == open_files.KEPT + 100
    for one in made[:50]:
        one.use()
    files.sweep()
    assert len(files) == open_files.KEPT
    assert all(one.is_open for one in made[:50])
    files.sweep()
    files.sweep()
    assert len(files) == open_files.KEPT


def test_files_in_use_stay_open_above_the_limit() -> None:
    files = OpenFiles()
    made = holders(files, open_files.KEPT + 100)
    for _ in range(3):
        for one in made:
            one.use()
        files.sweep()
    assert all(one.is_open for one in made)
