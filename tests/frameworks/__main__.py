"""`python -m tests.frameworks [WORDS FOR PYTEST]`: run the tests, and print their table in Markdown."""

import sys
from pathlib import Path

import pytest

sys.exit(pytest.main(["-q", "--tb=short", str(Path(__file__).parent), *sys.argv[1:]]))
