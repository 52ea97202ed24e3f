"""The form of the page as a job file."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, parse_job_file
from gosched.master.web.submit import form_text

FIELDS = {
    "mode": "form",
    "name": "train",
    "queue": "research.llm",
    "tenant": "",
    "priority": "high",
    "run": 'echo "a: b" # {x}\nsecond line',
    "count": "4",
    "cpu": "0.5",
    "memory": "1.5Gi",
    "gpu": "h100:2",
    "image": "",
    "estimate": "45m",
    "gang": "all",
}


def test_the_form_is_the_job_that_its_fields_say() -> None:
    (job,) = parse_job_file(form_text(FIELDS), "form")
    group = job.groups[0]
    assert (job.name, job.queue, job.tenant, job.priority) == ("train", "research.llm", "default", 750)
    assert group.command == ("/bin/sh", "-c", 'echo "a: b" # {x}\nsecond line')
    assert (group.count, group.gpu_model, group.resources.cpu_millis) == (4, "h100", 500)
    assert job.gang.min_tasks == 4
    assert job.estimate_ms == 45 * 60_000


def test_without_a_gang_one_task_is_enough() -> None:
    (job,) = parse_job_file(form_text({**FIELDS, "gang": ""}), "form")
    assert job.gang.min_tasks == 1


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("memory", "7", "resources.memory"),
        ("count", "many", "count"),
        ("name", "a b", "name"),
        ("cpu", "}, evil: {a", "resources.cpu"),
        ("estimate", "soon", "estimate"),
        ("run", "", "run"),
    ],
)
def test_what_a_field_should_not_say_is_told_by_its_key(field: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_job_file(form_text({**FIELDS, field: value}), "form")


@pytest.mark.parametrize("text", ['"', "'", "\n- x", "{{ 7 }}", "\u2028", "\x00", "é", "x" * 10_000, "*a", "&a", "!!x"])
def test_no_text_of_a_field_becomes_another_key(text: str) -> None:
    for field in ("name", "queue", "tenant", "image", "run", "memory", "estimate", "priority", "count", "gpu"):
        try:
            jobs = parse_job_file(form_text({**FIELDS, field: text}), "form")
        except ConfigError:
            continue
        assert len(jobs) == 1
        assert jobs[0].labels == ()
