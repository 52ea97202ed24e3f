"""Connections between members, and what is said when one opens."""
