"""PySyncObj, and the rules that mend it."""
