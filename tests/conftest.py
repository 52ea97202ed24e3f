"""What every suite needs of its process."""

import signal

# A shell starts what it runs in the background with SIGINT ignored, and programs pass that on to those that they start:
# tests that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
