"""What every suite needs of its process."""

import signal

# A shell starts what it runs in the background with SIGINT ignored, some starters do so with SIGTERM, and programs pass
# that on to those that they start: tests that stop one would wait for ever, or see what no user sees.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
