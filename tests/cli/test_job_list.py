"""`goschedctl job list` with its filters and orders, on a real master."""

from __future__ import annotations

import getpass
import json
import re
from dataclasses import replace

import yaml

from gosched.core.records.job import JobState
from tests.master.harness import spec, until


def test_jobs_are_listed_by_filters_and_orders(story) -> None:
    async def play(master, ctl) -> None:
        for number, name in enumerate("cab"):
            await master.submit(spec(name, tenant=f"t{number % 2}", priority=number * 10, hold=True))

        async def names(*args: str) -> str:
            answer = await ctl("job", "list", "-o", "json", *args)
            assert answer.code == 0, answer.err
            return "".join(line.split('"')[3] for line in answer.out.splitlines() if '"name"' in line)

        assert await names() == "bac"
        assert await names("--sort-by", "name") == "abc"
        assert await names("--sort", "name", "--reverse") == "cba"
        assert await names("--sort", "priority", "--reverse") == "cab"
        assert await names("--tenant", "t0") == "bc"
        assert await names("--user", "nobody") == ""
        assert await names("--since", "1h", "--limit", "2") == "ba"
        assert await names("--since", "2100-01-01T00:00:00Z") == ""
        refused = await ctl("job", "list", "--since", "yesterday")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "--since: expected a time" in refused.err

    story(play)


def test_a_leader_of_an_earlier_release_is_not_asked_what_it_does_not_know(ctl, master) -> None:
    assert ctl("job", "list", "-o", "name").code == 0
    refused = ctl("job", "list", "--tenant", "a")
    assert (refused.code, refused.out) == (1, "")
    assert "earlier release" in refused.err


def test_jobs_that_ended_long_ago_are_listed_when_they_are_asked_for(ctl, master, job_file):
    for name in ("lives", "old"):
        job_file.write_text(f"name: {name}\nrun: x\n")
        ctl("submit", str(job_file))
    master.jobs["j-2"] = replace(master.jobs["j-2"], state=JobState.FAILED, ended_at_ms=1)
    assert ctl("job", "list", "-o", "name").out == "j-1\n"
    for words in (("-a",), ("--state", "failed,pending")):
        assert ctl("job", "list", *words, "-o", "name").out == "j-2\nj-1\n"
    del master.jobs["j-1"]
    empty = ctl("job", "list", "-o", "json")
    assert (empty.out, empty.err) == ("[]\n", "no job lives, and none ended in the last hour: -a lists all\n")
    chosen = ctl("job", "list", "-q", "default")
    assert chosen.err == "no such job lives, and none ended in the last hour: -a looks among all\n"
    assert ctl("job", "list", "--state", "succeeded").err == "no jobs\n"


def test_pages_make_one_document_in_each_format(ctl, master, job_file):
    for _ in range(5):  # of two jobs a page
        ctl("submit", str(job_file))
    ids = ["j-5", "j-4", "j-3", "j-2", "j-1"]
    assert [job["id"] for job in json.loads(ctl("job", "list", "-o", "json").out)] == ids
    assert [job["id"] for job in yaml.safe_load(ctl("job", "list", "-o", "yaml").out)] == ids
    lines = ctl("job", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", *ids]
    assert ctl("job", "list", "-o", "name", "--limit", "3").out.split() == ids[:3]


def test_a_row_says_why_a_job_waits_and_who_submitted_it(story) -> None:
    async def play(master, ctl) -> None:
        await ctl("submit", "--name", "held", "--hold", "--", "true")
        await ctl("submit", "--name", "after", "--after", "held", "--", "true")
        await master.submit(spec("alone", cpus=64))
        await until(lambda: master.server.history.reasons)
        rows = {line.split()[1]: line for line in (await ctl("job", "list")).out.splitlines()}
        assert rows["held"].split()[2] == f"{getpass.getuser()}?", "a login name, which no certificate vouches for"
        assert re.search(r"  HELD for \d+s$", rows["held"])
        assert re.search(r"  DEPENDENCY for \d+s: it waits for held \(PENDING; must succeed\)$", rows["after"])
        assert re.search(r"  NO_NODE for \d+s: ", rows["alone"])
        (row,) = json.loads((await ctl("job", "list", "-o", "json", "--limit", "1")).out)
        assert (row["name"], row["attempt"], row["wait"]["code"]) == ("alone", 0, "NO_NODE")

    story(play)


def test_a_spec_as_yaml_is_submitted_again(ctl, master, job_file, tmp_path):
    job_file.write_text("name: a\npriority: high\ncount: 2\nenv: {K: v}\nresources: {cpu: 2}\nrun: echo hi\n")
    ctl("submit", str(job_file))
    again = tmp_path / "again.yaml"
    again.write_text(ctl("job", "show", "a", "-o", "yaml").out)
    ctl("submit", str(again))
    assert master.jobs["j-2"].spec == master.jobs["j-1"].spec
