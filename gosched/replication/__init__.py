"""The replicated log: PySyncObj made safe, in a process of its own, behind `interface.Replication`."""
