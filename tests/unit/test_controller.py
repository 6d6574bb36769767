"""The controller's decisions, without a cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from deltamirror import api
from deltamirror.api import SharedTable
from deltamirror.api.status import SharedTableStatus
from deltamirror.controller import conditions
from deltamirror.controller.conditions import merge_patch
from deltamirror.controller.decide import Decision, decide, next_sync, next_try, spread
from deltamirror.controller.due import DueQueue, Key
from deltamirror.errors import Fault, Kind
from deltamirror.mirror import SyncResult
from deltamirror.sharing import CredentialsRejected, ProviderUnreachable, RateLimited
from tests.kstatus import broken_rules

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RESULT = SyncResult(sourceVersion=7, mirrorVersion=3, mode="Snapshot", access="URL", rows=10, commits=1, seconds=1.5)


def shared(generation: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> SharedTable:
    return api.decode(
        {
            "apiVersion": "deltamirror.io/v1alpha1",
            "kind": "SharedTable",
            "metadata": {"name": "t", "generation": generation, "uid": "u", "annotations": annotations or {}},
            "spec": {
                "source": {"profileSecretRef": {"name": "p"}, "share": "s", "schema": "d", "table": "t"},
                "destination": {"uri": "s3://lake/t"},
                "refresh": {"interval": "10m"},
                **spec,
            },
        }
    )


def synced(table: SharedTable, at: datetime = NOW) -> SharedTableStatus:
    return conditions.succeeded(table, SharedTableStatus(), RESULT, full=True, began=at, now=at)


def ready(status: SharedTableStatus) -> tuple[str, str]:
    return next((c.status, c.reason) for c in status.conditions if c.type == "Ready")


class TestDecide:
    def test_a_new_object_is_synced_at_once(self) -> None:
        decision = decide(shared(), SharedTableStatus(), NOW)
        assert decision.sync
        assert decision.fresh

    def test_a_current_mirror_waits_for_its_interval(self) -> None:
        table = shared()
        decision = decide(table, synced(table), NOW + timedelta(minutes=5))
        assert not decision.sync
        due = next_sync(table, NOW)
        assert due is not None
        assert decision.due == due.replace(microsecond=0)

    def test_a_routine_refresh_is_not_fresh(self) -> None:
        table = shared()
        assert decide(table, synced(table), NOW + timedelta(minutes=11)) == Decision(sync=True)

    def test_a_look_that_wrote_nothing_counts(self) -> None:
        table = shared()
        later = NOW + timedelta(minutes=15)
        assert decide(table, synced(table), NOW + timedelta(minutes=11), not_before=later) == Decision(
            sync=False, due=later
        )

    def test_a_new_spec_is_synced_at_once(self) -> None:
        decision = decide(shared(generation=2), synced(shared()), NOW)
        assert decision.sync
        assert decision.full

    def test_a_request_is_acted_on_once(self) -> None:
        asked = shared(annotations={"deltamirror.io/requestedAt": "now"})
        assert decide(asked, synced(shared()), NOW).requested
        assert not decide(asked, synced(asked), NOW).sync

    def test_a_suspended_object_is_left_alone(self) -> None:
        assert decide(shared(suspend=True), SharedTableStatus(), NOW) == Decision(sync=False)

    def test_a_manual_object_is_synced_first_and_then_only_when_asked(self) -> None:
        table = shared(refresh={"policy": "Manual"})
        assert decide(table, SharedTableStatus(), NOW).sync
        assert not decide(table, synced(table), NOW + timedelta(days=9)).sync

    def test_the_whole_list_is_compared_once_a_day(self) -> None:
        table = shared()
        assert decide(table, synced(table), NOW + timedelta(hours=25)).full

    def test_the_same_object_always_has_the_same_jitter(self) -> None:
        assert spread("a") == spread("a") != spread("b")
        assert -1 <= spread("a") <= 1

    @pytest.mark.parametrize(
        ("fault", "failures", "seconds"),
        [
            (ProviderUnreachable("x"), 1, 2),
            (ProviderUnreachable("x"), 4, 16),
            (ProviderUnreachable("x"), 40, 600),
            (CredentialsRejected("x"), 1, 600),
            (RateLimited("x"), 40, 30),
            (RateLimited("x", retry_after=77), 1, 77),
        ],
    )
    def test_the_kind_of_a_fault_says_when_to_try_again(self, fault: Fault, failures: int, seconds: float) -> None:
        assert next_try(shared(), fault, failures, NOW) == NOW + timedelta(seconds=seconds)


class TestStatus:
    def test_every_turn_of_a_life_keeps_the_rules(self) -> None:
        """First sync, failure of each kind, recovery, new spec, suspension: in many orders."""
        faults = [ProviderUnreachable("down"), CredentialsRejected("no"), RateLimited("slow")]
        turns: list[Any] = [
            conditions.started,
            lambda t, s, now: conditions.succeeded(t, s, RESULT, full=False, began=now, now=now),
            lambda t, s, now: conditions.suspended(t, s, now),
            lambda t, s, now: conditions.with_jobs(t, s, [], ["a failed"], now),
            *(lambda t, s, now, f=f: conditions.failed(t, s, f, now) for f in faults),
        ]
        for first in turns:
            for second in turns:
                for third in turns:
                    status = SharedTableStatus()
                    for generation, turn in enumerate((first, second, third), 1):
                        status = turn(shared(generation), status, NOW)
                        resource = {"metadata": {"generation": generation}, "status": msgspec.to_builtins(status)}
                        assert not broken_rules(resource)

    def test_ready_stays_true_while_a_mirror_is_current(self) -> None:
        table = shared()
        assert ready(synced(table)) == ("True", "Synced")
        assert ready(conditions.suspended(table, synced(table), NOW)) == ("True", "Suspended")

    def test_a_fault_that_needs_a_person_stalls(self) -> None:
        status = conditions.failed(shared(), SharedTableStatus(), CredentialsRejected("the token is rejected"), NOW)
        assert {c.type: c.reason for c in status.conditions}["Stalled"] == "CredentialsRejected"

    def test_a_transition_time_moves_only_with_its_status(self) -> None:
        table = shared()
        first = synced(table)
        later = conditions.succeeded(table, first, RESULT, full=False, began=NOW, now=NOW + timedelta(hours=1))
        assert later.conditions[0].last_transition_time == first.conditions[0].last_transition_time

    def test_a_repeated_failure_is_one_line_of_history(self) -> None:
        status = SharedTableStatus()
        for _ in range(3):
            status = conditions.failed(shared(), status, ProviderUnreachable("down"), NOW)
        assert status.consecutive_failures == 3
        assert len(status.history) == 1

    def test_a_patch_says_what_changed_and_what_is_gone(self) -> None:
        old = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}
        assert merge_patch(old, {"a": 1, "b": {"c": 2}, "e": [1, 2]}) == {"b": {"c": 2, "d": None}, "e": [1, 2]}
        assert merge_patch(old, old) == {}


class TestDueQueue:
    """Time is a list with one number in it."""

    def setup_method(self) -> None:
        self.time = [0.0]
        self.queue = DueQueue(lambda: self.time[0])

    def ready(self) -> Key | None:
        async def take() -> Key | None:
            try:
                return await asyncio.wait_for(self.queue.get(), 0.01)
            except TimeoutError:
                return None

        return asyncio.run(take())

    def test_a_key_is_there_once_however_often_it_is_offered(self) -> None:
        self.queue.offer(("n", "a"))
        self.queue.offer(("n", "a"))
        assert self.ready() == ("n", "a")
        self.queue.done(("n", "a"), None)
        assert self.ready() is None

    def test_a_key_waits_for_its_time(self) -> None:
        self.queue.offer(("n", "a"))
        self.ready()
        self.queue.done(("n", "a"), 10.0)
        assert self.ready() is None
        self.time[0] = 10.0
        assert self.ready() == ("n", "a")

    def test_a_key_that_changes_while_it_is_worked_on_comes_again(self) -> None:
        self.queue.offer(("n", "a"))
        self.ready()
        self.queue.offer(("n", "a"))
        assert self.ready() is None, "never twice at the same time"
        self.queue.done(("n", "a"), 99.0)
        assert self.ready() == ("n", "a")

    def test_an_offer_wins_over_a_later_time(self) -> None:
        self.queue.offer(("n", "a"))
        self.ready()
        self.queue.done(("n", "a"), 99.0)
        self.queue.offer(("n", "a"))
        assert self.ready() == ("n", "a")

    def test_a_forgotten_key_does_not_come(self) -> None:
        self.queue.offer(("n", "a"))
        self.queue.forget(("n", "a"))
        assert self.ready() is None


def test_kinds_are_complete() -> None:
    assert {k.value for k in Kind} == {"stalling", "waiting", "transient"}
