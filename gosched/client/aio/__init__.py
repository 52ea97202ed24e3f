"""The client for asyncio: the same calls as `GoSchedClient`, to await."""
