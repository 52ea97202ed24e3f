"""Bridges to other ecosystems: each is light when it is not used."""
