"""The state's clock on the command line."""

from __future__ import annotations

import json

from tests.master.test_set_clock import poison


def test_a_clock_that_is_ahead_is_seen_in_the_status_and_set_back(story):
    async def told(master, ctl):
        text = (await ctl("status")).out
        assert "Clock  " not in text
        assert next(line for line in text.splitlines() if line.startswith("MASTER")).endswith("CLOCK")
        assert (await ctl("cluster", "set-clock")).err == "unchanged\n"
        await poison(master)
        text = (await ctl("status")).out
        assert "goschedctl cluster set-clock sets it back" in text
        assert "-315" in text  # millions of seconds
        assert "ahead" in json.loads((await ctl("status", "-o", "json")).out)["clock"]["problem"]
        done = await ctl("cluster", "set-clock")
        assert (done.code, done.err[:38]) == (0, "the state's clock was set back from 20")
        assert "Clock  " not in (await ctl("status")).out

    story(told)
