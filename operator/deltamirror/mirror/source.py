"""The source as one sync sees it: listed, compared with what was mirrored before, and believed only with reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Set

from deltamirror.mirror.errors import ListingDoubtful, SourceRecreated
from deltamirror.mirror.plan import Plan, Planner
from deltamirror.mirror.settings import Settings
from deltamirror.mirror.state import MirrorState
from deltamirror.sharing import (
    Answer,
    FreshUrls,
    HistoryNotShared,
    NotShared,
    Query,
    RequestRefused,
    SharingClient,
)

SUSPICIOUS_SHARE = 0.1
SUSPICIOUS_FROM = 10


class Source:
    """One shared table, asked by one sync."""

    def __init__(self, client: SharingClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._table = settings.table
        self._refresh_token: str | None = None

    def version(self) -> int:
        return self._client.version(self._table)

    def plan(self, mirror: MirrorState | None, damaged: Set[str] = frozenset()) -> tuple[Plan, str]:
        """Lists the newest version and compares it with the mirror; also the identity of the table that was listed.

        `damaged` are objects of the mirror that are not as they should be, and are to be copied again.
        """
        planned, answer = self._client.retried(lambda deadline: self._compare(mirror, damaged, deadline))
        if mirror is not None and _suspicious(mirror, planned):
            self._confirm(answer, planned)
        self._refresh_token = answer.refresh_token
        return planned, answer.metadata.id

    def fresh_urls(self, version: int) -> Callable[[set[str]], dict[str, FreshUrls]]:
        return lambda ids: self._client.fresh_urls(self._table, version, ids, self._refresh_token)

    def _compare(self, mirror: MirrorState | None, damaged: Set[str], deadline: float) -> tuple[Plan, Answer]:
        answer = self._client.query(self._table, Query(), deadline)
        planner: Planner | None = None
        for live in mirror.files.values() if mirror else ():
            live.seen = False
        for file in answer.files():
            planner = planner or self._planner(mirror, answer, damaged)
            planner.take(file)
        return (planner or self._planner(mirror, answer, damaged)).finish(), answer

    def _planner(self, mirror: MirrorState | None, answer: Answer, damaged: Set[str]) -> Planner:
        """Known to be about the right table before the first file is looked at."""
        seed = self._seed(mirror, answer)
        restart = mirror is not None and seed != mirror.setting("seed")
        if mirror is not None and not restart and answer.id_scheme != mirror.setting("idScheme"):
            raise ListingDoubtful(
                f"the provider names the files of {self._table} by the scheme {answer.id_scheme!r} now, and the mirror knows them by"
                f" {mirror.setting('idScheme')!r}: every file would look new"
            )
        return Planner(
            mirror,
            answer.protocol,
            answer.metadata,
            answer.id_scheme,
            answer.version,
            self._settings,
            seed,
            int(time.time() * 1000),
            damaged,
        )

    def _seed(self, mirror: MirrorState | None, answer: Answer) -> str:
        """The identity under which files are named: that of the table when its mirror began, or began anew."""
        if mirror is None or mirror.mark is None:
            return answer.metadata.id
        known = mirror.setting("seed") or mirror.metadata.id
        why = self._recreated(mirror, mirror.mark.source_version, answer)
        if why is None:
            return known
        if not self._settings.restart_on_recreation:
            raise SourceRecreated(
                f"{self._table} {why}: it was dropped and made anew, or restored from a backup."
                " Set onSourceRecreated: Restart to take the new table over"
            )
        return f"{answer.metadata.id}@{int(time.time() * 1000)}"

    def _recreated(self, mirror: MirrorState, mirrored: int, answer: Answer) -> str | None:
        """Why the source is not the table that was mirrored before, or None if it is."""
        if answer.version < mirrored:
            if self.version() >= mirrored:
                raise ListingDoubtful(
                    f"the provider listed version {answer.version} of {self._table}, and then a newer one"
                )
            return f"is at version {answer.version}, but version {mirrored} was mirrored before"
        if answer.metadata.id == mirror.metadata.id:
            return None
        # CREATE OR REPLACE gives a table a new identity and lets its versions run on: then the old version still shows the old one.
        try:
            before = self._client.metadata(self._table, mirrored).metadata.id
        except (HistoryNotShared, RequestRefused, NotShared):
            return "has a new identity, and its history is not shared to tell whether it was only replaced"
        return (
            None
            if before == mirror.metadata.id
            else "has a new identity, and its old versions are not the ones that were mirrored"
        )

    def _confirm(self, answer: Answer, planned: Plan) -> None:
        """A list that was cut short looks like a mass delete. Only a second, equal one is believed."""
        again = self._client.query(self._table, Query())
        count = sum(1 for _ in again.files())
        if (again.version, count) != (answer.version, planned.live_files + planned.filtered_out):
            raise ListingDoubtful(
                f"the provider listed {planned.live_files + planned.filtered_out} files of {self._table} at version {answer.version} and,"
                f" asked again, {count} at version {again.version}: nothing is deleted on such evidence"
            )


def _suspicious(mirror: MirrorState, planned: Plan) -> bool:
    if not mirror.files or not planned.removes:
        return False
    share = planned.removes / len(mirror.files)
    return share == 1.0 or (len(mirror.files) >= SUSPICIOUS_FROM and share > SUSPICIOUS_SHARE)
