"""`goschedctl`: the commands, and how every failure becomes one line and an exit code.

Invariant: a command's module is imported only when that command runs, so the others start fast.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from typing import TextIO

import click
from click.shell_completion import CompletionItem

from gosched import __version__
from gosched.cli.connect import Named
from gosched.cli.output import say
from gosched.config.errors import ConfigError, suggestion
from gosched.programs import missing_package

UNREACHABLE = 5
VARIABLE = "_GOSCHEDCTL_COMPLETE"  # click's name: a shell sets it to ask for completions
_CANNOT_WRITE = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
_ROOT_OPTIONS = ("--endpoints", "--context")
_ROOT_PREFIXES = tuple(f"{option}=" for option in _ROOT_OPTIONS)

OWN = {
    "status": "Show the cluster at a glance.",
    "submit": "Submit the jobs of a file, or one job described by flags.",
    "run": "Run a command as a job: submit it, follow its output, return its exit code.",
    "plan": "Show what would happen to jobs if they were submitted now.",
    "explain": "Show why a job waits and when it starts, or where it runs.",
    "job": "List, show and control jobs, wait for them, check job files.",
    "node": "List, show, cordon, drain, label, taint and remove nodes.",
    "top": "Show what nodes, jobs and queues use now.",
    "cluster": "List and change the masters, back up and restore, check and finish an upgrade, set the clock back.",
    "queue": "List, show and replace queues.",
    "quota": "List, replace and set the quotas of tenants.",
    "access": "List and set who may do what.",
    "token": "Make, list and revoke tokens, with which programs call on your behalf.",
    "secret": "Set, list and delete secrets of tenants, which tasks get.",
    "reservation": "Reserve nodes for queues and tenants, or for maintenance, for a time.",
    "events": "Show what has happened, and follow what happens.",
    "logs": "Print what a job's tasks wrote.",
    "exec": "Run a command next to a running task, such as a shell with -it.",
    "checkpoint-done": "Report, from inside a task, that its checkpoint is written.",
    "local": "Run a whole cluster on this machine.",
    "config": "Name clusters (contexts), and check config files.",
    "login": "Log in at the cluster's OpenID Connect issuer, in a browser on any device.",
    "logout": "Forget the login.",
    "cert": "Make and revoke certificates of masters, agents and clients.",
    "audit": "Check and read the audit logs of masters.",
    "simulate": "Run a trace of jobs through the scheduler, on a virtual clock.",
    "replay": "Plan a past cycle again from a master's log.",
    "completion": "Print the completion script of a shell.",
    "version": "Show the versions of goschedctl, the masters and the agents.",
}
OF_OTHERS = {
    "sbatch": "Submit a batch script of Slurm, with its #SBATCH lines.",
    "salloc": "Run a command or a shell in an allocation, as Slurm's salloc does.",
    "srun": "Run a command as a step of a batch script, as Slurm's srun does.",
    "squeue": "List jobs as Slurm's squeue does.",
    "sinfo": "List nodes as Slurm's sinfo does.",
    "scancel": "Cancel jobs as Slurm's scancel does.",
    "sacct": "List jobs, ended ones too, as Slurm's sacct does.",
    "scontrol": "Show, hold, release and requeue jobs as Slurm's scontrol does.",
    "slurm-aliases": "Install commands by Slurm's names that call goschedctl.",
    "spark-submit": "Run an application of Spark, by the options of Spark's spark-submit.",
    "yarn": "Look at a YARN cluster, submit an application to it, end one.",
    "kube": "Run commands as pods of a Kubernetes cluster.",
    "import": "Make files of gosched out of what other schedulers have.",
    "export": "Make files of other schedulers out of files of gosched.",
}
COMMANDS = OWN | OF_OTHERS


class Noun(click.Group):
    """The top-level commands; each is imported from `gosched.cli.<name>_command` when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gosched.cli.{cmd_name.replace('-', '_')}_command").command
        return _completed(command)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        words = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return words + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in (("Commands", OWN), ("Commands that users of other schedulers know", OF_OTHERS)):
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(
                f"no such command: {args[0]}{suggestion(args[0], COMMANDS) or '; see goschedctl --help'}"
            )
        return super().resolve_command(ctx, args)


@click.command(cls=Noun, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--endpoints", metavar="HOST:PORT,...", help="All masters, or http://HOST:PORT of one.  [env: GOSCHED_ENDPOINTS]"
)
@click.option("--context", metavar="NAME", help="A cluster by its name (goschedctl config).  [env: GOSCHED_CONTEXT]")
@click.version_option(__version__, prog_name="goschedctl")
def cli(endpoints: str | None, context: str | None) -> None:
    """Control a gosched cluster.

    --endpoints and --context may also stand after the command.
    """


def main() -> None:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say, a message says in words for people
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for some in all that is installed
    gc.set_threshold(50_000)  # next to nothing of what is imported is garbage
    code = run_cli(sys.argv[1:])
    gc.freeze()  # at the end of the process nothing of what was imported is looked through once more
    sys.exit(code)


def run_cli(args: list[str]) -> int:
    """Run a command and return its exit code; print one line on stderr for whatever went wrong."""
    named = Named()
    try:
        _completed(cli, deep=False)  # those below as they are needed
        code = cli.main(root_options_first(args), prog_name="goschedctl", standalone_mode=False, obj=named)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _failed(error.format_message(), 2 if isinstance(error, click.UsageError) else error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of our output went away
        _give_up(sys.stdout)
        return 0
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        _give_up(sys.stdout)
        return _failed(f"cannot write the output: {error.strerror}", 1)
    except ConfigError as error:
        return _failed(str(error), 2)
    except ModuleNotFoundError as error:
        if line := missing_package(error, "server"):
            return _failed(line, 2)
        raise
    except Exception as error:
        code = getattr(error, "exit_code", None)  # a GoSchedError; its module takes long to import
        if isinstance(code, int):
            is_lost = code == UNREACHABLE and not getattr(error, "was_reached", False)
            return _failed(f"{error}{named.advice if is_lost else ''}", code)
        raise


def root_options_first(args: list[str]) -> list[str]:
    """Move --endpoints and --context, with their values, before the command; what comes after `--` is not ours."""
    first, rest, left = list[str](), list[str](), list(args)
    while left and left[0] != "--":
        word = left.pop(0)
        if word in _ROOT_OPTIONS and left:
            first += [word, left.pop(0)]
        else:
            (first if word.startswith(_ROOT_PREFIXES) else rest).append(word)
    return [*first, *rest, *left]


def _completed(command: click.Command, *, deep: bool = True) -> click.Command:
    """Return the command; with live names where a shell asks for completions."""
    if VARIABLE not in os.environ:
        return command
    from gosched.cli.live_names import with_live_names

    return with_live_names(command, deep=deep)


def _failed(message: str, code: int) -> int:
    try:
        say(f"goschedctl: {' '.join(message.split())}")
    except OSError:  # stderr cannot be written either: the exit code has to do
        _give_up(sys.stderr)
    return code


def _give_up(stream: TextIO) -> None:
    """Let what is left of the stream go nowhere, so that nothing is said of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
