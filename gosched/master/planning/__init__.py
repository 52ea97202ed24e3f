"""Scheduling cycles: the planner in its thread, its plugins, and the questions it answers in between."""
