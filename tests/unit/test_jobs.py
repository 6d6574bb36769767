"""Windows: every version reaches every job at least once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from deltamirror import jobs
from deltamirror.api.shared_table import Job, JobLauncher
from deltamirror.api.status import ActiveWindow, JobStatus
from deltamirror.jobs import Launch, Outcome, Window
from deltamirror.jobs import batch_job as batch
from tests.unit.test_controller import shared

JOB = Job(
    "enrich", job=JobLauncher("img", "local:///opt/a.py", ["--from", "$(FROM_VERSION)"], {"a.b": "c"}), backoff_limit=1
)


def status(through: int | None, active: tuple[int, int] | None = None, attempt: int = 1) -> JobStatus:
    window = ActiveWindow(active[0], active[1], "Incremental", "ref", attempt) if active else None
    return JobStatus("enrich", processed_through=through, active=window)


def test_the_first_window_is_the_whole_mirror() -> None:
    step = jobs.advance(JOB, None, 4, Outcome.MISSING)
    assert step.launch == Launch(JOB, Window(0, 4, "Initial"), 1)


def test_a_job_that_starts_from_the_latest_waits_for_the_next_version() -> None:
    late = msgspec.structs.replace(JOB, start_from="Latest")
    assert jobs.advance(late, None, 4, Outcome.MISSING).launch is None
    after = jobs.advance(late, None, 4, Outcome.MISSING).status
    step = jobs.advance(late, after, 5, Outcome.MISSING)
    assert step.launch is not None
    assert step.launch.window == Window(5, 5, "Incremental")


def test_versions_that_arrive_during_a_run_join_the_next_window() -> None:
    running = status(2, (3, 3))
    assert jobs.advance(JOB, running, 9, Outcome.RUNNING).launch is None
    step = jobs.advance(JOB, running, 9, Outcome.SUCCEEDED)
    assert step.launch is not None
    assert step.launch.window == Window(4, 9, "Incremental")
    assert step.finished == "ref"


def test_a_window_advances_only_on_success() -> None:
    step = jobs.advance(JOB, status(2, (3, 3)), 9, Outcome.FAILED, "it broke")
    assert step.launch == Launch(JOB, Window(3, 3, "Incremental"), 2)
    assert step.status.processed_through == 2
    assert step.status.last_failure == "it broke"


def test_a_run_that_failed_too_often_needs_a_person() -> None:
    step = jobs.advance(JOB, status(2, (3, 3), attempt=2), 9, Outcome.FAILED, "it broke")
    assert step.launch is None
    assert step.status.active is not None


def test_a_run_that_is_gone_is_started_again() -> None:
    step = jobs.advance(JOB, status(2, (3, 3)), 9, Outcome.MISSING)
    assert step.launch == Launch(JOB, Window(3, 3, "Incremental"), 1)


def test_nothing_new_starts_nothing() -> None:
    assert jobs.advance(JOB, status(9), 9, Outcome.MISSING).launch is None


def manifest(**spec: Any) -> dict[str, Any]:
    assert JOB.job is not None
    launcher = msgspec.structs.replace(JOB.job, **spec)
    return jobs.manifest(shared(), Launch(JOB, Window(3, 5, "Incremental"), 1), launcher)


def test_a_job_is_told_its_window_and_where_the_mirror_is() -> None:
    [container] = manifest()["spec"]["template"]["spec"]["containers"]
    environment = {e["name"]: e["value"] for e in container["env"]}
    assert environment == {
        **{"MIRROR_URI": "s3a://lake/t", "FROM_VERSION": "3", "TO_VERSION": "5", "WINDOW_KIND": "Incremental"}
    }
    assert container["args"][-3:] == ["local:///opt/a.py", "--from", "$(FROM_VERSION)"]
    assert container["args"][2:4] == ["--conf", "a.b=c"]


def test_the_same_run_has_the_same_name_and_another_run_another() -> None:
    names = {
        batch.name(shared(), Launch(JOB, Window(3, to, "Incremental"), attempt))
        for to in (5, 6)
        for attempt in (1, 2)
        for _ in range(2)
    }
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)


def test_the_users_template_is_kept_under_ours() -> None:
    template = {
        "metadata": {"labels": {"team": "a", "deltamirror.io/job": "mine"}},
        "spec": {
            "serviceAccountName": "spark",
            "containers": [{"name": "sidecar", "image": "x"}, {"name": "spark", "image": "ignored", "resources": {}}],
        },
    }
    pod = manifest(pod_template=template)["spec"]["template"]
    assert pod["spec"]["serviceAccountName"] == "spark"
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["labels"]["deltamirror.io/job"] == "enrich"
    assert {c["name"]: c["image"] for c in pod["spec"]["containers"]} == {"sidecar": "x", "spark": "img"}


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([], Outcome.RUNNING),
        ([{"type": "Complete", "status": "True"}], Outcome.SUCCEEDED),
        ([{"type": "SuccessCriteriaMet", "status": "True"}], Outcome.RUNNING),
        ([{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}], Outcome.FAILED),
    ],
)
def test_the_state_of_a_job_is_read_from_its_conditions(conditions: list[dict[str, str]], outcome: Outcome) -> None:
    found, why = jobs.outcome({"status": {"conditions": conditions}})
    assert found is outcome
    assert bool(why) == (outcome is Outcome.FAILED)


def test_a_job_that_is_not_there_is_missing() -> None:
    assert jobs.outcome(None) == (Outcome.MISSING, "")
