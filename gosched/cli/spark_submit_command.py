"""`goschedctl spark-submit`: an application of Spark as a job, by the options that its users know."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from gosched.cli.connect import connect
from gosched.cli.job_input import read_by_master
from gosched.cli.output import emit, say
from gosched.cli.tracing import trace_this
from gosched.config.jobs.draft import JobDraft
from gosched.integrations.spark.submit import REFUSED, Submission, endpoints_of, job_document

_HELP = {
    "class": "The application's main class, of a jar.",
    "name": "The application's name, with which the job's begins.",
    "jars": "Jars for the class paths, by commas.",
    "packages": "Maven coordinates of jars.",
    "exclude-packages": "Packages to leave out.",
    "repositories": "More repositories for --packages.",
    "py-files": "Python files and archives, by commas.",
    "files": "Files for the executors' working directories.",
    "archives": "Archives to unpack for the executors.",
    "driver-memory": "Heap of the driver [1g].",
    "driver-java-options": "Options of the driver's JVM.",
    "driver-library-path": "Library path of the driver.",
    "driver-class-path": "Class path of the driver.",
    "executor-memory": "Heap of each executor [1g].",
    "driver-cores": "Cores of the driver [1].",
    "total-executor-cores": "Cores of all executors.",
    "executor-cores": "Cores of each executor [1].",
    "num-executors": "Number of executors [2].",
    "queue": "The queue of the job.",
}


def _with_options(function: Any) -> Any:
    for option, text in reversed(_HELP.items()):
        function = click.option(f"--{option}", option.replace("-", "_"), metavar="TEXT", help=text)(function)
    for option in REFUSED:
        function = click.option(f"--{option}", option.replace("-", "_"), hidden=True)(function)
    return function


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("app")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--master", metavar="URL", help="gosched://HOST:PORT,... of the masters; else those of the context.")
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="client: print the application's output, and return its exit code; cluster: print the job's id.",
)
@click.option("-c", "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--properties-file", metavar="FILE", type=click.Path(), help="Settings, one on each line.")
@click.option("--supervise", is_flag=True, help="Start the application again when it fails, up to 3 times.")
@click.option("-v", "--verbose", is_flag=True, help="Print the job file, to stderr.")
@_with_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    app: str,
    args: tuple[str, ...],
    master: str | None,
    deploy_mode: str,
    conf: tuple[str, ...],
    properties_file: str | None,
    supervise: bool,
    verbose: bool,
    **options: str | None,
) -> int:
    """Run an application of Spark on the cluster, as a job with a Spark of its own.

    The options are those of Spark's spark-submit. APP is a path on the nodes, or an address that Spark can fetch. The
    driver runs on a node in both modes. What has no place in a job is refused by name.

    \b
    Examples:
      goschedctl spark-submit --num-executors 4 --executor-memory 4g /apps/words.py 10
      goschedctl spark-submit --master gosched://m1:9090,m2:9090 --deploy-mode cluster \\
          --class org.example.Etl --executor-cores 4 --total-executor-cores 64 /apps/etl.jar
    """
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    for name in REFUSED:
        if name in given:
            raise click.UsageError(f"--{name}: not supported: {REFUSED[name]}")
    if master is not None and (endpoints := endpoints_of(master)):
        ctx.find_root().params["endpoints"] = endpoints
    submission = Submission(
        app=app,
        args=args,
        suffix=os.urandom(3).hex(),
        options=given,
        flags=frozenset({"supervise"} if supervise else ()),
        conf=conf,
        properties=_read(properties_file) if properties_file is not None else "",
    )
    text = json.dumps(job_document(submission), indent=2)
    if verbose:
        say(text)
    trace_this(ctx)
    client = connect(ctx)
    (spec,) = read_by_master(client, JobDraft(text=text.encode(), source="spark-submit"))
    if deploy_mode == "client":
        from gosched.cli.run_command import run_to_end

        return run_to_end(client, spec, task="driver/0")
    from gosched.cli.submit_command import submit

    emit(submit(client, spec).job_id)
    return 0


def _read(file: str) -> str:
    """Return the text of a properties file. Raises ConfigError."""
    from gosched.config.errors import ConfigError
    from gosched.config.files import read_file

    try:
        return read_file(file, what="settings of Spark").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"--properties-file: {file} is no UTF-8 (byte {error.start})") from error
