"""Model test: random lives of a source, against a model that fits into a dict.

The source is a Delta log written by hand over files that only look like Parquet: bytes are never decoded on the way, so that is all it takes, and
a life of many versions costs milliseconds. After every sync the mirror has to hold exactly what the model says.
"""

from __future__ import annotations

import json
import struct
import tempfile
import uuid
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import msgspec
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyroaring import BitMap64

from deltamirror.delta import commit, features, log
from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.actions import Add, DeletionVector, Format, Line, Metadata, Protocol, Remove
from deltamirror.mirror import Settings, Sync
from deltamirror.sharing import Profile, SharingClient, TableName
from deltamirror.store import open_store
from sharing_provider import serve
from tests.sharing import config

ROWS = 20
PARTITIONS = [None, "", "null", "a b", "ü/=%", "__HIVE_DEFAULT_PARTITION__"]


@dataclass(frozen=True)
class File:
    """What the model knows of a file of the source."""

    path: str
    content: bytes
    partition: str | None
    stats: str
    deleted: frozenset[int] = frozenset()
    vector: DeletionVector | None = None

    @property
    def add(self) -> Add:
        return Add(
            self.path, {"p": self.partition}, len(self.content), 1, True, self.stats, deletion_vector=self.vector
        )

    @property
    def remove(self) -> Remove:
        return Remove(self.path, True, 1, deletion_vector=self.vector)


class Lives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.resources = ExitStack()
        self.folder = Path(self.resources.enter_context(tempfile.TemporaryDirectory()))
        self.source = self.folder / "source"
        table = {"name": "t", "location": f"file://{self.source}", "historyShared": True}
        self.provider = self.resources.enter_context(serve(config([table])))
        self.version = -1
        self.files: dict[str, File] = {}
        self.past: list[dict[str, File]] = []
        self.mirrored: dict[str, File] | None = None
        protocol = Protocol(3, 7, ["deletionVectors"], ["deletionVectors"])
        schema = '{"type":"struct","fields":[{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
        self.metadata = Metadata(str(uuid.uuid4()), schema, ["p"], {"delta.enableDeletionVectors": "true"}, Format())
        self.source.mkdir()
        files = [self._new_file(partition, 2) for partition in PARTITIONS]
        lines = [Line(protocol=protocol), Line(meta_data=self.metadata), *(Line(add=f.add) for f in files)]
        self._commit(lines, {file.path: file for file in files})
        self.follow(full=False)

    def teardown(self) -> None:
        self.resources.close()

    def _commit(self, lines: list[Line], after: dict[str, File]) -> None:
        self.version += 1
        store = open_store(f"file://{self.source}", environment={})
        commit.write_commit(store, self.version, [Line(commit_info={"id": str(self.version)}), *lines], "x")
        self.files = after
        self.past.append(after)

    def _change(self, gone: list[File], new: list[File]) -> None:
        after = {path: file for path, file in self.files.items() if path not in {g.path for g in gone}}
        after |= {file.path: file for file in new}
        self._commit([Line(remove=f.remove) for f in gone] + [Line(add=f.add) for f in new], after)

    def _new_file(self, partition: str | None, size: int) -> File:
        content = b"PAR1" + uuid.uuid4().bytes * size + b"PAR1"
        path = f"part-{uuid.uuid4()}.parquet"
        (self.source / path).write_bytes(content)
        return File(path, content, partition, json.dumps({"numRecords": ROWS}))

    @rule(partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=4), size=st.integers(1, 9))
    def insert(self, partitions: list[str | None], size: int) -> None:
        self._change([], [self._new_file(partition, size) for partition in partitions])

    @precondition(lambda self: self.files)
    @rule(data=st.data(), rows=st.frozensets(st.integers(0, ROWS - 1), min_size=1, max_size=5))
    def delete_rows(self, data: st.DataObject, rows: frozenset[int]) -> None:
        """Vectors of all touched files lie in one file, as Spark writes them."""
        touched = data.draw(st.lists(st.sampled_from(sorted(self.files)), min_size=1, max_size=3, unique=True))
        name = uuid.uuid4()
        body = bytearray(b"\x01")
        new = []
        for path in touched:
            old = self.files[path]
            deleted = old.deleted | rows
            bitmap = struct.pack("<I", dv.MAGIC) + BitMap64(deleted).serialize()
            vector = dv.in_file(name, len(body), len(bitmap), len(deleted))
            body += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
            new.append(File(path, old.content, old.partition, old.stats, deleted, vector))
        (self.source / dv.file_name(name)).write_bytes(body)
        self._change([self.files[path] for path in touched], new)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def remove_files(self, data: st.DataObject) -> None:
        paths = data.draw(st.lists(st.sampled_from(sorted(self.files)), min_size=1, unique=True))
        self._change([self.files[path] for path in paths], [])

    @precondition(lambda self: self.files)
    @rule()
    def compact(self) -> None:
        self._change(list(self.files.values()), [self._new_file("a b", 5)])

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def correct_statistics(self, data: st.DataObject) -> None:
        old = self.files[data.draw(st.sampled_from(sorted(self.files)))]
        stats = json.dumps({"numRecords": ROWS, "minValues": {"x": self.version}})
        new = File(old.path, old.content, old.partition, stats, old.deleted, old.vector)
        self._commit([Line(add=new.add)], {**self.files, new.path: new})

    @precondition(lambda self: len(self.past) > 2)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        past = data.draw(st.sampled_from(self.past))
        keys = {f.add.key for f in past.values()}
        gone = [f for f in self.files.values() if f.add.key not in keys]
        known = {f.add.key for f in self.files.values()}
        lines = [Line(remove=f.remove) for f in gone]
        lines += [Line(add=f.add) for f in past.values() if f.add.key not in known]
        lines += [Line(add=f.add) for f in past.values() if f.add.key in known]
        self._commit(lines, past)

    @precondition(lambda self: self.metadata.name is None)
    @rule()
    def rename_the_table(self) -> None:
        self.metadata = msgspec.structs.replace(self.metadata, name=f"v{self.version}")
        self._commit([Line(meta_data=self.metadata)], self.files)

    @precondition(lambda self: self.mirrored is not self.files)
    @rule(full=st.booleans())
    def follow(self, full: bool) -> None:
        profile = Profile.from_dict(self.provider.profile())
        with SharingClient(profile, features.readable()) as client:
            store = open_store(f"file://{self.folder}/mirror", environment={})
            result = Sync(client, store, Settings(TableName("s", "d", "t"), "o", concurrency=2)).run(full=full)
        assert result.sourceVersion == self.version
        assert result.rows == sum(ROWS - len(f.deleted) for f in self.files.values())
        self.mirrored = self.files

    @invariant()
    def the_mirror_holds_what_was_mirrored(self) -> None:
        if getattr(self, "mirrored", None) is None:
            return
        assert self.mirrored is not None
        mirror = self.folder / "mirror"
        found = []
        for add in log.load(open_store(f"file://{mirror}", environment={})).files.values():
            deleted: frozenset[int] = frozenset()
            if (vector := add.deletion_vector) is not None:
                data = (mirror / dv.relative_path(vector)).read_bytes()
                start = (vector.offset or 0) + 8
                deleted = frozenset(BitMap64.deserialize(data[start : start + vector.size_in_bytes - 4]))
            found.append(((mirror / add.path).read_bytes(), add.partition_values["p"], add.stats, deleted))
        wanted = [(f.content, f.partition, f.stats, f.deleted) for f in self.mirrored.values()]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=80,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
