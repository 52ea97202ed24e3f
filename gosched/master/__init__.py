"""The front of a master: APIs, leader loop, dispatch. One event loop thread owns the state."""
