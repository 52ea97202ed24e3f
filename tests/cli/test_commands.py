from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import yaml

from gosched.cli import main
from gosched.cli.status_command import status_text
from gosched.core.records.job import JobState

#: Names and queues, of which one is not there.
THREE = (("a", "default"), ("b", "nope"), ("c", "default"))


def test_submit_prints_the_id_on_stdout_and_a_message_on_stderr(ctl, job_file):
    result = ctl("submit", str(job_file))
    assert (result.code, result.out) == (0, "j-1\n")
    assert result.err == "a: submitted as j-1\n"


def test_submit_shows_warnings_on_stderr(ctl):
    assert "warning: asks for 9 CPUs" in ctl("submit", "--cpu", "9", "--name", "big", "--", "true").err


def test_flags_describe_a_job(ctl, master):
    result = ctl(
        "submit", "--cpu", "500m", "--mem", "2Gi", "--gpu", "h100:2", "--count", "4", "--name", "x", "--env", "A=b=c",
        "--", "./train.sh", "--epochs", "3", "--", "-x",
    )  # fmt: skip
    assert result.code == 0, result.err
    (group,) = master.jobs["j-1"].spec.groups
    assert group.command == ("./train.sh", "--epochs", "3", "--", "-x")
    assert (group.count, group.gpu_model, group.env) == (4, "h100", (("A", "b=c"),))
    assert (group.resources.cpu_millis, group.resources.memory_bytes) == (500, 2 * 1024**3)
    assert group.resources.gpu_millis == 2000


def test_generated_names_differ(ctl, master):
    for _ in range(2):
        assert ctl("submit", "--", "/bin/train.sh").code == 0
    names = [job.spec.name for job in master.jobs.values()]
    assert len(set(names)) == 2
    assert all(name.startswith("train-") for name in names)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["submit", "--count", "0", "--", "true"], "--count: is 0; it must be at least 1"),
        (["submit", "--count", "-2", "--", "true"], "--count: is -2; it must be at least 1"),
        (["submit", "--mem", "2", "--", "true"], "--mem: needs a unit"),
        (["submit", "--cpu", "x", "--", "true"], "--cpu: expected a number of CPUs"),
        (["submit", "--volume", "/a:/b", "--", "true"], "--volume: does not apply to the runtime process: it sees"),
        (["submit", "--name", "a\nb", "--", "true"], "--name: 'a\\nb' may hold only letters"),
        (["submit", "--env", "x", "--", "true"], "expected KEY=VALUE"),
        (["submit"], "nothing to submit"),
        (["submit", "--"], "command after -- is empty"),
        (["submit", "/no/such.yaml"], "No such file"),
        (["submit", "x.yaml", "--", "true"], "not both"),
        (["submit", "python", "train.py"], "put -- before the command: goschedctl submit -- python train.py"),
        (
            ["submit", "--cpu", "2", "python", "train.py", "--lr", "1"],
            "put -- before the command: goschedctl submit --cpu 2 -- python train.py --lr 1",
        ),
        (["run", "sh", "-c", "echo hi"], "put -- before the command: goschedctl run -- sh -c 'echo hi'"),
        (["submit", "sh"], "sh is a program, not a job file; to run it as a job: goschedctl submit -- sh"),
        (["submit", "x.yaml", "--cpuu", "3"], "No such option '--cpuu'"),
        (["submit", "x.yaml", "y.yaml"], "unexpected extra argument"),
        (["submit", "--set", "cuont=3", "--", "true"], '--set cuont: unknown key (did you mean "count"?)'),
        (["submit", "--set", "count", "--", "true"], "--set: expected KEY=VALUE"),
        (["submit", "--env", "NOT_SET_HERE", "--", "true"], "--env: 'NOT_SET_HERE' is not set here"),
        (["run"], "nothing to run"),
        (["submt"], 'did you mean "submit"'),
        (["job", "list", "-o", "jsn"], "is not one of"),
        (["submit", "--timeout", "90", "--", "true"], "--timeout: expected a duration with a unit"),
        (
            ["submit", "--estimate", "2h", "--timeout", "1h", "--", "true"],
            "--estimate: is beyond the timeout",
        ),
        (["submit", "--array", "9-0", "--", "true"], "--array: 9-0/1 must ascend"),
        (["submit", "--array", "0-9%x", "--", "true"], "--array: expected a range"),
        (["submit", "--array", "0-9%0", "--", "true"], "--array: expected at least 1, got 0"),
        (["submit", "--after", "etl:sucess", "--", "true"], 'did you mean "success"'),
        (["submit", "--deadline", "tomorrow", "--", "true"], "--deadline: expected a time with its offset"),
        (["run", "--hold", "--", "true"], "--hold"),
        (["job", "wait", "a", "--timeout", "5 parsecs"], "--timeout: expected a duration"),
        (["job", "list", "-l", "x"], "expected KEY=VALUE"),
        (["config", "validate", "/no/such.yaml"], "No such file"),
        (["--endpoints", "nonsense", "status"], "host:port"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(ctl, master, args, words):
    result = ctl(*args)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert master.calls == []


def test_several_documents_are_submitted_in_order_and_all_or_none_parse(ctl, master, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text("name: a\nrun: x\n---\nname: b\nrun: y\n")
    assert ctl("submit", str(path)).out == "j-1\nj-2\n"
    path.write_text("name: c\nrun: x\n---\nname: d\nrn: y\n")
    result = ctl("submit", str(path))
    assert (result.code, len(master.jobs)) == (2, 2)
    assert f"{path}:5: rn: unknown key" in result.err


def test_jobs_of_a_file_are_one_request_and_one_that_is_not_taken_is_code_1(ctl, master, tmp_path):
    path = tmp_path / "three.yaml"
    path.write_text("".join(f"---\nname: {name}\nqueue: {queue}\nrun: x\n" for name, queue in THREE))
    result = ctl("submit", str(path), "--request-id", "r-1")
    assert (result.code, result.out) == (1, "j-1\nj-2\n")
    assert result.err == 'a: submitted as j-1\nb: not submitted: no queue "nope"\nc: submitted as j-2\n'
    assert [call for call in master.calls if call.startswith("Submit")] == ["SubmitJobs"]
    again = ctl("submit", str(path), "--request-id", "r-1", "-o", "json")
    assert [job["id"] for job in json.loads(again.out)] == ["j-1", "j-2"]
    assert len(master.jobs) == 2


def test_more_jobs_than_a_master_reads_are_read_here_and_submitted_by_a_hundred(ctl, master, tmp_path):
    path = tmp_path / "many.yaml"
    path.write_text("".join(f"---\nname: job-{i}\nlabels: {{pad: {'x' * 60}}}\nrun: x\n" for i in range(3000)))
    assert path.stat().st_size > 256 * 1024
    result = ctl("submit", str(path))
    assert (result.code, len(result.out.split()), len(master.jobs)) == (0, 3000, 3000)
    assert [call for call in master.calls if call.startswith("Submit")] == ["SubmitJobs"] * 30


def test_a_file_that_was_cut_off_goes_on_with_its_request_id(ctl, master, tmp_path, monkeypatch):
    monkeypatch.setattr("gosched.client.reading.PART_JOBS", 2)
    monkeypatch.setattr("gosched.cli.connect.CONNECT_S", 0.3)
    path = tmp_path / "five.yaml"
    path.write_text("".join(f"---\nname: job-{i}\nrun: x\n" for i in range(5)))
    master.cut_off_after = 1
    result = ctl("submit", str(path), "--request-id", "r-1")
    assert result.code == 5
    assert result.err.startswith("job-0: submitted as j-1\njob-1: submitted as j-2\n")
    master.cut_off_after = None
    monkeypatch.setattr("gosched.cli.connect.CONNECT_S", 10.0)  # now there is an answer to wait for
    again = ctl("submit", str(path), "--request-id", "r-1")
    assert (again.code, again.out.split(), len(master.jobs)) == (0, [f"j-{i}" for i in range(1, 6)], 5)


def test_refusal_of_the_cluster_is_code_1(ctl):
    result = ctl("submit", "-q", "nope", "--", "true")
    assert (result.code, result.out, result.err) == (1, "", 'goschedctl: no queue "nope"\n')


def test_denied_is_code_4(ctl, master):
    master.failures = [grpc.StatusCode.PERMISSION_DENIED]
    assert ctl("status").code == 4


def test_unreachable_is_code_5(capfd, monkeypatch):
    monkeypatch.setattr("gosched.cli.connect.CONNECT_S", 0.3)
    monkeypatch.setenv("GOSCHED_ENDPOINTS", "127.0.0.1:1")
    assert main.run_cli(["status"]) == 5
    assert capfd.readouterr().err.startswith("goschedctl: no master ")


@pytest.mark.parametrize(("exit_code", "expected"), [(None, 1), (7, 7), (137, 137)])
def test_wait_returns_the_code_of_the_job(ctl, master, job_file, exit_code, expected):
    ctl("submit", str(job_file))
    master.put("j-1", master.jobs["j-1"].spec, JobState.FAILED, exit_code)
    master.views = [[(JobState.FAILED, 5)], [(JobState.FAILED, 5)]]
    assert ctl("job", "wait", "a").code == expected
    assert ctl("job", "wait", "j-1").code == expected


def test_submit_wait_shows_each_phase_once_as_plain_lines(ctl, master, job_file):
    master.views = [[(JobState.PENDING, 1), (JobState.PENDING, 2), (JobState.RUNNING, 3), (JobState.SUCCEEDED, 4)]]
    result = ctl("submit", "--wait", str(job_file))
    assert result.code == 0
    assert result.err.splitlines() == [
        "a: submitted as j-1",
        "a: queued: needs 8 CPUs; 4 are free",
        "a: placed 0/2",
        "a: succeeded",
    ]


def test_wait_with_timeout_is_code_124(ctl, master, job_file):
    ctl("submit", str(job_file))
    master.frozen = True
    result = ctl("job", "wait", "a", "--timeout", "300ms")
    master.frozen = False
    assert result.code == 124


def test_run_prints_the_output_and_returns_the_code(ctl, master):
    master.log = b"hello\nworld"
    result = ctl("run", "--name", "r", "--", "echo", "hello")
    assert (result.code, result.out) == (0, "hello\nworld")


def test_logs_of_several_tasks_have_their_names_before_whole_lines(ctl, master, job_file):
    ctl("submit", str(job_file))
    master.log = b"first line\nsecond line\nrest"
    result = ctl("logs", "a")
    assert result.out == "task/0 | first line\ntask/0 | second line\ntask/0 | rest\n"
    assert ctl("logs", "a", "--task", "task/0").out == "first line\nsecond line\nrest"


def test_status_json_has_the_keys_of_the_contract(ctl):
    shape = json.loads(ctl("status", "-o", "json").out)
    keys = "leader epoch revision masters nodes nodes_ready jobs pending running resources queues"
    assert set(keys.split()) <= set(shape)
    assert set(shape["masters"][0]) >= {"id", "address", "role", "healthy"}
    assert shape["resources"]["total"]["cpu"] == 8.5
    assert yaml.safe_load(ctl("status", "-o", "yaml").out) | {"clock": shape["clock"]} == shape
    text = ctl("status").out
    assert "Leader     master-1 (epoch 3, revision 9)" in text
    assert "State      1.5Ki of 2Gi" in text
    assert (shape["state_bytes"], shape["state_bytes_limit"]) == (1536, 2 << 30)


@pytest.mark.parametrize(
    ("newest", "what"),
    [
        (3, "run goschedctl cluster finalize-upgrade"),
        (2, "upgrade all masters first"),
        (0, "every master must answer first"),
    ],
)
def test_status_says_what_keeps_an_upgrade_from_its_end(ctl, newest, what):
    status = json.loads(ctl("status", "-o", "json").out) | {"feature_level": 2, "newest_feature_level": newest}
    status["masters"][0]["newest_feature_level"] = 3
    assert f"Features   level 2; 3 is available: {what}\n" in status_text(status)


def test_job_show_json_has_the_keys_of_the_contract(ctl, job_file):
    ctl("submit", str(job_file))
    shape = json.loads(ctl("job", "show", "a", "-o", "json").out)
    assert {"id", "name", "queue", "state", "reason", "tasks"} <= set(shape)
    assert (shape["id"], shape["state"], shape["reason"]) == ("j-1", "PENDING", "NO_ROOM")
    keys = "id index state node exit_code reason started_at ended_at cpus gpus"
    assert [set(keys.split()) <= set(task) for task in shape["tasks"]] == [True, True]
    assert "needs 8 CPUs; 4 are free" in ctl("job", "show", "a").out


def test_job_list_in_every_output(ctl, job_file):
    for _ in range(3):
        ctl("submit", str(job_file))
    assert ctl("job", "list", "-o", "name").out == "j-3\nj-2\nj-1\n"
    lines = ctl("job", "list").out.splitlines()
    assert lines[0].split() == ["JOB", "NAME", "USER", "QUEUE", "STATE", "TASKS", "AGE", "TIME", "REASON"]
    assert lines[1].split()[:6] == ["j-3", "a", "-", "default", "PENDING", "0/2"]
    assert "PRIORITY" in ctl("job", "list", "-o", "wide").out.splitlines()[0]
    assert [job["id"] for job in json.loads(ctl("job", "list", "-o", "json").out)] == ["j-3", "j-2", "j-1"]
    assert ctl("job", "list", "--state", "failed", "-o", "json").out == "[]\n"


def test_node_list_filters_by_label(ctl):
    assert ctl("node", "list", "-l", "zone=a", "-o", "name").out == "n-1\n"
    assert ctl("node", "list", "-l", "zone=b", "-o", "name").out.strip() == ""


def test_cancel_goes_on_after_an_unknown_job_and_returns_1(ctl, job_file):
    ctl("submit", str(job_file))
    result = ctl("job", "cancel", "nobody", "a")
    assert result.code == 1
    assert "j-1: cancelled" in result.err
    assert 'goschedctl: no job "nobody"' in result.err


def test_submit_reads_standard_input(master, tmp_path):
    command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", master.address, "submit", "-"]
    done = subprocess.run(command, input=b"name: a\nrun: x\n", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"j-1\n")


def test_example_config_is_valid_as_it_stands(ctl):
    for name, kind in (("gosched.yaml", "a master"), ("agent.yaml", "an agent")):
        result = ctl("config", "validate", str(Path(__file__).parents[2] / "config" / name))
        assert result.code == 0
        assert f"valid config of {kind}" in result.err


def test_context_file_names_the_masters(master, tmp_path, monkeypatch, capfd):
    path = tmp_path / "context.yaml"
    path.write_text(f"endpoints: {master.address}\n")
    monkeypatch.setenv("GOSCHED_CONTEXT", str(path))
    assert main.run_cli(["status", "-o", "name"]) == 0
    assert capfd.readouterr().out == "master-1\n"
    path.write_text("endpoint: x\n")
    assert main.run_cli(["status"]) == 2
    assert 'did you mean "endpoints"' in capfd.readouterr().err


def test_version_loads_no_heavy_library():
    script = (
        "import sys; from gosched.cli.main import run_cli; run_cli(['version', '--client']);"
        "print([m for m in ('grpc', 'pydantic', 'yaml', 'rich', 'google') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("[]\n")


def test_spark_submit_makes_a_job_of_its_options(ctl, master):
    result = ctl(
        "spark-submit", "--deploy-mode", "cluster", "--num-executors", "3", "-v", "/apps/a.py", "--num-executors", "9"
    )
    assert (result.code, result.out) == (0, "j-1\n"), result.err
    driver, executor = master.jobs["j-1"].spec.groups
    assert executor.count == 3
    assert driver.command[-3:] == ("/apps/a.py", "--num-executors", "9")
    assert '"executors"' in result.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--keytab", "k", "a.py"], "--keytab: not supported: give the driver a ticket"),
        (["--master", "yarn", "a.py"], "--master: expected gosched://HOST:PORT"),
        (["--kill", "j-1", "a.py"], "--kill: not supported: goschedctl job cancel JOB"),
        (["a.jar"], "name its main class with --class"),
        ([], "Missing argument 'APP'"),
    ],
)
def test_spark_submit_refuses_by_name(ctl, words, problem):
    result = ctl("spark-submit", *words)
    assert result.code == 2
    assert problem in result.err


def test_spark_submit_says_which_properties_file_it_cannot_read(ctl, tmp_path):
    (tmp_path / "p").write_bytes(b"spark.a \xe9\n")
    for name, problem in (("p", "is no UTF-8 (byte 8)"), ("none", "no such file")):
        result = ctl("spark-submit", "--properties-file", str(tmp_path / name), "/apps/a.py")
        assert result.code == 2
        assert problem in result.err.lower().replace("utf-8", "UTF-8")
