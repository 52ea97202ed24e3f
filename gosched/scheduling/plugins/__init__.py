"""The interface of the planner's plugins, the calls to them, and the filters that are built in."""
