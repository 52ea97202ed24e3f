"""The nouns: frozen records, commands, outcomes, the state. Standard library only; no clock, no I/O, no float."""
