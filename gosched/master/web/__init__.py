"""The web page of a master."""
