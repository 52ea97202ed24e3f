"""What can go wrong with YARN. Each is one line that says what to do; `exit_code` is what a program ends with."""

from __future__ import annotations


class YarnError(Exception):
    """All that a client of YARN raises."""

    exit_code = 1


class YarnMisused(YarnError):
    """Nothing was asked: what the caller gave makes no sense."""

    exit_code = 2


class YarnUnreachable(YarnError):
    """No ResourceManager answers, or none is active. What was asked for may have happened; asking again is safe."""

    exit_code = 5


class YarnTimedOut(YarnError):
    """The caller's own time limit has passed; YARN goes on."""

    exit_code = 124


class YarnBadAnswer(YarnError):
    """A ResourceManager has answered with something that is no answer to the question."""


class YarnRefused(YarnError):
    """A ResourceManager understood the request and refused it; nothing was changed."""


class YarnNotFound(YarnRefused):
    """There is no application of this id: it was never submitted, or YARN has forgotten it."""


class YarnDenied(YarnRefused):
    """The user may not do it, or has not said who it is."""

    exit_code = 4
