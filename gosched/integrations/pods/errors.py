"""What can go wrong with a pod. Each is one line that says what to do; `exit_code` is what a program ends with."""

from __future__ import annotations


class PodError(Exception):
    """All that is raised here."""

    exit_code = 1


class PodMisused(PodError):
    """Nothing was asked: what the caller gave makes no sense."""

    exit_code = 2


class PodUnreachable(PodError):
    """The API server does not answer, is busy, or says what is no answer. What was asked for may have happened; asking
    again is safe."""

    exit_code = 5


class PodRefused(PodError):
    """The API server understood the request and refused it; nothing was changed."""


class PodNotFound(PodRefused):
    """There is no pod of this name."""


class PodConflict(PodRefused):
    """There is a pod of this name already, or it has changed meanwhile."""


class PodDenied(PodRefused):
    """The caller may not do it, or has not said who it is."""

    exit_code = 4
