"""`goschedctl job validate` and `goschedctl job schema`: job files without a cluster."""

from __future__ import annotations

import json

import click

from gosched.cli.job_input import read_job_file
from gosched.cli.output import counted, emit, say
from gosched.config.errors import ConfigError

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
def validate(files: tuple[str, ...]) -> int:
    """Check job files (- is standard input). Each error is a line with the file, the line, the key and the problem.

    Nothing is sent: whether queues, tenants and nodes are there is what goschedctl plan says.

    Exit code 0: all are valid. 2: some are not.

    \b
    Examples:
      goschedctl job validate job.yaml
      goschedctl job validate *.yaml
    """
    from gosched.config.jobs.job_problems import find_problems

    is_wrong = False
    for file in files:
        try:
            text, source = read_job_file(file)
            specs, problems = find_problems(text, source)
        except ConfigError as error:
            specs, problems = [], [str(error)]
        for problem in problems:
            say(problem)
        if not problems:
            say(f"{source}: {counted(len(specs), 'valid job')}: {', '.join(spec.name for spec in specs)}")
        is_wrong = is_wrong or bool(problems)
    return 2 if is_wrong else 0


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of a job file, by which editors check and complete it.

    \b
    In VS Code, with the YAML extension of Red Hat:
      goschedctl job schema > gosched-job.schema.json
    and as the first line of a job file beside it:
      # yaml-language-server: $schema=gosched-job.schema.json
    """
    from gosched.config.jobs.schema import job_schema

    emit(json.dumps({"$schema": _DIALECT, **job_schema(), "title": "gosched job"}, indent=2, ensure_ascii=False))


commands = {"validate": validate, "schema": schema}
