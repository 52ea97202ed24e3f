"""Scenario tables for the planner: README.md teaches their notation."""
