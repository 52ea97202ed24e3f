"""What can go wrong with a server of Spark. Each is one line that says what to do."""

from __future__ import annotations


class SparkError(Exception):
    """All that a client of Spark raises."""


class SparkMisused(SparkError):
    """Nothing was asked: what the caller gave makes no sense."""


class SparkUnreachable(SparkError):
    """There is no answer: the application has ended or has not begun, or its server is slow. Asking again is safe."""


class SparkBadAnswer(SparkError):
    """Something has answered with what is no answer to the question."""


class SparkNotFound(SparkError):
    """The server does not know the application, or is too old to be asked."""


class SparkDenied(SparkError):
    """The server wants to know who asks, or does not let it look."""


class SparkRefused(SparkError):
    """The server understood the request and refused it; nothing was changed."""


class SparkTimedOut(SparkError):
    """The caller's own time limit has passed; Spark goes on."""
