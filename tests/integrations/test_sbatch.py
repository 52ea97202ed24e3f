"""What sbatch makes of scripts and options, without a cluster."""

from __future__ import annotations

import json
import random
import re
from datetime import datetime
from typing import Any

import pytest

from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft
from gosched.config.jobs.jobfile import read_draft
from gosched.integrations.slurm import values
from gosched.integrations.slurm.batch import Batch, read, written
from gosched.integrations.slurm.begin import begin_of
from gosched.integrations.slurm.command_line import Given, read_words
from gosched.integrations.slurm.convert import job_of, options_of, read_command_line, script_of
from gosched.integrations.slurm.hostlist import compressed, counted, expanded
from gosched.integrations.slurm.options import SBATCH, Verdict
from gosched.integrations.slurm.variables import Node, file_name, nodes_of, script_variables

from .slurm_scripts import CASES, Case, node

HEADER = "#!/bin/bash\n"
NODES = [node(f"n{number}", cpu=64) for number in (1, 2, 3)]


def job(
    text: str, *words: str, env: dict[str, str] | None = None, name: str = "job.sh"
) -> tuple[dict[str, Any], Given]:
    """Return the job of a script, and its options."""
    line, rest = read_command_line([*words, "job.sh"])
    script = script_of(rest, line, text)
    given = options_of(line, script, env or {})
    return job_of(given, script, env or {}, "/work", "0a1b2c", lambda: NODES), given


def only_group(found: dict[str, Any]) -> dict[str, Any]:
    (group,) = found["tasks"].values()
    return group


def batch_of(found: dict[str, Any]) -> Batch:
    return read(next(iter(found["tasks"].values()))["run"][1])


def at(found: dict[str, Any], path: str) -> Any:
    value: Any = {**found, "group": next(iter(found["tasks"].values()))}
    for key in path.split("."):
        value = value[key]
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scripts_of_public_clusters_become_the_jobs_that_they_ask_for(case: Case) -> None:
    if case.refused:
        with pytest.raises(ConfigError, match=f"line \\d.*{case.refused}"):
            job(case.text)
        return
    found, given = job(case.text)
    shapes = tuple((group["count"], group["resources"]["cpu"]) for group in found["tasks"].values())
    assert shapes == case.groups
    assert {path: at(found, path) for path in case.asks} == case.asks
    assert [re.search("--[a-z-]+", line)[0] for line in given.warnings] == [*case.warned]  # type: ignore[index]
    (spec,) = read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))  # the reader of job files takes it
    assert len(spec.groups) == len(case.groups)
    assert batch_of(found).ranks == [ranks for count, ranks in batch_of(found).groups for _ in range(count)]


def test_the_command_line_wins_over_the_environment_and_that_over_the_script() -> None:
    text = HEADER + "#SBATCH -p one -A a --time=10 --mem=1G\n"
    found, _ = job(text, "--time=20", "--mem-per-cpu=2G", env={"SBATCH_PARTITION": "two", "SBATCH_TIMELIMIT": "15"})
    assert (found["queue"], found["tenant"], found["timeout"]) == ("two", "a", "1200s")
    assert only_group(found)["resources"]["memory"] == "2048Mi"


@pytest.mark.parametrize("option", SBATCH, ids=lambda option: option.name)
def test_every_option_that_is_refused_or_ignored_says_why(option) -> None:
    given = Given()
    words = [f"--{option.name}=1" if option.takes.value else f"--{option.name}"]
    if option.verdict is Verdict.REFUSED:
        with pytest.raises(ConfigError, match=re.escape(f"--{option.name} is refused: {option.note}")):
            read_words(SBATCH, words, given)
        return
    read_words(SBATCH, words, given)
    assert [option.note in line for line in given.warnings] == [True] * (option.verdict is Verdict.IGNORED)
    assert option.note or option.verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--mem=0"], "--mem: 0 stands for all memory"),
        (["--time=tomorrow"], "--time: expected minutes"),
        (["--begin=yesterday"], "--begin: expected HH:MM[:SS], midnight, noon"),
        (["--begin=now+53weeks"], "--begin: 'now+53weeks' is beyond 366d from now"),
        (["--dependency=after:j-1"], "--dependency: 'after' is none of"),
        (["--dependency=afterok:j-1?afterok:j-2"], "--dependency: one of several"),
        (
            ["--dependency=afterok:j-1,afterany:j-1"],
            "--dependency: a job waits for j-1 in one way, not for success and any",
        ),
        (["--array=9-1"], "--array: '9-1' has no index"),
        (["--array=1,x"], "--array: expected indexes"),
        (["-n4", "--gres=gpu:1"], "--gres: is of a node"),
        (["-N2", "--gpus=3"], "--gpus: 3 do not divide evenly"),
        (["-N2", "-n5", "--ntasks-per-node=2"], "--ntasks: 5 tasks do not fit"),
        (["--partition=a,b"], "--partition: a job is in one"),
        (["--qos=debug"], "--qos: 'debug' is none of low, normal, high"),
        (["--constraint=a|b"], "--constraint: 'a|b'"),
        (["--signal=USR1@60"], "--signal: is sent before the time limit"),
        (["--time=5", "--signal=FOO"], "--signal: 'FOO' is no signal"),
        (["--nodes=0"], "--nodes: expected a number above 0"),
        (["--mem=1G", "--mem-per-cpu=1G"], "--mem-per-cpu: stands beside --mem"),
        (["--ntaks=2"], 'there is no option --ntaks (did you mean "ntasks"?)'),
        (["--gpus-per=1"], "--gpus-per may be --gpus-per-node, --gpus-per-task, --gpus-per-socket"),
        (["-Z"], "there is no option -Z"),
        (["--hold=yes"], "--hold takes no value"),
        (["--export=GOSCHED_X=1"], "--export: 'GOSCHED_X' cannot be"),
    ],
)
def test_what_cannot_be_said_is_an_error_that_names_the_option(words: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        job(HEADER, *words)


@pytest.mark.parametrize("text", ["echo no first line\n", HEADER + "x" * 130_000, "#!/bin/sh\n\0"])
def test_what_is_no_script_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no script|has more than"):
        job(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("5:30", 330), ("1:00:00", 3600), ("2-0", 172_800), ("1-2:03", 93_780), ("1-02:03:04", 93_784)],
)
def test_times_are_read_as_slurm_reads_them(text: str, seconds: int) -> None:
    assert values.seconds(text) == seconds


#: A Friday in winter, in the afternoon.
NOW = datetime(2026, 11, 27, 15, 4, 5, 600_000)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("16:00", "2026-11-27T16:00:00"),
        ("15:04:06", "2026-11-27T15:04:06"),
        ("15:04:05", "2026-11-28T15:04:05"),
        ("9:30", "2026-11-28T09:30:00"),
        ("4:15pm", "2026-11-27T16:15:00"),
        ("12:05 AM", "2026-11-28T00:05:00"),
        ("12:05PM", "2026-11-28T12:05:00"),
        ("midnight", "2026-11-28T00:00:00"),
        ("Noon", "2026-11-28T12:00:00"),
        ("fika", "2026-11-28T15:00:00"),
        ("teatime", "2026-11-27T16:00:00"),
        ("tomorrow", "2026-11-28T00:00:00"),
        ("2026-12-01", "2026-12-01T00:00:00"),
        ("2026-12-01T06:30", "2026-12-01T06:30:00"),
        ("2027-02-28T23:59:59", "2027-02-28T23:59:59"),
        ("120126", "2026-12-01T00:00:00"),
        ("12/01/26", "2026-12-01T00:00:00"),
        ("1/2/27", "2027-01-02T00:00:00"),
    ],
)
def test_a_moment_of_a_begin_is_read_as_slurm_reads_it(text: str, moment: str) -> None:
    found = begin_of(text, NOW)
    assert list(found) == ["at"]
    assert datetime.fromisoformat(found["at"]) == datetime.fromisoformat(moment).astimezone()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now+60", 60),
        ("now+1second", 1),
        ("now + 5 minutes", 300),
        ("NOW+1hour", 3600),
        ("now+2hours", 7200),
        ("now+3days", 259_200),
        ("now+2weeks", 1_209_600),
    ],
)
def test_a_begin_from_now_counts_from_the_submission(text: str, seconds: int) -> None:
    assert begin_of(text, NOW) == {"in": f"{seconds}s"}


@pytest.mark.parametrize("text", ["now", "now+0", "today", "2026-11-27", "2020-01-01T00:00", "010120"])
def test_a_begin_that_has_passed_is_now(text: str) -> None:
    assert begin_of(text, NOW) == {}


@pytest.mark.parametrize(
    "text",
    ["", "soon", "25:00", "12:60", "13:00pm", "0:10am", "2026-13-01", "2026-02-30", "2026-12-01T", "2026-12-01T6",
     "13/01/26", "1201", "now-5", "now+", "now+1fortnight", "now+1h", "16:00 tomorrow", "12/01/26-10:00", "elevenses"],
)  # fmt: skip
def test_a_begin_that_is_not_understood_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"MM/DD/YY, got {text!r}")):
        begin_of(text, NOW)


def test_a_begin_of_a_script_is_in_its_job_and_the_command_line_wins() -> None:
    text = HEADER + "#SBATCH --begin=2096-12-01T06:00\n"
    found, _ = job(text)
    moment = datetime.fromisoformat(found["begin"]["at"])
    assert moment == datetime(2096, 12, 1, 6).astimezone()
    (spec,) = read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))
    assert spec.begin_at_ms == moment.timestamp() * 1000
    assert job(text, "-b", "now+1hour")[0]["begin"] == {"in": "3600s"}
    assert "begin" not in job(text, "--begin=now")[0]


def test_no_garbage_in_options_is_anything_but_an_error_for_people() -> None:
    rng = random.Random(88)
    names = [option.name for option in SBATCH]
    outcomes = {True: 0, False: 0}
    for _ in range(1500):
        value = "".join(rng.choices("0123456789-:,%@=abcgpuKMG[]&|?\\ é", k=rng.randint(0, 8)))
        try:
            found, _ = job(HEADER, f"--{rng.choice(names)}={value}")
            read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))
            outcomes[True] += 1
        except ConfigError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 50  # both happen


def test_the_environment_goes_along_without_what_belongs_to_the_login() -> None:
    env = {"SEED": "7", "HOME": "/home/me", "GOSCHED_TOKEN": "secret", "SSH_AUTH_SOCK": "/tmp/s", "PATH": "/opt/bin"}
    assert only_group(job(HEADER, env=env)[0])["env"] == {"PATH": "/opt/bin", "SEED": "7"}
    assert only_group(job(HEADER, "--export=SEED,N=1", env=env)[0])["env"] == {"N": "1", "SEED": "7"}
    assert "env" not in only_group(job(HEADER, "--export=NONE", env=env)[0])
    odd, given = job(HEADER, env={"ODD": "\udcff"})
    assert "env" not in only_group(odd)
    assert given.warnings == ["ODD is not exported: it is no text"]


def test_dependencies_and_holds_are_those_of_gosched() -> None:
    found, _ = job(HEADER, "--dependency=afterok:j-1:j-2_3,afterany:j-4", "--hold", "--qos=high", "--no-requeue")
    assert found["after"] == {"j-1": "success", "j-2.3": "success", "j-4": "any"}
    assert (found["hold"], found["priority"], found["retry"]["max"]) == (True, 750, 0)


def test_lists_of_nodes_are_written_and_read_as_slurm_does() -> None:
    rng = random.Random(5)
    assert compressed(["n1", "n2", "n3", "n5", "login", "a08", "a09", "a10"]) == "n[1-3,5],login,a[08-10]"
    assert counted([2, 2, 1]) == "2(x2),1"
    for _ in range(300):
        names = [f"{rng.choice(['n', 'gpu-', 'x9y'])}{rng.randint(0, 120):0{rng.choice([1, 3])}d}" for _ in range(9)]
        assert expanded(compressed(names)) == names
    for wrong in ("n[1-", "n[a]", "n[1-2", "a]b[", "n[1-999999999]"):
        with pytest.raises(ValueError, match=r"list of nodes|more than"):
            expanded(wrong)


def test_variables_and_file_names_say_where_and_what() -> None:
    found, _ = job(HEADER, "-N2", "--ntasks-per-node=2", "-c3", "--array=4-8:2", "-J", "my job")
    batch = batch_of(found)
    nodes = nodes_of([("id-1", "box7"), ("id-2", "box8")], batch.ranks)
    own = {"GOSCHED_JOB_ID": "j-7.6", "GOSCHED_ARRAY_INDEX": "6", "GOSCHED_ATTEMPT": "3", "GOSCHED_GPUS": "1,3"}
    env = script_variables(batch, nodes, own)
    assert (env["SLURM_JOB_NODELIST"], env["SLURM_TASKS_PER_NODE"], env["SLURM_JOB_CPUS_PER_NODE"]) == (
        "box[7-8]",
        "2(x2)",
        "6(x2)",
    )
    assert (env["SLURM_ARRAY_JOB_ID"], env["SLURM_ARRAY_TASK_ID"], env["SLURM_RESTART_COUNT"]) == ("j-7", "6", "2")
    assert (env["SLURM_JOB_GPUS"], env["SLURM_GPUS_ON_NODE"]) == ("1,3", "2")
    env |= {"SLURM_JOB_USER": "me"}
    assert file_name("%A_%3a-%x.%u.%N.%%", env) == "j-7_006-my job.me.box7.%"
    assert file_name("a\\%j", env) == "a%j"


def test_nodes_with_one_host_name_are_known_by_their_ids() -> None:
    nodes = nodes_of([("a", "box"), ("b", "box"), ("a", "box")], [2, 1, 1])
    assert nodes == (Node(name="a", tasks=(0, 2), ranks=3), Node(name="b", tasks=(1,), ranks=1))


def test_the_record_of_a_batch_job_is_read_again_and_garbage_is_refused() -> None:
    batch = batch_of(job(HEADER, "-n3", "--array=1-2", "--time=5", "--signal=TERM@9")[0])
    assert read(written(batch)) == batch
    assert read(written(batch)[:-1] + ', "later": 1}') == batch
    for wrong in ("[]", "{}", '{"name": "x", "groups": 3}', "nothing"):
        with pytest.raises(ValueError, match=r".+"):
            read(wrong)


def test_a_script_with_line_ends_of_dos_is_refused_before_it_is_submitted() -> None:
    with pytest.raises(ConfigError, match="has the line ends of DOS"):
        job("#!/bin/bash\r\n#SBATCH -n 2\r\nsrun hostname\r\n")
