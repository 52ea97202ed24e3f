"""Labels that agents give their nodes, and that job files ask for.

Invariant: imports nothing.
"""

from __future__ import annotations

NODE_LABEL = "gosched.io/node"  # the id of the node; of one of Kubernetes, its name
SECRETS_LABEL = "gosched.io/secrets"  # "true": tasks get secrets there, since tenants share no account
RUNTIME_LABEL = "gosched.io/runtime."  # and then the name of a runtime that the node has
