"""`goschedctl`: the commands, and how every failure becomes one line and an exit code.

Invariant: a command's module is imported only when that command runs, so the others start fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from gosched import __version__
from gosched.cli.output import say
from gosched.config.errors import ConfigError, suggestion
from gosched.programs import missing_package

COMMANDS = {
    "status": "Show the cluster at a glance.",
    "submit": "Submit the jobs of a file, or one job described by flags.",
    "run": "Run a command as a job: submit it, follow its output, return its exit code.",
    "plan": "Show what would happen to jobs if they were submitted now.",
    "explain": "Show why a job waits and when it starts, or where it runs.",
    "job": "List, show, cancel, hold, suspend, requeue and wait for jobs.",
    "node": "List, show, cordon, uncordon, drain and remove nodes.",
    "top": "Show what nodes, jobs and queues use now.",
    "cluster": "Change the masters, back up and restore, check and finish an upgrade, set the clock back.",
    "queue": "List, show and replace queues.",
    "quota": "List and set the quotas of tenants.",
    "reservation": "Reserve nodes for queues and tenants, or for maintenance, for a time.",
    "logs": "Print what a job's tasks wrote.",
    "exec": "Run a command next to a running task, such as a shell with -it.",
    "checkpoint-done": "Report, from inside a task, that its checkpoint is written.",
    "local": "Run a whole cluster on this machine.",
    "config": "Check config files.",
    "cert": "Make certificates for masters, agents and clients.",
    "simulate": "Run a trace of jobs through the scheduler, on a virtual clock.",
    "replay": "Plan a past cycle again from a master's log.",
    "completion": "Print the completion script of a shell.",
    "version": "Show the versions of goschedctl, the masters and the agents.",
}


class Noun(click.Group):
    """The top-level commands; each is imported from `gosched.cli.<name>_command` when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"gosched.cli.{cmd_name.replace('-', '_')}_command").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        words = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return words + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

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
@click.version_option(__version__, prog_name="goschedctl")
@click.pass_context
def cli(ctx: click.Context, endpoints: str | None) -> None:
    """Control a gosched cluster."""
    ctx.obj = endpoints


def main() -> None:
    sys.exit(run_cli(sys.argv[1:]))


def run_cli(args: list[str]) -> int:
    """Run a command and return its exit code; print one line on stderr for whatever went wrong."""
    try:
        code = cli.main(args, prog_name="goschedctl", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _failed(error.format_message(), 2 if isinstance(error, click.UsageError) else error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # the reader of our output went away; nothing of it may be written at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigError as error:
        return _failed(str(error), 2)
    except ModuleNotFoundError as error:
        if line := missing_package(error, "server"):
            return _failed(line, 2)
        raise
    except Exception as error:
        code = getattr(error, "exit_code", None)  # a GoSchedError; its module takes long to import
        if isinstance(code, int):
            return _failed(str(error), code)
        raise


def _failed(message: str, code: int) -> int:
    say(f"goschedctl: {' '.join(message.split())}")
    return code


if __name__ == "__main__":
    main()
