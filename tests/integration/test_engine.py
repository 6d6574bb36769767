"""What the engine does when things are not as it left them: source, store and log."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror.delta import commit, features, log
from deltamirror.delta.actions import Line
from deltamirror.mirror import Settings, Sync, SyncResult, cleanup
from deltamirror.mirror.errors import MirrorMissing, MirrorModified, NotOurs, SourceRecreated, TooMuch
from deltamirror.sharing import Profile, SharingClient, TableName
from deltamirror.store import Store, open_store
from sharing_provider import Provider, serve
from tests.data import TABLES, expected
from tests.sharing import config

TABLE = "dv_part"
LATEST = max(expected(TABLE))


class Place:
    """A source in a folder that the test may change, and a mirror of it in another."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.mirror = folder / "mirror"
        self.show(LATEST)
        self.settings = Settings(TableName("s", "d", TABLE), "local/test/t", concurrency=4)

    def show(self, version: int) -> None:
        """Makes the source anew, up to a version."""
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(TABLES / TABLE, self.source)
        for path in (self.source / "_delta_log").iterdir():
            if path.name[:20].isdigit() and int(path.name[:20]) > version:
                path.unlink()

    @property
    def store(self) -> Store:
        return open_store(f"file://{self.mirror}", environment={})

    def sync(
        self, provider: Provider, full: bool = False, known_version: int | None = None, **settings: object
    ) -> SyncResult:
        with self._client(provider) as client:
            return self._engine(client, **settings).run(full=full, known_version=known_version)

    def audit(self, provider: Provider, repair: bool = False) -> dict[str, int]:
        with self._client(provider) as client:
            return self._engine(client).audit(repair=repair).findings

    def _client(self, provider: Provider) -> SharingClient:
        return SharingClient(Profile.from_dict(provider.profile()), features.readable())

    def _engine(self, client: SharingClient, **settings: object) -> Sync:
        return Sync(client, self.store, dataclasses.replace(self.settings, **settings))  # type: ignore[arg-type]

    def data_files(self) -> list[Path]:
        return sorted(self.mirror.glob("*.parquet"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def provider(place: Place) -> Iterator[Provider]:
    table = {"name": TABLE, "location": f"file://{place.source}", "historyShared": True}
    with serve(config([table])) as provider:
        yield provider


def test_a_clean_mirror_passes_its_audit(place: Place, provider: Provider) -> None:
    place.sync(provider)
    assert place.audit(provider) == {}


def test_an_audit_finds_what_is_damaged_and_repairs_it(place: Place, provider: Provider) -> None:
    rows = place.sync(provider).rows
    first, second, third = place.data_files()[:3]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-10])
    third.write_bytes(b"X" * third.stat().st_size)
    vector = next(place.mirror.glob("deletion_vector_*.bin"))
    content = bytearray(vector.read_bytes())
    content[10] ^= 1
    vector.write_bytes(content)
    assert place.audit(provider) == {"missing": 1, "wrongSize": 1, "corrupt": 1, "vectorCorrupt": 1}
    place.audit(provider, repair=True)
    assert place.audit(provider) == {}
    assert place.sync(provider).rows == rows


def test_a_full_check_brings_lost_objects_back_without_a_commit(place: Place, provider: Provider) -> None:
    before = place.sync(provider)
    place.data_files()[0].unlink()
    assert place.sync(provider).filesCopied == 0, "a routine look trusts the log"
    full = place.sync(provider, full=True)
    assert (full.filesCopied, full.commits, full.mirrorVersion) == (1, 0, before.mirrorVersion)


def test_somebody_elses_commit_is_noticed_and_overwritten_only_if_asked(place: Place, provider: Provider) -> None:
    place.sync(provider)
    victim = next(iter(log.load(place.store).files.values()))
    from deltamirror.delta.actions import Remove

    remove = Remove(victim.path, True, 1, deletion_vector=victim.deletion_vector)
    commit.write_commit(place.store, 1, [Line(commit_info={"operation": "DELETE"}), Line(remove=remove)], "x")
    with pytest.raises(MirrorModified, match="DELETE"):
        place.sync(provider)
    result = place.sync(provider, overwrite_modifications=True)
    assert result.filesAdded == 1
    assert len(log.load(place.store).files) == result.files


def test_a_mirror_that_is_gone_is_not_silently_made_anew(place: Place, provider: Provider) -> None:
    place.sync(provider)
    shutil.rmtree(place.mirror)
    with pytest.raises(MirrorMissing):
        place.sync(provider, known_version=0)
    assert place.sync(provider, known_version=0, overwrite_modifications=True).commits == 1


def test_another_owner_is_refused_and_may_adopt(place: Place, provider: Provider) -> None:
    place.sync(provider)
    with pytest.raises(NotOurs, match="local/test/t"):
        place.sync(provider, owner="local/test/other")
    assert place.sync(provider, owner="local/test/other", adopt=True).commits == 1
    with pytest.raises(NotOurs, match="local/test/other"):
        place.sync(provider)


def test_a_source_whose_version_fell_stalls_and_restarts_if_asked(place: Place, provider: Provider) -> None:
    place.sync(provider)
    place.show(LATEST - 2)
    with pytest.raises(SourceRecreated, match=f"version {LATEST} was mirrored before"):
        place.sync(provider)
    names = {path.name for path in place.data_files()}
    result = place.sync(provider, restart_on_recreation=True)
    assert result.rows == expected(TABLE)[LATEST - 2]["count"]
    assert result.mirrorVersion == 1
    live = {add.path for add in log.load(place.store).files.values()}
    assert not live & names, "files of a new life have new names"
    place.show(LATEST)
    assert place.sync(provider).rows == expected(TABLE)[LATEST]["count"]


def test_a_limit_on_bytes_stops_a_sync_before_it_copies(place: Place, provider: Provider) -> None:
    with pytest.raises(TooMuch):
        place.sync(provider, max_bytes=10)
    assert place.data_files() == []


def test_a_bandwidth_limit_is_kept(place: Place, provider: Provider) -> None:
    size = place.sync(provider).bytes
    shutil.rmtree(place.mirror)
    assert place.sync(provider, bytes_per_second=size * 2).seconds >= 0.3


def test_checkpoints_come_every_ten_commits_and_the_log_is_cleaned(place: Place, provider: Provider) -> None:
    for number in range(12):
        place.sync(provider, removed_files_seconds=1000.0 + number)
    listing = log.list_log(place.store)
    assert listing.checkpoints
    assert cleanup.clean_log(place.store, keep_seconds=0) > 0
    assert log.load(place.store).version == 11


def test_clean_up_keeps_what_is_needed_and_takes_what_is_not(place: Place, provider: Provider) -> None:
    from datetime import timedelta

    place.show(2)
    place.sync(provider)
    place.show(LATEST)
    place.sync(provider)
    orphan = place.mirror / ("0" * 32 + "-5.parquet")
    orphan.write_bytes(b"12345")
    stranger = place.mirror / "somebody-elses.parquet"
    stranger.write_bytes(b"12345")
    assert cleanup.clean(place.store, 3600, 3600).objects == 0, "an orphan may belong to a sync under way"
    done = cleanup.clean(place.store, 3600, 3600, orphans_for=timedelta(0))
    assert done.objects == 1
    assert not orphan.exists()
    cleanup.erase(place.store)
    live = log.load(place.store).files.values()
    assert {path.name for path in place.data_files()} == {add.path for add in live} | {stranger.name}
    assert place.audit(provider) == {}
    assert place.sync(provider).commits == 0
