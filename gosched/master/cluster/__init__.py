"""The masters as a cluster: members, feature levels, digests of the state, its clock."""
